//! Views of the first frame, from which the classifier learns.

use candle_core::{Device, Tensor};
use ebm_data::Image;
use ebm_data::patch::{PatchGeometry, PatchSampler, first_frame_views};
use ebm_data::sequences::Rect;
use rand::{Rng, RngCore};

use super::config::TrackerConfig;
use super::target::Target;
use crate::backbone::{Backbone, BackboneFeatures};
use crate::classifier::Classifier;
use crate::{Error, Result};

/// Views of the first frame.
pub(super) struct FirstFrame {
    /// Features of the plain crop.
    pub reference: BackboneFeatures,
    /// Box of the target in the plain crop.
    pub reference_box: Rect,
    /// Normalised layer3 of all views `(N, C, H, H)`. Copies with dropped channels come last; they were normalised
    /// before the dropout.
    pub views: Tensor,
    /// Position of the target in each view, as (y, x) cells from the centre.
    pub offsets: Vec<[f64; 2]>,
}

/// Computes ATOM's views of the target: plain, shifted, mirrored, blurred, rotated, and with dropped channels.
pub(super) fn first_frame(
    backbone: &Backbone,
    sampler: &mut PatchSampler,
    image: &Image,
    target: &Target,
    config: &TrackerConfig,
    device: &Device,
    rng: &mut dyn RngCore,
) -> Result<FirstFrame> {
    // Twice the region, so that a shifted view shows the image beyond the crop.
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
        return Err(Error::config("of the tracker", "there is no view of the first frame"));
    };
    offsets.extend(vec![[0.0; 2]; config.dropout_copies]);
    let views = with_dropped(&Tensor::cat(&maps, 0)?, config.dropout_copies, config.dropout, rng)?;
    let margin = (side / 2) as f64;
    let [x, y, width, height] = target.in_patch(&geometry);
    let reference_box = [x - margin, y - margin, width, height];
    Ok(FirstFrame { reference, reference_box, views, offsets })
}

/// Normalises `maps` `(N, C, H, W)` and appends `copies` of the first map, in which each channel is zero with
/// probability `p`, else scaled by 1 / (1 − p). As in ATOM, channels are dropped after the normalisation.
fn with_dropped(maps: &Tensor, copies: usize, p: f64, rng: &mut dyn RngCore) -> Result<Tensor> {
    let maps = Classifier::normalised(maps)?;
    let (channels, keep) = (maps.dim(1)?, (1.0 - p).recip() as f32);
    let factors = (0..copies * channels).map(|_| if rng.random_bool(p) { 0.0 } else { keep }).collect();
    let factors = Tensor::from_vec(factors, (copies, channels, 1, 1), maps.device())?;
    let dropped = maps.narrow(0, 0, 1)?.broadcast_mul(&factors)?;
    Ok(Tensor::cat(&[&maps, &dropped], 0)?)
}

#[cfg(test)]
mod tests {
    use ebm_base::Key;

    use super::*;

    /// Two channels of one cell, 3 and 4, have a mean square of 12.5. With p = 0.5, a channel that stays is doubled to
    /// 6 / √12.5 or 8 / √12.5, independent of the other channel. If normalisation came last, a single channel would be
    /// √2.
    #[test]
    fn channels_are_dropped_after_the_normalisation() {
        let map = Tensor::new(&[[[[3f32]], [[4.0]]]], &Device::Cpu).unwrap();
        let views = with_dropped(&map, 64, 0.5, &mut Key::new(1).rng()).unwrap();
        let views = views.flatten_from(1).unwrap().to_vec2::<f32>().unwrap();
        let (root, mut seen) = (12.5f32.sqrt(), [0; 4]);
        assert!((views[0][0] - 3.0 / root).abs() < 1e-6 && views.len() == 65);
        for dropped in &views[1..] {
            let stays = [dropped[0] != 0.0, dropped[1] != 0.0];
            for (value, expected) in dropped.iter().zip([6.0 / root, 8.0 / root]) {
                assert!(*value == 0.0 || (value - expected).abs() < 1e-5, "{dropped:?}");
            }
            seen[usize::from(stays[0]) + 2 * usize::from(stays[1])] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}
