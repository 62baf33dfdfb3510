//! A list of what was found defective and left out.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::write_atomic;

/// The kind of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefectCode {
    /// An image file, or a folder of images, that is not there.
    MissingFile,
    /// An image file that is empty, cut short, or cannot be decoded.
    UnreadableImage,
    /// An image file whose size differs from the annotated one.
    SizeMismatch,
    /// A box without sides, outside of its image, or ten times larger.
    BadBox,
    /// An image or annotation whose id, or whose file, another has.
    DuplicateId,
    /// An annotation of an image that is not listed.
    UnknownImage,
    /// An annotation of a category that is not listed.
    UnknownCategory,
    /// An annotation that is missing, is no number or not finite, or contradicts what it annotates.
    BadAnnotation,
}

impl std::fmt::Display for DefectCode {
    /// As in a report: `bad_box`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// What is wrong with a sample, before it is said which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub code: DefectCode,
    /// The offending value.
    pub detail: String,
}

impl Finding {
    /// A finding of this kind.
    pub fn new(code: DefectCode, detail: String) -> Self {
        Self { code, detail }
    }

    /// That the sample `sample` of `file` is left out for it.
    pub(crate) fn trouble(self, file: &Path, sample: impl Into<String>) -> Trouble {
        Trouble::Defect(self.in_sample(file, sample))
    }

    /// It as a defect of the sample `sample` of `file`.
    pub fn in_sample(self, file: &Path, sample: impl Into<String>) -> Defect {
        Defect { file: file.to_owned(), sample: sample.into(), code: self.code, detail: self.detail }
    }
}

/// One defect: where, what kind, and in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// The file the defect was found in.
    pub file: PathBuf,
    /// The sample: `image 9`, `annotation 12`, `face 34_0_1_2017.jpg`, or a position such as `annotations[3]`
    /// where the id is unusable.
    pub sample: String,
    /// The kind.
    pub code: DefectCode,
    /// The offending value.
    pub detail: String,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {:?}: {}", self.file.display(), self.sample, self.code, self.detail)
    }
}

/// Why there is no sample.
#[derive(Debug)]
pub enum Trouble {
    /// It is defective, and left out.
    Defect(Defect),
    /// The machine's failure, which must not pass for a defect.
    Fatal(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// A result whose failure costs one sample, or everything.
pub type Attempt<T> = std::result::Result<T, Trouble>;

/// Defects in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// The records.
    pub defects: Vec<Defect>,
}

impl Quarantine {
    /// How often each kind occurs, in the order of [`DefectCode`].
    pub fn counts(&self) -> std::collections::BTreeMap<DefectCode, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for defect in &self.defects {
            *counts.entry(defect.code).or_insert(0) += 1;
        }
        counts
    }
}

/// How many defective samples are tolerated, and where they are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// The tolerated fraction of defective samples.
    pub max_bad_fraction: f64,
    /// Where to write all defects, one JSON object per line, if there are any.
    pub report: Option<PathBuf>,
}

impl Default for Tolerance {
    /// 1 defect in 1000, no report.
    fn default() -> Self {
        Self { max_bad_fraction: 1e-3, report: None }
    }
}

impl Tolerance {
    /// Whether the fraction is one.
    ///
    /// # Errors
    /// [`Error::Argument`] for a number outside 0 to 1.
    pub fn validate(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.max_bad_fraction) {
            return Ok(());
        }
        let detail = format!("{} is no fraction; give a number from 0 to 1", self.max_bad_fraction);
        Err(Error::Argument { name: "max_bad_fraction", detail })
    }

    /// Writes the report, if one is asked for and there is something to tell, atomically; fails for a fraction that is
    /// none.
    pub(crate) fn list(&self, quarantine: &Quarantine) -> Result<()> {
        self.validate()?;
        let Some(path) = self.report.as_deref().filter(|_| !quarantine.defects.is_empty()) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        for defect in &quarantine.defects {
            serde_json::to_writer(&mut bytes, defect)
                .map_err(|error| Error::io("write", path, std::io::Error::other(error)))?;
            bytes.push(b'\n');
        }
        write_atomic(path, &bytes)
    }

    /// Fails if `bad` of `total` samples are more than the tolerated fraction.
    pub(crate) fn check(&self, quarantine: &Quarantine, bad: usize, total: usize) -> Result<()> {
        if bad as f64 <= self.max_bad_fraction * total as f64 {
            return Ok(());
        }
        let shown: Vec<String> = quarantine.defects.iter().take(SHOWN).map(ToString::to_string).collect();
        let Self { max_bad_fraction, report } = self.clone();
        Err(Error::TooManyDefects { bad, total, max_bad_fraction, first: shown.join("; "), report })
    }

    /// As [`Tolerance::check`]; of nothing something must be left, however much is tolerated.
    pub(crate) fn check_left(&self, quarantine: &Quarantine, bad: usize, total: usize) -> Result<()> {
        let none_left = Self { max_bad_fraction: 0., report: self.report.clone() };
        if bad < total { self } else { &none_left }.check(quarantine, bad, total)
    }
}

/// Defects quoted in an error message.
pub(crate) const SHOWN: usize = 3;
