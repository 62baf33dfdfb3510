//! Training that is watched on data which the network does not learn from.

use std::path::PathBuf;

use ebm_data::files::{read_settings, write_atomic};
use ebm_nn::params::ParamStore;
use ebm_train::{
    BoxError, Error as TrainError, GradientTask, Group, Progress, RunSpec, TrainTask, train_together,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The record of a run's validations, a line of JSON each, in its folder.
const RECORD: &str = "validation.jsonl";

/// The loss on the validation data after so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// Completed steps.
    pub step: usize,
    /// The loss, lower is better.
    #[serde(with = "ebm_eval::json::or_null")]
    pub loss: f64,
}

impl Validated {
    /// What is no number is worse than what is one.
    fn is_better_than(&self, other: &Self) -> bool {
        self.loss < other.loss || other.loss.is_nan()
    }
}

/// What a network in training is judged by, and how the best of it is kept. Only the first of several processes asks.
pub trait Validation<T> {
    /// The loss of the network as it is now on the validation data.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn loss(&mut self, task: &T) -> std::result::Result<f64, BoxError>;

    /// Writes the network as it is now, the best so far, to its file.
    ///
    /// # Errors
    /// The task's own; they end the run.
    fn keep(&mut self, task: &T) -> std::result::Result<(), BoxError>;
}

/// A [`Validation`] by a function of the parameters, which keeps the best of them in a file.
pub struct KeptBest<L> {
    /// A safetensors file, of the parameters alone.
    pub file: PathBuf,
    /// [`Validation::loss`].
    pub loss: L,
}

impl<T, L, E> Validation<T> for KeptBest<L>
where
    T: GradientTask,
    L: FnMut(&ParamStore) -> std::result::Result<f64, E>,
    E: Into<BoxError>,
{
    fn loss(&mut self, task: &T) -> std::result::Result<f64, BoxError> {
        (self.loss)(task.learner().store()).map_err(Into::into)
    }

    fn keep(&mut self, task: &T) -> std::result::Result<(), BoxError> {
        Ok(task.learner().store().save(&self.file)?)
    }
}

/// Trains `task` as `spec` says and judges it every `every` steps and at the end (0: at the end alone); the best is kept, and returned on
/// the first process. A run that is resumed goes on with the validations that it recorded.
///
/// # Errors
/// Those of [`train_together`] and of `validation`, and when the record cannot be read or written.
pub fn train_validated<T: TrainTask>(
    spec: &RunSpec<'_>,
    every: usize,
    task: &mut T,
    validation: &mut impl Validation<T>,
    progress: &mut dyn Progress,
    group: &Group,
) -> Result<Option<Validated>> {
    let record = Record { path: spec.root.join(spec.name).join(RECORD) };
    if group.is_first() {
        spec.check()?;
    }
    let done = record.last_step(group)?;
    let (mut end, mut resume) = (0, spec.resume);
    while end < spec.steps {
        end = if every == 0 { spec.steps } else { spec.steps.min(end + every) };
        if end <= done {
            continue;
        }
        train_together(&RunSpec { steps: end, resume, ..*spec }, task, progress, group)?;
        resume = true;
        if group.is_first() {
            record.judge(end, task, validation, progress)?;
        }
    }
    Ok(if group.is_first() { record.best()? } else { None })
}

/// The file of a run's validations.
struct Record {
    path: PathBuf,
}

impl Record {
    fn judge<T: TrainTask>(
        &self,
        step: usize,
        task: &T,
        validation: &mut impl Validation<T>,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let known = self.read()?;
        if known.iter().any(|validated| validated.step == step) {
            return Ok(());
        }
        let failed = |source| TrainError::Task { step, source };
        let loss = validation.loss(task).map_err(failed)?;
        let this = Validated { step, loss };
        let is_best = known.iter().all(|other| this.is_better_than(other));
        progress.message(&format!("after {step} steps: {loss:.4} on the validation data"));
        // First the network: a record without it would be one of a network that is lost.
        if is_best {
            validation.keep(task).map_err(failed)?;
        }
        self.write(known.into_iter().chain([this]))
    }

    /// The last step that the first process has recorded, as all processes know it; 0 where there is none.
    fn last_step(&self, group: &Group) -> Result<usize> {
        let own = if group.is_first() { self.read()?.last().map_or(0, |last| last.step) } else { 0 };
        let sent = group.share(own.to_string().into_bytes()).map_err(TrainError::from)?;
        Ok(String::from_utf8_lossy(&sent).parse().unwrap_or(0))
    }

    /// The best; the first among equals.
    fn best(&self) -> Result<Option<Validated>> {
        let better = |best, one: Validated| if one.is_better_than(&best) { one } else { best };
        Ok(self.read()?.into_iter().reduce(better))
    }

    fn read(&self) -> Result<Vec<Validated>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let text = read_settings(&self.path).map_err(|error| self.refusal(&error))?;
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| self.refusal(&error))).collect()
    }

    fn write(&self, all: impl Iterator<Item = Validated>) -> Result<()> {
        let mut text = String::new();
        for one in all {
            text += &serde_json::to_string(&one).map_err(|error| self.refusal(&error))?;
            text.push('\n');
        }
        write_atomic(&self.path, text.as_bytes()).map_err(|error| self.refusal(&error))
    }

    fn refusal(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Config { name: self.path.display().to_string(), reason: error.to_string() }
    }
}
