//! How well a box module refines boxes, without a tracker around it.

use candle_core::Tensor;
use ebm_core::{GaussianMixture, ImportanceDensity, PerturbedBoxes, Proposal, Tempered};
use ebm_eval::tracking::overlap;
use ebm_seed::Key;

use crate::Result;
use crate::box_module::{BoxNetwork, TargetFeatures, rects};
use crate::method::Refinement;
use crate::tracker::{BoxConfig, refine_box};
use crate::training::PairFeatures;

/// The IoU with the true box before and after refinement, as the tracker refines, of one perturbed box in each
/// test crop: for each of `refinements`, which all begin with the same boxes.
///
/// # Errors
/// When the network refuses.
pub fn box_accuracy<B: BoxNetwork>(
    network: &B,
    batches: impl IntoIterator<Item = Result<PairFeatures>>,
    refinements: &[Refinement],
    config: &BoxConfig,
    key: Key,
) -> Result<Vec<Vec<[f64; 2]>>> {
    let mut overlaps = vec![Vec::new(); refinements.len()];
    for (number, pairs) in (0..).zip(batches) {
        let pairs = pairs?;
        let device = pairs.test_boxes.device();
        let (features, y) = features_of(network, &pairs)?;
        let truth = rects(&pairs.test_boxes)?;
        for (overlaps, refinement) in overlaps.iter_mut().zip(refinements) {
            let mut rng = key.index(number).rng();
            let starts = features.decode(&PerturbedBoxes.sample(&y, 1, &mut rng)?)?.squeeze(1)?;
            for (i, (start, truth)) in rects(&starts)?.into_iter().zip(&truth).enumerate() {
                let own = features.test().crop(i)?;
                let refined = refine_box(network, own, start, refinement, config, device, &mut rng)?;
                let after = refined.map_or(start, |(bbox, _)| bbox);
                overlaps.push([start, after].map(|bbox| overlap(&bbox, truth)));
            }
        }
    }
    Ok(overlaps)
}

/// What f needs of the test crops, and y of the boxes in them.
fn features_of<B: BoxNetwork>(network: &B, pairs: &PairFeatures) -> Result<(TargetFeatures, Tensor)> {
    let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?.detach();
    let all = network.test_features(&pairs.test, &modulation)?.detach();
    let features = TargetFeatures::new(all, &pairs.test_boxes)?;
    let y = features.encode(&pairs.test_boxes.unsqueeze(1)?)?.squeeze(1)?;
    Ok((features, y))
}

/// Importance samples of Z: many more than in training, which sharp peaks between its samples escape.
const SAMPLES: usize = 2048;

/// The mean of −log p(y|x), in nats, of the boxes of `held_out` at each of the `temperatures` (temperature scaling,
/// Guo et al., 2017). p is taken where `proposal` reaches, about each box.
///
/// # Errors
/// When the network refuses.
pub(super) fn nll_at<B: BoxNetwork>(
    network: &B,
    proposal: &GaussianMixture,
    temperatures: &[f64],
    held_out: &[PairFeatures],
    key: Key,
) -> Result<Vec<f64>> {
    let (mut nll, mut count) = (vec![0.0; temperatures.len()], 0_u32);
    for (number, pairs) in (0..).zip(held_out) {
        let (features, y) = features_of(network, pairs)?;
        let f = network.score(&features, &y.unsqueeze(1)?)?.flatten_all()?.to_vec1::<f32>()?;
        count += f.len() as u32;
        for (nll, &temperature) in nll.iter_mut().zip(temperatures) {
            let (model, mut rng) = (Tempered::new(network, temperature)?, key.index(number).rng());
            let found = ImportanceDensity::from_model(&model, &features, proposal, &y, SAMPLES, &mut rng)?;
            let log_p = f.iter().zip(&found).map(|(f, p)| p.log_prob(f64::from(*f) / temperature));
            *nll -= log_p.sum::<f64>();
        }
    }
    Ok(nll.into_iter().map(|nll| nll / f64::from(count)).collect())
}
