//! Accuracy of a box module's refinement without a tracker, and the choice of step lengths on held-out boxes.

use ebm_base::Key;
use ebm_core::{PerturbedBoxes, Proposal};
use ebm_eval::tracking::overlap;
use ebm_experiment::best;
use ebm_train::Progress;

use crate::Result;
use crate::box_module::{BoxModule, BoxNetwork, TargetFeatures, rects};
use crate::config::ExperimentConfig;
use crate::method::{MethodConfig, Refinement};
use crate::tracker::{BoxConfig, refine_box};
use crate::training::PairFeatures;

/// Returns, for each of `refinements`, the IoU with the true box before and after refinement of one perturbed box in
/// each test crop. Boxes are refined as in the tracker, and all refinements start from the same boxes.
pub(super) fn box_accuracy(
    network: &BoxModule,
    batches: impl IntoIterator<Item = Result<PairFeatures>>,
    refinements: &[Refinement],
    config: &BoxConfig,
) -> Result<Vec<Vec<[f64; 2]>>> {
    let key = Key::new(0).split("accuracy");
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
                let own = features.test.crop(i)?;
                let refined = refine_box(network, own, start, refinement, config, device, &mut rng)?;
                let after = refined.map_or(start, |(bbox, _)| bbox);
                overlaps.push([start, after].map(|bbox| overlap(&bbox, truth)));
            }
        }
    }
    Ok(overlaps)
}

/// Returns the factor of the step lengths of `method` with the highest mean IoU on `held_out`, or 1 without pairs.
///
/// # Errors
/// When the network refuses.
pub(crate) fn best_step_factor(
    config: &ExperimentConfig,
    method: &MethodConfig,
    network: &BoxModule,
    held_out: &[PairFeatures],
    progress: &mut dyn Progress,
) -> Result<f64> {
    if held_out.is_empty() {
        return Ok(1.0);
    }
    let refinements: Vec<_> =
        config.step_factors.iter().map(|&factor| method.refinement.scaled(factor)).collect();
    let batches = held_out.iter().cloned().map(Ok);
    let found = box_accuracy(network, batches, &refinements, &config.tracker.boxes)?;
    let mean = |overlaps: &Vec<[f64; 2]>, which: usize| {
        overlaps.iter().map(|pair| pair[which]).sum::<f64>() / overlaps.len() as f64
    };
    for (factor, overlaps) in config.step_factors.iter().zip(&found) {
        let [before, after] = [0, 1].map(|which| mean(overlaps, which));
        progress.message(&format!(
            "{}: step lengths × {factor}: IoU {before:.3}, refined {after:.3}",
            method.key
        ));
    }
    let best = best(&config.step_factors, found.iter().map(|overlaps| mean(overlaps, 1)));
    Ok(best.map_or(1.0, |(factor, _)| factor))
}
