//! The validations of a training, in a file of its run.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_settings, write_atomic};
use ebm_train::Group;
use serde::{Deserialize, Serialize};

use crate::validated::Measure;
use crate::{Error, Result};

/// The record's name in the run's folder: a line of JSON each.
const RECORD: &str = "validation.jsonl";

/// The measure on the validation data after so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// Completed steps.
    pub step: usize,
    /// The measure; what is no number is `null` in the file.
    #[serde(with = "nan_as_null")]
    pub value: f64,
}

mod nan_as_null {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| value.is_finite()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
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
pub(crate) struct Record {
    folder: PathBuf,
    measure: Measure,
}

impl Record {
    pub(crate) fn new(folder: PathBuf, measure: Measure) -> Self {
        Self { folder, measure }
    }

    /// The last step that the first process has recorded, as all processes know it; 0 where there is none.
    pub(crate) fn last_step(&self, group: &Group) -> Result<usize> {
        let read = || -> Result<_> { Ok(read_validations(&self.folder)?.last().map_or(0, |last| last.step)) };
        let own = if group.is_first() { read()? } else { 0 };
        let sent = group.share(own.to_string().into_bytes())?;
        Ok(String::from_utf8_lossy(&sent).parse().unwrap_or(0))
    }

    /// Whether `value` is better than all that is recorded.
    pub(crate) fn is_best(&self, value: f64) -> Result<bool> {
        let best = self.best()?;
        Ok(best.is_none_or(|best| self.measure.is_better(value, best.value)))
    }

    /// The best; the first among equals.
    pub(crate) fn best(&self) -> Result<Option<Validated>> {
        let better = |best: Validated, one: Validated| {
            if self.measure.is_better(one.value, best.value) { one } else { best }
        };
        Ok(read_validations(&self.folder)?.into_iter().reduce(better))
    }

    /// Adds a validation.
    pub(crate) fn add(&self, validated: Validated) -> Result<()> {
        let path = self.folder.join(RECORD);
        let mut text = String::new();
        for one in read_validations(&self.folder)?.into_iter().chain([validated]) {
            text += &serde_json::to_string(&one).map_err(|error| Error::input(path.display(), error))?;
            text.push('\n');
        }
        Ok(write_atomic(&path, text.as_bytes())?)
    }
}
