//! The table, once every network is trained: λ, the rows, the examples.

use candle_core::Tensor;
use ebm_core::GradientAscent;
use ebm_train::Progress;

use super::Options;
use super::ablation::ablation;
use super::data::Data;
use super::densities::density_rows;
use super::effect::{Refinement, bands, by_step_length, paired};
use super::examples::examples;
use super::networks::{Entry, Seen, Wanted};
use super::results::{Outcome, Row};
use crate::config::{ExperimentConfig, RefinementConfig};
use crate::evaluation::{absolute_error, estimates, nll, refined};
use crate::network::{ENERGY, Head};
use crate::saved::save_refinement;
use crate::{Error, Result};

/// Has every network of the table trained, and others of the energy model where these are asked for, and compares them.
pub(super) fn reproduce(
    config: &ExperimentConfig,
    data: &Data,
    options: &Options,
    train: &mut dyn FnMut(&Wanted<'_>, &mut dyn Progress) -> Result<Entry>,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let mut entries = Vec::new();
    for seed in 0..options.seeds {
        for method in config.methods.iter().map(|method| method.key.as_str()).chain([ENERGY]) {
            let name = &format!("{method}-{seed}");
            entries.push(train(&Wanted { config, method, name, seed, measured: true }, progress)?);
        }
    }
    let mut outcome = conclude(config, &entries, data.part(), options, progress)?;
    if options.ablation {
        outcome.ablation = ablation(config, &entries, |name, config| {
            train(&Wanted { config, method: ENERGY, name, seed: 0, measured: false }, progress)
        })?;
    }
    Ok(outcome)
}

/// λ with the lowest mean error over several baselines' estimates `(N, D)` of a split.
pub(super) struct Choice {
    pub step_length: f64,
    /// The error of each baseline, refined.
    pub errors: Vec<f64>,
}

/// Grid search of λ, as in the paper: the mean error of several baselines' estimates `(N, D)`, refined.
pub(super) fn choose_step_length(
    refinement: &RefinementConfig,
    head: &Head,
    seen: &Seen,
    estimates: &[Tensor],
) -> Result<Choice> {
    let mut best = Choice { step_length: 0.0, errors: Vec::new() };
    let mut lowest = f64::INFINITY;
    for &step_length in &refinement.step_lengths {
        let ascent = refinement.ascent(step_length);
        let mut errors = Vec::new();
        for y0 in estimates {
            errors.push(absolute_error(&refined(head, &seen.g_x, y0, &ascent)?, &seen.y)?.mean);
        }
        let sum = errors.iter().sum();
        if sum < lowest {
            lowest = sum;
            best = Choice { step_length, errors };
        }
    }
    Ok(best)
}

/// The estimates of every baseline of `seed` on the validation split.
pub(super) fn validation_estimates(entries: &[Entry], seed: u64) -> Result<Vec<Tensor>> {
    let of_seed = entries.iter().filter(|entry| entry.seed == seed);
    let mut found = Vec::new();
    for entry in of_seed {
        if !entry.head.is_energy() {
            found.push(estimates(&entry.head, &entry.head.features(&entry.validation.g_x)?)?);
        }
    }
    Ok(found)
}

/// Chooses λ, leaves it with the energy models, and compares.
fn conclude(
    config: &ExperimentConfig,
    entries: &[Entry],
    part: &'static str,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let step_length = chosen_step_length(config, entries)?;
    progress.message(&format!("step length {step_length} by the validation split"));
    let ascent = config.refinement.ascent(step_length);
    for entry in entries.iter().filter(|entry| entry.head.is_energy()) {
        save_refinement(&ascent, &options.run.join(format!("{ENERGY}-{}", entry.seed)))?;
    }
    compare(config, entries, &ascent, part)
}

/// λ of Algorithm S2 for all seeds, chosen with the first seed's networks on the validation split.
fn chosen_step_length(config: &ExperimentConfig, entries: &[Entry]) -> Result<f64> {
    let Some(energy) = entries.iter().find(|entry| entry.head.is_energy()) else {
        return Err(Error::config("of the reproduction", "there is no energy model"));
    };
    let estimates = validation_estimates(entries, energy.seed)?;
    Ok(choose_step_length(&config.refinement, &energy.head, &energy.validation, &estimates)?.step_length)
}

/// All rows: each baseline, and refined by the energy model of its own seed where there is one.
pub(crate) fn compare(
    config: &ExperimentConfig,
    entries: &[Entry],
    ascent: &GradientAscent,
    part: &'static str,
) -> Result<Outcome> {
    let step_lengths = ascent.step_length.first().copied().into_iter().collect();
    let images = entries.first().map_or(Ok(0), |entry| entry.results.y.dim(0))?;
    let mut outcome = Outcome { part, step_lengths, images, ..Outcome::default() };
    let mut refinements = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.head.is_energy()) {
        let (seen, head) = (&entry.results, &entry.head);
        let before = estimates(head, &head.features(&seen.g_x)?)?;
        let mut row = Row::new(&entry.method, false, entry.seed, absolute_error(&before, &seen.y)?);
        row.nll = nll(head, &seen.g_x, &seen.y, &[])?;
        outcome.rows.push(row);
        let mut energy = entries.iter().filter(|other| other.seed == entry.seed && other.head.is_energy());
        if let Some(energy) = energy.next() {
            let after = refined(&energy.head, &energy.results.g_x, &before, ascent)?;
            outcome.rows.push(Row::new(&entry.method, true, entry.seed, absolute_error(&after, &seen.y)?));
            refinements.push(Refinement { method: &entry.method, energy, before, after });
        }
    }
    for entry in entries {
        let (rows, calibration) = density_rows(config, entry)?;
        outcome.rows.extend(rows);
        outcome.calibration.extend(calibration);
    }
    outcome.paired = paired(&refinements)?;
    outcome.bands = bands(&refinements)?;
    outcome.by_step_length = by_step_length(&config.refinement, &refinements)?;
    if let Some(Refinement { energy, before, after, .. }) = refinements.into_iter().next() {
        outcome.examples = examples(&energy.head, &energy.results, &[before, after], &config.density)?;
    }
    Ok(outcome)
}
