//! Table 1 and its supplement: which standard deviations the proposal should have.

use std::path::Path;

use ebm_data::files::{read_settings, write_atomic};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::{Precision, Workplace, workplace::contenders};
use crate::{
    config::{ConfidenceConfig, ExperimentConfig, ProposalConfig},
    error::{Error, Result},
    method::Method,
};

/// {σ_l} and the AP on val2017 that the supplement prints, per cent.
pub const ABLATION: [(&[f64], f64); 18] = [
    (&[0.01875], 38.07),
    (&[0.0375], 38.47),
    (&[0.075], 37.52),
    (&[0.15], 35.05),
    (&[0.025, 0.1], 38.97),
    (&[0.0375, 0.15], 39.05),
    (&[0.04375, 0.175], 39.07),
    (&[0.05, 0.2], 39.02),
    (&[0.0125, 0.025], 38.19),
    (&[0.025, 0.05], 38.65),
    (&[0.075, 0.15], 37.14),
    (&[0.0125, 0.025, 0.05], 38.61),
    (&[0.025, 0.05, 0.1], 38.95),
    (&[0.0375, 0.075, 0.15], 39.11),
    (&[0.04375, 0.0875, 0.175], 39.00),
    (&[0.05, 0.1, 0.2], 38.76),
    (&[0.0625, 0.125, 0.25], 37.96),
    (&[0.075, 0.15, 0.3], 37.42),
];

/// The energy model trained with one proposal and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// {σ_l} of Eq. 5.
    pub sigmas: Vec<f64>,
    /// Of the branch and its training.
    pub seed: u64,
    /// Of the refined detections.
    #[serde(flatten)]
    pub precision: Precision,
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
pub fn table1(place: &Workplace, seeds: u64, progress: &mut dyn Progress) -> Result<Vec<AblationRow>> {
    let mut rows = Vec::new();
    let wanted = |i: usize, seed: u64| (Method::Ebm, seed, format!("ablation-{i:02}-{seed}"));
    let configs = ABLATION.map(|(sigmas, _)| {
        let config = place.config().clone();
        ExperimentConfig { ebm: with_sigmas(&config.ebm, sigmas), ..config }
    });
    let every = configs.iter().enumerate();
    let every = every.flat_map(|(i, config)| (0..seeds).map(move |seed| (wanted(i, seed), config.clone())));
    place.check_heads(&every.collect::<Vec<_>>())?;
    for (i, ((sigmas, published), config)) in ABLATION.into_iter().zip(&configs).enumerate() {
        let mut factor = None;
        for seed in 0..seeds {
            let wanted = wanted(i, seed);
            let kept = place.run.join(&wanted.2).join(ROW_FILE);
            if let Some(row) = measured(place, &kept)? {
                factor = factor.or(Some(row.step_factor));
                rows.push(row);
                continue;
            }
            let mut trained = place.train(config, &wanted, progress)?;
            let step_factor = match factor {
                Some(factor) => factor,
                None => place.step_factor(&trained, progress)?,
            };
            factor = Some(step_factor);
            trained.ascent = trained.ascent.map(|ascent| ascent.scaled(step_factor));
            let evaluation = place.evaluate(&place.test, &contenders(&[trained]), progress)?;
            for refined in &evaluation.refined {
                let precision = place.test.score(&refined.after)?;
                let ap_before = place.test.score(&refined.before)?.ap;
                let sigmas = sigmas.to_vec();
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
fn measured(place: &Workplace, path: &Path) -> Result<Option<AblationRow>> {
    if !place.resume || !path.is_file() {
        return Ok(None);
    }
    let row = serde_json::from_str(&read_settings(path)?).map_err(|error| unreadable(path, &error))?;
    Ok(Some(row))
}

fn unreadable(path: &Path, error: &serde_json::Error) -> Error {
    let reason = format!("{error}; remove the file and the row is measured again");
    Error::Config { name: path.display().to_string(), reason }
}

/// The same branch with another proposal.
pub(super) fn with_sigmas(branch: &ConfidenceConfig, sigmas: &[f64]) -> ConfidenceConfig {
    let proposal = ProposalConfig::Gaussian { sigmas: sigmas.to_vec() };
    ConfidenceConfig { proposal, ..branch.clone() }
}
