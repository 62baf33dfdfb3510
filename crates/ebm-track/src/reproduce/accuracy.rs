//! How well a box module refines boxes, without a tracker around it.

use ebm_core::{PerturbedBoxes, Proposal};
use ebm_eval::tracking::overlap;
use ebm_seed::Key;

use crate::box_module::{BoxNetwork, TargetFeatures, rects};
use crate::error::Result;
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
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?.detach();
        let all = network.test_features(&pairs.test, &modulation)?.detach();
        let features = TargetFeatures::new(all, &pairs.test_boxes)?;
        let y = features.encode(&pairs.test_boxes.unsqueeze(1)?)?.squeeze(1)?;
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
