//! Table 1 and its supplement: which standard deviations the proposal should have.

use std::path::Path;

use ebm_data::files::{read_settings, write_atomic};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{
    AveragePrecision, Setup,
    setup::{Wanted, heads},
};
use crate::{
    Error, Result,
    config::{AblationConfig, ExperimentConfig},
};

/// The energy model trained with one proposal and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// {σ_l} of Eq. 5.
    pub sigmas: Vec<f64>,
    /// Of the branch and its training.
    pub seed: u64,
    /// Of the refined detections.
    #[serde(flatten)]
    pub precision: AveragePrecision,
    /// AP before refinement.
    pub ap_before: f64,
    /// The factor of the configured step lengths that the validation images chose for this proposal.
    pub step_factor: f64,
    /// AP in the paper, per cent.
    #[serde(rename = "published_ap", with = "ebm_eval::json::per_cent")]
    pub published: f64,
}

/// Trains the energy model with every proposal of the supplement's table and measures it on the test images.
///
/// # Errors
/// When a training fails, or data can not be read.
pub fn table1(setup: &Setup, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<AblationRow>> {
    let mut rows = Vec::new();
    let wanted = ablated(&setup.config, seeds)?;
    setup.check_heads(&wanted)?;
    for (AblationConfig { sigmas, published }, wanted) in
        setup.config.ablation.iter().zip(wanted.chunks((seeds as usize).max(1)))
    {
        let mut factor = None;
        for wanted in wanted {
            let seed = wanted.seed;
            let kept = setup.study.run.join(&wanted.name).join(ROW_FILE);
            if let Some(row) = measured(setup, &kept)? {
                factor = factor.or(Some(row.step_factor));
                rows.push(row);
                continue;
            }
            let mut trained = setup.train(wanted, progress)?;
            let step_factor = match factor {
                Some(factor) => factor,
                None => setup.step_factor(&trained, progress)?,
            };
            factor = Some(step_factor);
            setup.climb_by(step_factor, &mut trained)?;
            let evaluation = setup.evaluate(&setup.test, &heads(&[trained]), progress)?;
            for refined in &evaluation.refined {
                let precision = setup.test.score(&refined.after)?;
                let ap_before = setup.test.score(&refined.before)?.ap;
                let (sigmas, published) = (sigmas.clone(), *published);
                progress.message(&format!("{sigmas:?}, seed {seed}: AP {:.1}", 100.0 * precision.ap));
                let row = AblationRow { sigmas, seed, precision, ap_before, step_factor, published };
                let text = serde_json::to_vec(&row).map_err(|error| unreadable(&kept, &error))?;
                write_atomic(&kept, &text)?;
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// A row's file in the directory of its training.
const ROW_FILE: &str = "row.json";

/// What an interrupted run had measured already.
fn measured(setup: &Setup, path: &Path) -> Result<Option<AblationRow>> {
    if !setup.study.resume || !path.is_file() {
        return Ok(None);
    }
    let row = serde_json::from_str(&read_settings(path)?).map_err(|error| unreadable(path, &error))?;
    Ok(Some(row))
}

fn unreadable(path: &Path, error: &serde_json::Error) -> Error {
    Error::input(path.display(), format!("{error}; remove the file and the row is measured again"))
}

/// The branches of all rows: of each proposal with each seed.
fn ablated(config: &ExperimentConfig, seeds: u64) -> Result<Vec<Wanted>> {
    let energy = config.method(ExperimentConfig::ENERGY)?;
    let mut wanted = Vec::new();
    for (i, row) in config.ablation.iter().enumerate() {
        let method = energy.with_sigmas(&row.sigmas)?;
        let of_seed = |seed| Wanted { method: method.clone(), seed, name: format!("ablation-{i:02}-{seed}") };
        wanted.extend((0..seeds).map(of_seed));
    }
    Ok(wanted)
}
