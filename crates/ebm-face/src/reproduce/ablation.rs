//! Ablation: energy models that are trained with other standard deviations σ, as in the supplement, or with other
//! objectives.

use candle_core::Tensor;
use ebm_core::{AnyObjective, GaussianMixture};

use super::networks::TrainedHead;
use super::results::AblationRow;
use super::table::{Choice, choose_step_length};
use crate::Result;
use crate::config::{EnergyConfig, ExperimentConfig};
use crate::evaluation::absolute_error;
use crate::network::ENERGY;

/// An energy model of the ablation: the name of its run, its objective, and its row before any result.
type Variant = (String, AnyObjective, AblationRow);

/// Returns the energy models that `config` compares: one for each proposal, then the table's, then one for each further
/// objective. The table's is left out if there are no further objectives.
fn variants(config: &ExperimentConfig) -> Result<Vec<Variant>> {
    let own = &config.energy.objective;
    let mut variants = Vec::new();
    let published = config.ablation.published.iter().copied();
    for (number, (sigmas, published)) in config.ablation.sigmas.iter().zip(published).enumerate() {
        let proposal = GaussianMixture::isotropic(sigmas, config.dim())?;
        let is_own = own.gaussian().as_ref() == Some(&proposal);
        let objective = if is_own { own.clone() } else { own.clone().with_gaussian(proposal) };
        let (sigmas, published) = (sigmas.clone(), Some(published));
        let row = AblationRow { sigmas, published, ..AblationRow::default() };
        variants.push((format!("ablation-{number}"), objective, row));
    }
    let others = config.objectives.iter().map(|other| (other.key.as_str(), &other.objective));
    for (key, objective) in
        std::iter::once((ENERGY, own)).filter(|_| !config.objectives.is_empty()).chain(others)
    {
        let row = AblationRow { objective: Some(key.to_owned()), ..AblationRow::default() };
        variants.push((format!("objective-{key}"), objective.clone(), row));
    }
    Ok(variants)
}

/// Refines the `estimates` of the baselines of seed 0 on the validation split with each energy model that `config`
/// compares. `own` is the table's energy model. `train` trains another one, given the name of its run and its settings.
pub(super) fn ablation(
    config: &ExperimentConfig,
    own: &TrainedHead,
    estimates: &[Tensor],
    mut train: impl FnMut(&str, &ExperimentConfig) -> Result<TrainedHead>,
) -> Result<Vec<AblationRow>> {
    let errors = estimates.iter().map(|y0| Ok(absolute_error(y0, &own.validation.y)?.mean));
    let before = errors.collect::<Result<Vec<f64>>>()?;
    let mut rows = Vec::new();
    for (name, objective, row) in variants(config)? {
        let trained = if objective == config.energy.objective {
            None
        } else {
            let energy = EnergyConfig { objective, ..config.energy.clone() };
            Some(train(&name, &ExperimentConfig { energy, ..config.clone() })?)
        };
        let entry = trained.as_ref().unwrap_or(own);
        let Choice { step_length, errors } =
            choose_step_length(&config.refinement, &entry.head, &entry.validation, estimates)?;
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let lowered = errors.iter().zip(&before).filter(|(after, before)| after < before).count();
        rows.push(AblationRow { step_length, mae: mean(&errors), mae_before: mean(&before), lowered, ..row });
    }
    Ok(rows)
}
