//! Table 1 and its supplement: the energy model with several standard deviations of the proposal.

use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::setup::{BranchSpec, placements};
use super::{AveragePrecision, Setup};
use crate::Result;
use crate::config::{AblationConfig, ExperimentConfig};

/// Result of the energy model with one proposal and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// Standard deviations {σ_l} of Eq. 5.
    pub sigmas: Vec<f64>,
    /// Seed of the branch and its training.
    pub seed: u64,
    /// Average precision of the refined detections.
    #[serde(flatten)]
    pub precision: AveragePrecision,
    /// AP before refinement.
    pub ap_before: f64,
    /// Factor of the configured step lengths that was chosen for this proposal on the validation images.
    pub step_factor: f64,
    /// Published AP in per cent.
    #[serde(rename = "published_ap", with = "ebm_eval::json::per_cent")]
    pub published: f64,
}

/// Trains the energy model with every proposal of the supplement's table and measures it on the test images.
///
/// # Errors
/// When a training fails, or data cannot be read.
pub fn table1(setup: &Setup, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<AblationRow>> {
    let mut rows = Vec::new();
    let wanted = ablated(&setup.config, seeds)?;
    setup.check_heads(&wanted)?;
    let of_rows = setup.config.ablation.iter().zip(wanted.chunks((seeds as usize).max(1)));
    for (AblationConfig { sigmas, published }, wanted) in of_rows {
        let trained = setup.trained(wanted, progress)?;
        let found = setup.evaluate(&setup.images.test, &placements(&trained), progress)?.placed;
        for (one, found) in trained.iter().zip(&found) {
            let precision: AveragePrecision = setup.images.test.score(&found.detections)?.into();
            let before = found.before.as_deref().unwrap_or(&found.detections);
            progress.message(&format!("{sigmas:?}, seed {}: AP {:.1}", one.seed, 100.0 * precision.ap));
            rows.push(AblationRow {
                sigmas: sigmas.clone(),
                seed: one.seed,
                precision,
                ap_before: setup.images.test.score(before)?.ap,
                step_factor: one.step_factor.unwrap_or(1.0),
                published: *published,
            });
        }
    }
    Ok(rows)
}

/// Returns the branches of all rows: each proposal with each seed.
fn ablated(config: &ExperimentConfig, seeds: u64) -> Result<Vec<BranchSpec>> {
    let energy = config.method(ExperimentConfig::ENERGY)?;
    let mut wanted = Vec::new();
    for (i, row) in config.ablation.iter().enumerate() {
        let method = energy.with_sigmas(&row.sigmas)?;
        let of_seed =
            |seed| BranchSpec { method: method.clone(), seed, name: format!("ablation-{i:02}-{seed}") };
        wanted.extend((0..seeds).map(of_seed));
    }
    Ok(wanted)
}
