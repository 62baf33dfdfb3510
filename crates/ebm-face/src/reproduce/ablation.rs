//! Energy models that were trained otherwise than the table's own: with the supplement's other σ, and with other
//! objectives.

use candle_core::Tensor;
use ebm_core::{AnyObjective, GaussianMixture};

use super::networks::Entry;
use super::results::AblationRow;
use super::table::{Choice, choose_step_length};
use crate::Result;
use crate::config::{EnergyConfig, ExperimentConfig};
use crate::evaluation::absolute_error;
use crate::network::ENERGY;

/// An energy model of a study: the name of its run, its objective, and what its row says of it.
type Variant = (String, AnyObjective, AblationRow);

/// The energy models that the configuration compares: those of its proposals, then those of its objectives after the
/// table's own.
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

/// Refines the `estimates` of the baselines of seed 0 on the validation split with each energy model that the
/// configuration compares. The table's is `own`; `train` trains that of a configuration in the run of a name.
pub(super) fn ablation(
    config: &ExperimentConfig,
    own: &Entry,
    estimates: &[Tensor],
    mut train: impl FnMut(&str, &ExperimentConfig) -> Result<Entry>,
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
