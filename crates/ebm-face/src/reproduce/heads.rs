//! The table, once every network is trained: λ, the rows, the examples.

use candle_core::Tensor;
use ebm_core::GradientAscent;
use ebm_data::faces::Faces;
use ebm_nn::params::ParamStore;
use ebm_train::{Progress, RunSpec, train_run};

use super::Options;
use super::data::Data;
use super::densities::density_rows;
use super::effect::{Refinement, bands, by_step_length, paired};
use super::examples::examples;
use super::results::{Outcome, Row};
use crate::config::{ExperimentConfig, RefinementConfig};
use crate::evaluation::{absolute_error, estimates, nll, outputs, refined};
use crate::network::{ENERGY, num_clamped};
use crate::saved::{BackboneSource, RunConfig, TrainedHead, save, save_refinement};
use crate::training::{BatchSource, FaceTask};
use crate::{EnergyHead, Error, Result};

/// A trained network's view of a split.
pub(crate) struct Seen {
    /// Its g_x, `(N, X)`.
    pub g_x: Tensor,
    /// The targets, `(N, D)`.
    pub y: Tensor,
}

/// A trained head and what it sees of the validation split and of the split that the results are of.
pub(crate) struct Entry {
    pub method: String,
    pub seed: u64,
    pub head: TrainedHead,
    pub validation: std::rc::Rc<Seen>,
    pub results: std::rc::Rc<Seen>,
}

impl Entry {
    /// f(x, y), if that is what the head is.
    pub fn energy(&self) -> Option<&EnergyHead> {
        self.head.energy()
    }
}

/// A network that a table needs.
pub(super) struct Wanted<'a> {
    pub config: &'a ExperimentConfig,
    /// The key of a baseline, or [`ENERGY`].
    pub method: &'a str,
    /// The name of its run.
    pub name: &'a str,
    pub seed: u64,
    /// Whether the split of the results is looked at, beside the validation split.
    pub measured: bool,
}

impl Wanted<'_> {
    /// Trains the network in its run and saves it there; its parameters.
    pub fn train<S: BatchSource>(
        &self,
        mut task: FaceTask<S>,
        steps: usize,
        trunk: BackboneSource,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<ParamStore> {
        let (method, experiment) = (self.method.to_owned(), self.config.clone());
        let saved = RunConfig { method, seed: self.seed, trunk, experiment };
        let text = saved.to_toml()?;
        let spec = RunSpec::new(&options.run, self.name, &text, steps, self.seed);
        // The trunk's file is known by its digest, wherever it lies.
        let spec = RunSpec { resume: options.resume, changeable: &["path"], ..spec };
        let run = train_run(&spec, &mut task, progress)?;
        let (_, store) = task.into_network();
        save(&store, run.path(), &saved)?;
        Ok(store)
    }
}

/// The keys of all rows, and of the energy model.
fn methods(config: &ExperimentConfig) -> Vec<String> {
    config.methods.iter().map(|method| method.key.clone()).chain([ENERGY.to_owned()]).collect()
}

/// Has every network of the table trained, and of the study of σ where that is asked for, and compares them.
pub(super) fn reproduce(
    config: &ExperimentConfig,
    data: &Data,
    options: &Options,
    train: &mut dyn FnMut(&Wanted<'_>, &mut dyn Progress) -> Result<Entry>,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    report_clamped(config, &data.train, progress);
    let mut entries = Vec::new();
    for seed in 0..options.seeds {
        for method in &methods(config) {
            let name = &format!("{method}-{seed}");
            entries.push(train(&Wanted { config, method, name, seed, measured: true }, progress)?);
        }
    }
    let mut outcome = conclude(config, &entries, data.part(), options, progress)?;
    for ablation in &options.ablations {
        outcome.ablation.extend(ablation.rows(config, &entries, |name, config| {
            train(&Wanted { config, method: ENERGY, name, seed: 0, measured: false }, progress)
        })?);
    }
    Ok(outcome)
}

/// Says which baselines take targets for something else.
fn report_clamped(config: &ExperimentConfig, faces: &Faces, progress: &mut dyn Progress) {
    for method in &config.methods {
        let count = num_clamped(&method.baseline, faces);
        if count > 0 {
            let title = &method.title;
            progress.message(&format!(
                "{title}: {count} training targets beyond its classes count as the last one"
            ));
        }
    }
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
    energy: &EnergyHead,
    seen: &Seen,
    estimates: &[Tensor],
) -> Result<Choice> {
    let mut best = Choice { step_length: 0.0, errors: Vec::new() };
    let mut lowest = f64::INFINITY;
    for &step_length in &refinement.step_lengths {
        let ascent = refinement.ascent(step_length);
        let mut errors = Vec::new();
        for y0 in estimates {
            errors.push(absolute_error(&refined(energy, &seen.g_x, y0, &ascent)?, &seen.y)?.mean);
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
        if let TrainedHead::Baseline(model, head) = &entry.head {
            found.push(estimates(model, &outputs(head, &entry.validation.g_x)?)?);
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
    for entry in entries.iter().filter(|entry| entry.energy().is_some()) {
        save_refinement(&ascent, &options.run.join(format!("{ENERGY}-{}", entry.seed)))?;
    }
    compare(config, entries, &ascent, part)
}

/// λ of Algorithm S2 for all seeds, chosen with the first seed's networks on the validation split.
fn chosen_step_length(config: &ExperimentConfig, entries: &[Entry]) -> Result<f64> {
    let Some((energy, head)) = entries.iter().find_map(|entry| Some((entry, entry.energy()?))) else {
        return Err(Error::config("of the reproduction", "there is no energy model"));
    };
    let estimates = validation_estimates(entries, energy.seed)?;
    Ok(choose_step_length(&config.refinement, head, &energy.validation, &estimates)?.step_length)
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
    for entry in entries {
        let TrainedHead::Baseline(model, baseline) = &entry.head else { continue };
        let seen = &entry.results;
        let outputs = outputs(baseline, &seen.g_x)?;
        let before = estimates(model, &outputs)?;
        let mut row = Row::new(&entry.method, false, entry.seed, absolute_error(&before, &seen.y)?);
        row.nll = nll(model, &outputs, &seen.y)?;
        outcome.rows.push(row);
        let energy = entries.iter().filter(|other| other.seed == entry.seed);
        if let Some((energy, head)) = energy.into_iter().find_map(|entry| Some((entry, entry.energy()?))) {
            let after = refined(head, &energy.results.g_x, &before, ascent)?;
            outcome.rows.push(Row::new(&entry.method, true, entry.seed, absolute_error(&after, &seen.y)?));
            let energy = (head, &*energy.results);
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
    if let Some(Refinement { energy: (head, seen), before, after, .. }) = refinements.into_iter().next() {
        outcome.examples = examples(head, seen, &[before, after], &config.density)?;
    }
    Ok(outcome)
}
