//! Training with validation on data that the network is not trained on.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_settings, write_atomic};
use ebm_nn::params::ParamStore;
use ebm_train::{BoxError, Error as TrainError, GradientTask, Group, RunSpec, TrainTask, train_together};
use serde::{Deserialize, Deserializer, Serialize};

use crate::training::{Run, Session};
use crate::{Error, Result};

/// Measure of a network's quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Name of the measure.
    pub name: &'static str,
    /// `true` if a higher value is better.
    pub higher_is_better: bool,
}

impl Measure {
    /// Mean loss.
    pub const LOSS: Self = Self { name: "loss", higher_is_better: false };
    /// Average precision of COCO, 0 to 1.
    pub const AP: Self = Self { name: "AP", higher_is_better: true };

    /// Returns whether `a` is better than `b`; NaN is worse than any number.
    pub fn is_better(&self, a: f64, b: f64) -> bool {
        let better = if self.higher_is_better { a > b } else { a < b };
        better || (b.is_nan() && !a.is_nan())
    }

    /// Returns a text with a value of the measure.
    fn say(&self, value: f64) -> String {
        format!("{} {value:.4} on the validation data", self.name)
    }
}

/// Validation of a network in training, which keeps the best one. Only the first of several processes uses it.
pub trait Validation<N> {
    /// Error of the validation.
    type Error: From<Error>;

    /// Measure that [`score`](Self::score) returns.
    const MEASURE: Measure;

    /// Returns whether there are validation data.
    fn is_possible(&self) -> bool {
        true
    }

    /// Computes the measure of the present network on the validation data.
    ///
    /// # Errors
    /// If an operation fails or data cannot be read; the error ends the run.
    fn score(&mut self, network: &N, session: &mut Session<'_>) -> Result<f64, Self::Error>;

    /// Writes the present network, the best so far, to its file.
    ///
    /// # Errors
    /// If the file cannot be written; the error ends the run.
    fn keep(&mut self, network: &N) -> Result<(), Self::Error>;
}

/// [`Validation`] by a loss of the parameters, which keeps the best parameters in a file.
pub struct KeptBest<L> {
    /// Path of a safetensors file with the parameters alone.
    pub file: PathBuf,
    /// Loss as a function of the parameters.
    pub loss: L,
}

impl<N, L, E> Validation<N> for KeptBest<L>
where
    N: GradientTask,
    L: FnMut(&ParamStore) -> Result<f64, E>,
    E: Into<BoxError>,
{
    type Error = Error;

    const MEASURE: Measure = Measure::LOSS;

    fn score(&mut self, network: &N, _: &mut Session<'_>) -> Result<f64> {
        let loss = (self.loss)(network.learner().store());
        loss.map_err(|source| Error::Validation(source.into()))
    }

    fn keep(&mut self, network: &N) -> Result<()> {
        Ok(network.learner().store().save(&self.file).map_err(TrainError::from)?)
    }
}

/// Trains `network` according to `run` and validates it every [`validate_every`](Run::validate_every) steps and
/// at the end. The best network is kept, and its validation is returned on the first process. Without validation
/// data the last network is kept, and the result is `None`. A resumed run uses the validations that it recorded.
///
/// # Errors
/// The errors of [`train_together`] and of `validation`, and an error if the record cannot be read or written.
pub fn train_validated<N: TrainTask, V: Validation<N>>(
    run: &Run<'_>,
    network: &mut N,
    validation: &mut V,
    session: &mut Session<'_>,
) -> Result<Option<Validated>, V::Error> {
    let spec = &run.spec;
    let record = Record::new(spec.root.join(spec.name), V::MEASURE);
    if session.group.is_first() {
        spec.check().map_err(Error::from)?;
    }
    let done = record.last_step(session.group)?;
    let every =
        if validation.is_possible() && run.validate_every > 0 { run.validate_every } else { spec.steps };
    let (mut end, mut resume, mut is_quiet) = (0, spec.resume, false);
    while end < spec.steps {
        end = spec.steps.min(end + every);
        if end <= done {
            continue;
        }
        let until = RunSpec { steps: end, whole: Some(spec.steps), resume, is_quiet, ..*spec };
        train_together(&until, network, session.progress, session.group).map_err(Error::from)?;
        (resume, is_quiet) = (true, true);
        if !session.group.is_first() {
            continue;
        }
        if !validation.is_possible() {
            validation.keep(network)?;
            continue;
        }
        let value = validation.score(network, session)?;
        session.progress.message(&format!("after {end} steps: {}", V::MEASURE.say(value)));
        // The network is written first: a record without it would describe a network that is lost.
        if record.is_best(value)? {
            validation.keep(network)?;
        }
        record.add(Validated { step: end, value })?;
    }
    if !session.group.is_first() {
        return Ok(None);
    }
    let best = record.best()?;
    if let Some(Validated { step, value }) = best {
        session.progress.message(&format!("kept: step {step}, {}", V::MEASURE.say(value)));
    }
    Ok(best)
}

/// Name of the record in the run's folder, with one line of JSON per validation.
const RECORD: &str = "validation.jsonl";

/// Measure on the validation data after a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// Number of completed steps.
    pub step: usize,
    /// Value of the measure; NaN is `null` in the file.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
}

/// Reads a number, or NaN for `null`.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Reads the validations of the run in `folder`, in the order of their steps; empty if there are none.
///
/// # Errors
/// If the record exists and cannot be read.
pub fn read_validations(folder: &Path) -> Result<Vec<Validated>> {
    let path = folder.join(RECORD);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let parse = |line| serde_json::from_str(line).map_err(|error| Error::input(path.display(), error));
    read_settings(&path)?.lines().map(parse).collect()
}

/// Record of the validations of a run.
struct Record {
    folder: PathBuf,
    measure: Measure,
}

impl Record {
    fn new(folder: PathBuf, measure: Measure) -> Self {
        Self { folder, measure }
    }

    /// Returns the last step that the first process has recorded, on every process; 0 if there is none.
    fn last_step(&self, group: &Group) -> Result<usize> {
        let read = || -> Result<_> { Ok(read_validations(&self.folder)?.last().map_or(0, |last| last.step)) };
        let own = if group.is_first() { read()? } else { 0 };
        let sent = group.share(own.to_string().into_bytes())?;
        Ok(String::from_utf8_lossy(&sent).parse().unwrap_or(0))
    }

    /// Returns whether `value` is better than every recorded value.
    fn is_best(&self, value: f64) -> Result<bool> {
        let best = self.best()?;
        Ok(best.is_none_or(|best| self.measure.is_better(value, best.value)))
    }

    /// Returns the best validation; the first one on a tie.
    fn best(&self) -> Result<Option<Validated>> {
        let better = |best: Validated, one: Validated| {
            if self.measure.is_better(one.value, best.value) { one } else { best }
        };
        Ok(read_validations(&self.folder)?.into_iter().reduce(better))
    }

    /// Adds a validation to the record.
    fn add(&self, validated: Validated) -> Result<()> {
        let path = self.folder.join(RECORD);
        let mut text = String::new();
        for one in read_validations(&self.folder)?.into_iter().chain([validated]) {
            text += &serde_json::to_string(&one).map_err(|error| Error::input(path.display(), error))?;
            text.push('\n');
        }
        Ok(write_atomic(&path, text.as_bytes())?)
    }
}
