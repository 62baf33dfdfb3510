//! The supplement's grid search for λ and η, on the validation images.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{STEP_FACTORS, Workplace};
use crate::{
    branch::Branch,
    error::Result,
    evaluation::{Contenders, Refiner},
    inference::BoxAscent,
    method::Method,
};

/// Of the lengths for size by those for position, around the configured ratio; beside [`STEP_FACTORS`] of both …
const RATIOS: [f64; 3] = [0.25, 1.0, 4.0];
/// … and η.
const DECAYS: [f64; 3] = [0.2, 0.5, 0.8];

/// A method with some settings of Algorithm S1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLengthRow {
    /// The method.
    pub method: Method,
    /// λ of the first two coordinates: position, or the upper left corner.
    #[serde(rename = "step_position")]
    pub position: f64,
    /// λ of the other two: size, or the lower right corner.
    #[serde(rename = "step_size")]
    pub size: f64,
    /// η.
    #[serde(rename = "step_decay")]
    pub decay: f64,
    /// AP on the validation images, 0 to 1.
    #[serde(with = "ebm_eval::json::or_null")]
    pub ap: f64,
}

/// Every combination for seed 0 of each of `methods` that climbs.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn step_lengths(
    place: &Workplace,
    methods: &[Method],
    progress: &mut dyn Progress,
) -> Result<Vec<StepLengthRow>> {
    let mut rows = Vec::new();
    let wanted = |method: Method| (method, 0, format!("{}-0", method.key()));
    let climbing = methods.iter().copied().filter(|&method| place.config().confidence(method).is_some());
    let every = climbing.map(|method| (wanted(method), place.config().clone()));
    place.check_heads(&every.collect::<Vec<_>>())?;
    for &method in methods {
        let Some(configured) = place.config().confidence(method) else { continue };
        let trained = place.train(place.config(), &wanted(method), progress)?;
        let Branch::Confidence(head) = &trained.branch else { continue };
        let trials = grid(&configured.ascent());
        let refiner = |ascent: &BoxAscent| Refiner { head, ascent: ascent.clone() };
        let contenders = Contenders::refiners(trials.iter().map(refiner).collect());
        let evaluation = place.evaluate(&place.validation, &contenders, progress)?;
        for (BoxAscent { ascent, .. }, refined) in trials.iter().zip(&evaluation.refined) {
            let [position, .., size] = ascent.step_length[..] else { continue };
            let ap = place.validation.score(&refined.after)?.ap;
            rows.push(StepLengthRow { method, position, size, decay: ascent.decay, ap });
        }
    }
    Ok(rows)
}

/// The configured ascent with every combination of factor, ratio and η.
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
