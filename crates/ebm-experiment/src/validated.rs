//! Training that is watched on data which the network does not learn from.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_settings, write_atomic};
use ebm_nn::params::ParamStore;
use ebm_train::{BoxError, Error as TrainError, GradientTask, Group, RunSpec, TrainTask, train_together};
use serde::{Deserialize, Deserializer, Serialize};

use crate::training::{Run, Session};
use crate::{Error, Result};

/// A number that says how good a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// Whether a network is better the higher it is.
    pub higher_is_better: bool,
}

impl Measure {
    /// The mean loss.
    pub const LOSS: Self = Self { name: "loss", higher_is_better: false };
    /// COCO's average precision, 0 to 1.
    pub const AP: Self = Self { name: "AP", higher_is_better: true };

    /// Whether `a` is better than `b`; what is no number is worse than what is one.
    pub fn is_better(&self, a: f64, b: f64) -> bool {
        let better = if self.higher_is_better { a > b } else { a < b };
        better || (b.is_nan() && !a.is_nan())
    }

    /// A value of it in words.
    fn say(&self, value: f64) -> String {
        format!("{} {value:.4} on the validation data", self.name)
    }
}

/// What a network in training is judged by, and how the best of it is kept. Only the first of several
/// processes asks.
pub trait Validation<N> {
    /// What can go wrong.
    type Error: From<Error>;

    /// What [`score`](Self::score) is.
    const MEASURE: Measure;

    /// Whether there are validation data.
    fn is_possible(&self) -> bool {
        true
    }

    /// The measure of the network as it is now on the validation data.
    ///
    /// # Errors
    /// When an operation fails or data cannot be read; it ends the run.
    fn score(&mut self, network: &N, session: &mut Session<'_>) -> Result<f64, Self::Error>;

    /// Writes the network as it is now, the best so far, to its file.
    ///
    /// # Errors
    /// When the file cannot be written; it ends the run.
    fn keep(&mut self, network: &N) -> Result<(), Self::Error>;
}

/// A [`Validation`] by a loss, a function of the parameters, which keeps the best of them in a file.
pub struct KeptBest<L> {
    /// A safetensors file, of the parameters alone.
    pub file: PathBuf,
    /// The loss.
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

/// Trains `network` as `run` says and judges it every [`validate_every`](Run::validate_every) steps and at
/// the end. The best is kept, and its validation returned, on the first process and where there was something
/// to validate on; else the last is kept. A run that is resumed goes on with the validations that it
/// recorded.
///
/// # Errors
/// Those of [`train_together`] and of `validation`, and when the record cannot be read or written.
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
        // First the network: a record without it would be one of a network that is lost.
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

/// The record's name in the run's folder: a line of JSON each.
const RECORD: &str = "validation.jsonl";

/// The measure on the validation data after so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// Completed steps.
    pub step: usize,
    /// The measure; what is no number is `null` in the file.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
}

/// What is no number is `null` in the file.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The validations of the run in `folder`, in the order of their steps; none where there are none.
///
/// # Errors
/// When the record is there and cannot be read.
pub fn read_validations(folder: &Path) -> Result<Vec<Validated>> {
    let path = folder.join(RECORD);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let parse = |line| serde_json::from_str(line).map_err(|error| Error::input(path.display(), error));
    read_settings(&path)?.lines().map(parse).collect()
}

/// The record of a run in training.
struct Record {
    folder: PathBuf,
    measure: Measure,
}

impl Record {
    fn new(folder: PathBuf, measure: Measure) -> Self {
        Self { folder, measure }
    }

    /// The last step that the first process has recorded, as all processes know it; 0 where there is none.
    fn last_step(&self, group: &Group) -> Result<usize> {
        let read = || -> Result<_> { Ok(read_validations(&self.folder)?.last().map_or(0, |last| last.step)) };
        let own = if group.is_first() { read()? } else { 0 };
        let sent = group.share(own.to_string().into_bytes())?;
        Ok(String::from_utf8_lossy(&sent).parse().unwrap_or(0))
    }

    /// Whether `value` is better than all that is recorded.
    fn is_best(&self, value: f64) -> Result<bool> {
        let best = self.best()?;
        Ok(best.is_none_or(|best| self.measure.is_better(value, best.value)))
    }

    /// The best; the first among equals.
    fn best(&self) -> Result<Option<Validated>> {
        let better = |best: Validated, one: Validated| {
            if self.measure.is_better(one.value, best.value) { one } else { best }
        };
        Ok(read_validations(&self.folder)?.into_iter().reduce(better))
    }

    /// Adds a validation.
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
