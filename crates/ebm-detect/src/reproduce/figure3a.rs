//! Figure 3a: what more steps of refinement gain and cost.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{AveragePrecision, Setup, setup::Wanted};
use crate::{
    Error, Result,
    config::ExperimentConfig,
    evaluation::{Heads, Refiner},
};

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
    pub precision: AveragePrecision,
    /// Images per second with everything.
    pub frames_per_second: f64,
}

/// The energy model on the test images with each T of [`ExperimentConfig::figure3a`].
///
/// # Errors
/// When there is no point, a training fails, or data can not be read.
pub fn figure3a(setup: &Setup, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<TradeRow>> {
    let config = &setup.config;
    let steps: Vec<usize> = config.figure3a.iter().map(|point| point.steps).collect();
    if steps.is_empty() {
        return Err(Error::config("figure3a", "the figure needs at least one point"));
    }
    let trained =
        setup.trained(&Wanted::all(&[config.method(ExperimentConfig::ENERGY)?.clone()], seeds), progress)?;
    let mut rows = Vec::new();
    for one in &trained {
        let Some(Refiner { head, ascent }) = one.refiner() else { continue };
        let refiner = |&steps: &usize| Refiner { head, ascent: ascent.with_steps(steps) };
        let heads = Heads::refiners(steps.iter().map(refiner).collect());
        let evaluation = setup.test.evaluate(&setup.detector, &heads, &setup.study.device, progress)?;
        for (&steps, refined) in steps.iter().zip(&evaluation.refined) {
            rows.push(TradeRow {
                steps,
                seed: one.seed,
                precision: setup.test.score(&refined.after)?.into(),
                frames_per_second: evaluation.frames_per_second(refined.duration),
            });
        }
    }
    Ok(rows)
}
