//! Grid search of the supplement for λ and η, on the validation images.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{Setup, setup::BranchSpec};
use crate::Result;
use crate::config::MethodConfig;
use crate::evaluation::{Placement, STEP_FACTORS};
use crate::inference::BoxAscent;

/// Factors of the configured ratio of the step lengths for size and position.
const RATIOS: [f64; 3] = [0.25, 1.0, 4.0];
/// Values of η.
const DECAYS: [f64; 3] = [0.2, 0.5, 0.8];

/// Result of a method with some settings of Algorithm S1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLengthRow {
    /// Key of the method.
    pub method: String,
    /// λ of the first two coordinates: position, or the upper left corner.
    #[serde(rename = "step_position")]
    pub position: f64,
    /// λ of the last two coordinates: size, or the lower right corner.
    #[serde(rename = "step_size")]
    pub size: f64,
    /// η.
    #[serde(rename = "step_decay")]
    pub decay: f64,
    /// AP on the validation images, 0 to 1.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap: f64,
}

/// Evaluates every combination of settings for each of `methods` that refines boxes, with seed 0.
///
/// # Errors
/// When a training fails, or data cannot be read.
pub fn step_lengths(
    setup: &Setup,
    methods: &[MethodConfig],
    progress: &mut dyn Progress,
) -> Result<Vec<StepLengthRow>> {
    let mut rows = Vec::new();
    let climbing = methods.iter().filter(|method| method.confidence.is_some());
    let wanted: Vec<BranchSpec> = climbing.map(|method| BranchSpec::new(method, 0)).collect();
    setup.check_heads(&wanted)?;
    for wanted in &wanted {
        let trained = setup.train(wanted, progress)?;
        let Some((head, ascent)) = trained.climbing() else { continue };
        let trials = grid(ascent);
        let placements: Vec<_> =
            trials.iter().map(|trial| Placement::Confidence(head, trial.clone())).collect();
        let found = setup.evaluate(&setup.images.validation, &placements, progress)?.placed;
        for (BoxAscent { ascent, .. }, found) in trials.iter().zip(&found) {
            let [position, .., size] = ascent.step_length[..] else { continue };
            let ap = setup.images.validation.score(&found.detections)?.ap;
            let method = wanted.method.key.clone();
            rows.push(StepLengthRow { method, position, size, decay: ascent.decay, ap });
        }
    }
    Ok(rows)
}

/// Returns the configured ascent with every combination of factor, ratio and η.
fn grid(configured: &BoxAscent) -> Vec<BoxAscent> {
    let mut trials = Vec::new();
    for factor in STEP_FACTORS {
        for ratio in RATIOS {
            for decay in DECAYS {
                let mut trial = configured.scaled(factor);
                trial.ascent.step_length.iter_mut().skip(2).for_each(|length| *length *= ratio);
                trial.ascent.decay = decay;
                trials.push(trial);
            }
        }
    }
    trials
}
