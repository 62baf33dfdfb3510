//! Results of a table from its trained networks: step length λ, rows, examples.

use candle_core::Tensor;
use ebm_base::Key;
use ebm_core::GradientAscent;
use ebm_experiment::PairedDifference;
use ebm_train::Progress;

use super::Options;
use super::ablation::ablation;
use super::data::Data;
use super::densities::{density_rows, examples};
use super::networks::{NetworkSpec, TrainedHead};
use super::results::{Outcome, PairedRow, Row};
use crate::config::{ExperimentConfig, RefinementConfig};
use crate::evaluation::{absolute_error, estimates, nll, numbers, refined};
use crate::network::{ENERGY, Head};
use crate::saved::save_refinement;
use crate::training::Batch;
use crate::{Error, Result};

/// Seed of the bootstrap.
const BOOTSTRAP_SEED: u64 = 2020;

/// Trains the networks of the table, and of the ablation if `options` ask for it, by `train`, and compares them.
pub(super) fn reproduce(
    config: &ExperimentConfig,
    data: &Data,
    options: &Options,
    train: &mut dyn FnMut(&NetworkSpec<'_>, &mut dyn Progress) -> Result<TrainedHead>,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let mut entries = Vec::new();
    for seed in 0..options.seeds {
        for method in config.methods.iter().map(|method| method.key.as_str()).chain([ENERGY]) {
            let name = &format!("{method}-{seed}");
            entries.push(train(&NetworkSpec { config, method, name, seed, measured: true }, progress)?);
        }
    }
    let Some(energy) = entries.iter().find(|entry| entry.head.is_energy()) else {
        return Err(Error::config("of the reproduction", "there is no energy model"));
    };
    // The first seed's networks choose λ for all.
    let baselines = entries.iter().filter(|entry| entry.seed == energy.seed && !entry.head.is_energy());
    let initial = baselines.map(|entry| estimates(&entry.head, &entry.head.features(&entry.validation.x)?));
    let initial = initial.collect::<Result<Vec<_>>>()?;
    let Choice { step_length, .. } =
        choose_step_length(&config.refinement, &energy.head, &energy.validation, &initial)?;
    progress.message(&format!("step length {step_length} by the validation split"));
    let ascent = config.refinement.ascent(step_length);
    for entry in entries.iter().filter(|entry| entry.head.is_energy()) {
        save_refinement(&ascent, &options.run.join(format!("{ENERGY}-{}", entry.seed)))?;
    }
    let mut outcome = compare(config, &entries, &ascent, data.part())?;
    if options.ablation {
        outcome.ablation = ablation(config, energy, &initial, |name, config| {
            train(&NetworkSpec { config, method: ENERGY, name, seed: 0, measured: false }, progress)
        })?;
    }
    Ok(outcome)
}

/// The step length with the lowest error, averaged over several baselines.
pub(super) struct Choice {
    pub step_length: f64,
    /// Error of each baseline after refinement.
    pub errors: Vec<f64>,
}

/// Searches λ over the configured step lengths, as in the paper. The criterion is the mean error of the refined
/// `estimates`, one tensor `(N, D)` for each baseline.
pub(super) fn choose_step_length(
    refinement: &RefinementConfig,
    head: &Head,
    batch: &Batch,
    estimates: &[Tensor],
) -> Result<Choice> {
    let mut best = Choice { step_length: 0.0, errors: Vec::new() };
    let mut lowest = f64::INFINITY;
    for &step_length in &refinement.step_lengths {
        let ascent = refinement.ascent(step_length);
        let mut errors = Vec::new();
        for y0 in estimates {
            errors.push(absolute_error(&refined(head, &batch.x, y0, &ascent)?, &batch.y)?.mean);
        }
        let sum = errors.iter().sum();
        if sum < lowest {
            lowest = sum;
            best = Choice { step_length, errors };
        }
    }
    Ok(best)
}

/// Compares `entries`: errors of the baselines, before and after refinement by the energy model of the same seed, and
/// the quality of all densities.
pub(crate) fn compare(
    config: &ExperimentConfig,
    entries: &[TrainedHead],
    ascent: &GradientAscent,
    part: &'static str,
) -> Result<Outcome> {
    let step_lengths = ascent.step_length.first().copied().into_iter().collect();
    let images = entries.first().map_or(Ok(0), |entry| entry.results.y.dim(0))?;
    let mut outcome = Outcome { part, step_lengths, images, ..Outcome::default() };
    let mut changes: Vec<(&str, Vec<Vec<f64>>)> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.head.is_energy()) {
        let (batch, head) = (&entry.results, &entry.head);
        let before = estimates(head, &head.features(&batch.x)?)?;
        let mut row = Row::new(&entry.method, false, entry.seed, absolute_error(&before, &batch.y)?);
        row.nll = nll(head, &batch.x, &batch.y, &[])?;
        outcome.rows.push(row);
        let mut energy = entries.iter().filter(|other| other.seed == entry.seed && other.head.is_energy());
        if let Some(energy) = energy.next() {
            let after = refined(&energy.head, &energy.results.x, &before, ascent)?;
            outcome.rows.push(Row::new(&entry.method, true, entry.seed, absolute_error(&after, &batch.y)?));
            let change = changes_of_errors(&before, &after, &energy.results.y)?;
            match changes.iter_mut().find(|(method, _)| *method == entry.method) {
                Some((_, seeds)) => seeds.push(change),
                None => changes.push((&entry.method, vec![change])),
            }
            if outcome.examples.is_empty() {
                let estimates = [before, after];
                outcome.examples = examples(&energy.head, &energy.results, &estimates, &config.density)?;
            }
        }
    }
    for (method, changes) in changes {
        let key = Key::new(BOOTSTRAP_SEED).split("bootstrap").split(method);
        let difference = PairedDifference::new(&changes, key)?;
        outcome.paired.push(PairedRow { fold: None, method: method.to_owned(), difference });
    }
    for entry in entries {
        let (rows, calibration) = density_rows(config, entry)?;
        outcome.rows.extend(rows);
        outcome.calibration.extend(calibration);
    }
    Ok(outcome)
}

/// Returns the change of each image's error from the estimates `before` to `after`, averaged over the coordinates.
fn changes_of_errors(before: &Tensor, after: &Tensor, y: &Tensor) -> Result<Vec<f64>> {
    let [before, after] = [before, after].map(|found| numbers(&(found - y)?.abs()?.mean(1)?));
    Ok(after?.iter().zip(before?).map(|(after, before)| after - before).collect())
}
