//! Figure 3a: what more steps of refinement gain and cost.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{Precision, Setup};
use crate::{
    branch::Branch,
    config::ExperimentConfig,
    error::Result,
    evaluation::{Heads, Refiner},
};

/// T, with AP on val2017 in per cent and frames per second on a TITAN Xp as the figure shows them.
pub const STEPS: [(usize, f64, f64); 8] = [
    (0, 38.15, 8.4),
    (1, 38.35, 8.0),
    (2, 38.57, 7.4),
    (4, 38.89, 6.7),
    (8, 39.08, 5.6),
    (16, 39.12, 4.2),
    (32, 39.14, 2.7),
    (64, 39.13, 1.6),
];

/// One T and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TradeRow {
    /// T of Algorithm S1.
    #[serde(rename = "iterations")]
    pub steps: usize,
    /// Of the branch and its training.
    pub seed: u64,
    /// Of the refined detections.
    #[serde(flatten)]
    pub precision: Precision,
    /// Images per second with everything.
    pub frames_per_second: f64,
}

/// The energy model on the test images with each T.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn figure3a(place: &Setup, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<TradeRow>> {
    let energy = place.config.method(ExperimentConfig::ENERGY)?.clone();
    let trained = place.trained(&[energy], seeds, progress)?;
    let mut rows = Vec::new();
    for one in &trained {
        let (Branch::Confidence(head), Some(ascent)) = (&one.branch, &one.ascent) else { continue };
        let refiner = |(steps, ..): (usize, f64, f64)| Refiner { head, ascent: ascent.with_steps(steps) };
        let heads = Heads::refiners(STEPS.into_iter().map(refiner).collect());
        let evaluation = place.evaluate(&place.test, &heads, progress)?;
        for ((steps, ..), refined) in STEPS.into_iter().zip(&evaluation.refined) {
            rows.push(TradeRow {
                steps,
                seed: one.seed,
                precision: place.test.score(&refined.after)?,
                frames_per_second: evaluation.frames_per_second(refined.duration),
            });
        }
    }
    Ok(rows)
}
