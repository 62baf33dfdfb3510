//! What the classifier learns from in the first frame.

use candle_core::{Device, Tensor};
use ebm_data::Image;
use ebm_data::patch::{PatchGeometry, PatchSampler, first_frame_views};
use ebm_data::sequences::Rect;
use rand::{Rng, RngCore};

use super::config::TrackerConfig;
use super::target::Target;
use crate::backbone::{Backbone, BackboneFeatures};
use crate::error::{Error, Result};

/// Views of the first frame.
pub(super) struct FirstFrame {
    /// Of the view that is only a crop.
    pub reference: BackboneFeatures,
    /// The target in it.
    pub reference_box: Rect,
    /// layer3 of all views `(N, C, H, H)`, those with dropped channels at the end.
    pub views: Tensor,
    /// The target's place in each of them, (y, x) cells from the centre.
    pub offsets: Vec<[f64; 2]>,
}

/// Looks at the target in all the ways that ATOM does: as it is, moved, mirrored, blurred, turned, and with channels
/// dropped.
pub(super) fn first_frame(
    backbone: &Backbone,
    sampler: &mut PatchSampler,
    image: &Image,
    target: &Target,
    config: &TrackerConfig,
    device: &Device,
    rng: &mut dyn RngCore,
) -> Result<FirstFrame> {
    // Twice the region, so that a moved view shows what is there.
    let (side, large) = (config.crop, 2 * config.crop);
    let sample = (target.side() * config.search_factor).round().max(1.0);
    let geometry = PatchGeometry::new(target.center, 2.0 * sample, large)?;
    let mut patch = vec![0.0; 3 * large * large];
    sampler.sample(image, &geometry, &mut patch)?;

    let views = first_frame_views(side, rng);
    let mut reference = None;
    let (mut maps, mut offsets) = (Vec::with_capacity(views.len()), Vec::with_capacity(views.len()));
    for view in &views {
        let planes = view.apply(&patch, large, side)?;
        let crop = Tensor::from_vec(planes, (1, 3, side, side), device)?;
        let features = backbone.features(&crop)?;
        let cells = features.layer3.dim(2)? as f64;
        offsets.push(view.shift.map(|pixels| f64::from(pixels) * cells / side as f64));
        maps.push(features.layer3.contiguous()?);
        reference.get_or_insert(features);
    }
    let Some(reference) = reference else {
        let reason = "there is no view of the first frame".to_owned();
        return Err(Error::Config { part: "tracker", reason });
    };
    for _ in 0..config.dropout_copies {
        maps.push(drop_channels(&maps[0], config.dropout, rng)?);
        offsets.push(offsets[0]);
    }
    let margin = (side / 2) as f64;
    let [x, y, width, height] = target.in_patch(&geometry);
    let reference_box = [x - margin, y - margin, width, height];
    Ok(FirstFrame { reference, reference_box, views: Tensor::cat(&maps, 0)?, offsets })
}

/// The map `(1, C, H, W)` with each channel zero with probability `p`, else scaled so that the mean stays.
fn drop_channels(map: &Tensor, p: f64, rng: &mut dyn RngCore) -> Result<Tensor> {
    let channels = map.dim(1)?;
    let keep = (1.0 - p).recip() as f32;
    let factors = (0..channels).map(|_| if rng.random_bool(p) { 0.0 } else { keep }).collect();
    Ok(map.broadcast_mul(&Tensor::from_vec(factors, (1, channels, 1, 1), map.device())?)?)
}
