//! Figure 3a: AP and speed for several numbers of refinement steps.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{AveragePrecision, Setup, setup::BranchSpec};
use crate::{Error, Result, config::ExperimentConfig, evaluation::Placement};

/// Result for one T and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TradeRow {
    /// T of Algorithm S1.
    #[serde(rename = "iterations")]
    pub steps: usize,
    /// Seed of the branch and its training.
    pub seed: u64,
    /// Average precision of the refined detections.
    #[serde(flatten)]
    pub precision: AveragePrecision,
    /// Images per second, including all stages.
    pub frames_per_second: f64,
}

/// Measures the energy model on the test images with each T of [`ExperimentConfig::figure3a`].
///
/// # Errors
/// When the settings have no point, a training fails, or data cannot be read.
pub fn figure3a(setup: &Setup, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<TradeRow>> {
    let config = &setup.config;
    let steps: Vec<usize> = config.figure3a.iter().map(|point| point.steps).collect();
    if steps.is_empty() {
        return Err(Error::config("figure3a", "the figure needs at least one point"));
    }
    let trained = setup
        .trained(&BranchSpec::all(&[config.method(ExperimentConfig::ENERGY)?.clone()], seeds), progress)?;
    let mut rows = Vec::new();
    for one in &trained {
        let Some((head, ascent)) = one.climbing() else { continue };
        let placement = |&steps: &usize| Placement::Confidence(head, ascent.with_steps(steps));
        let placements: Vec<_> = steps.iter().map(placement).collect();
        let evaluation = setup.evaluate(&setup.images.test, &placements, progress)?;
        for (&steps, found) in steps.iter().zip(&evaluation.placed) {
            rows.push(TradeRow {
                steps,
                seed: one.seed,
                precision: setup.images.test.score(&found.detections)?.into(),
                frames_per_second: evaluation.frames_per_second(found),
            });
        }
    }
    Ok(rows)
}
