//! Energy models that were trained otherwise than the table's own: the supplement's study of σ, and other
//! objectives.

use ebm_core::GaussianMixture;

use super::heads::{Choice, Entry, choose_step_length, validation_estimates};
use super::results::AblationRow;
use crate::Result;
use crate::config::{EnergyConfig, ExperimentConfig};
use crate::evaluation::absolute_error;
use crate::network::ENERGY;

/// What of the energy model's training is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// σ of the proposal, as in the supplement.
    Sigma,
    /// The objective.
    Objective,
}

/// An energy model of a study, trained with seed 0.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// The name of its run.
    pub name: String,
    /// Its configuration; none where it is the table's own.
    pub config: Option<ExperimentConfig>,
    /// σ_l of its proposal, or nothing where the objective is varied.
    sigmas: Vec<f64>,
    /// The key of its objective, where that is varied; [`ENERGY`] is the table's own.
    objective: Option<String>,
    published: Option<f64>,
}

impl Ablation {
    /// The energy models that it compares.
    pub(super) fn variants(self, config: &ExperimentConfig) -> Result<Vec<Variant>> {
        let with = |objective| {
            let energy = EnergyConfig { objective, ..config.energy.clone() };
            ExperimentConfig { energy, ..config.clone() }
        };
        let own = &config.energy.objective;
        let mut variants = Vec::new();
        match self {
            Self::Sigma => {
                let rows = config.ablation.sigmas.iter().zip(&config.ablation.published);
                for (number, (sigmas, &published)) in rows.enumerate() {
                    let proposal = GaussianMixture::isotropic(sigmas, config.dim())?;
                    let is_own = own.gaussian().as_ref() == Some(&proposal);
                    variants.push(Variant {
                        name: format!("ablation-{number}"),
                        config: (!is_own).then(|| with(own.clone().with_gaussian(proposal))),
                        sigmas: sigmas.clone(),
                        objective: None,
                        published: Some(published),
                    });
                }
            }
            Self::Objective => {
                let row = |key: &str, config| Variant {
                    name: format!("objective-{key}"),
                    config,
                    sigmas: Vec::new(),
                    objective: Some(key.to_owned()),
                    published: None,
                };
                variants.push(row(ENERGY, None));
                let others = config.objectives.iter();
                variants.extend(others.map(|other| row(&other.key, Some(with(other.objective.clone())))));
            }
        }
        Ok(variants)
    }

    /// Refines the baselines of seed 0 among the `entries` on the validation split with each energy model of the study;
    /// `train` trains that of a configuration in the run of a name.
    pub(super) fn rows(
        self,
        config: &ExperimentConfig,
        entries: &[Entry],
        mut train: impl FnMut(&str, &ExperimentConfig) -> Result<Entry>,
    ) -> Result<Vec<AblationRow>> {
        let estimates = validation_estimates(entries, 0)?;
        let own = entries.iter().find(|entry| entry.seed == 0 && entry.energy().is_some());
        let Some(own) = own else { return Ok(Vec::new()) };
        let mut before = Vec::new();
        for y0 in &estimates {
            before.push(absolute_error(y0, &own.validation.y)?.mean);
        }
        let mut rows = Vec::new();
        for variant in self.variants(config)? {
            let trained = variant.config.as_ref().map(|config| train(&variant.name, config)).transpose()?;
            let entry = trained.as_ref().unwrap_or(own);
            let Some(energy) = entry.energy() else { continue };
            let seen = &entry.validation;
            let Choice { step_length, errors } =
                choose_step_length(&config.refinement, energy, seen, &estimates)?;
            let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
            rows.push(AblationRow {
                sigmas: variant.sigmas,
                objective: variant.objective,
                step_length,
                mae: mean(&errors),
                mae_before: mean(&before),
                lowered: errors.iter().zip(&before).filter(|(after, before)| after < before).count(),
                published: variant.published,
            });
        }
        Ok(rows)
    }
}
