//! Records of defective samples, which were left out.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::files::write_atomic;

/// Kind of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefectCode {
    /// An image file, or a folder of images, is missing.
    MissingFile,
    /// An image file is empty, cut short, or cannot be decoded.
    UnreadableImage,
    /// The size of an image file differs from the annotated size.
    SizeMismatch,
    /// A box has no sides, is outside of its image, or is ten times larger than it.
    BadBox,
    /// Another image or annotation has the same id or the same file.
    DuplicateId,
    /// The image of an annotation is not listed.
    UnknownImage,
    /// The category of an annotation is not listed.
    UnknownCategory,
    /// An annotation is missing, is no finite number, or contradicts what it annotates.
    BadAnnotation,
}

impl std::fmt::Display for DefectCode {
    /// Writes the name in reports, such as `bad_box`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Defect whose sample is not stated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the defect.
    pub code: DefectCode,
    /// Offending value.
    pub detail: String,
}

impl Finding {
    /// Makes a finding of this kind.
    pub fn new(code: DefectCode, detail: String) -> Self {
        Self { code, detail }
    }

    /// Returns the reason to leave out the sample `sample` of `file`.
    pub(crate) fn into_sample_error(self, file: &Path, sample: impl Into<String>) -> SampleError {
        SampleError::Defect(self.in_sample(file, sample))
    }

    /// Returns the finding as a defect of the sample `sample` of `file`.
    pub fn in_sample(self, file: &Path, sample: impl Into<String>) -> Defect {
        Defect { file: file.to_owned(), sample: sample.into(), code: self.code, detail: self.detail }
    }
}

/// Defect with its place, its kind and a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// File that has the defect.
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// Sample with the defect: `image 9`, `annotation 12`, `face 34_0_1_2017.jpg`, or a position such as
    /// `annotations[3]` if the id is unusable.
    pub sample: String,
    /// Kind of the defect.
    pub code: DefectCode,
    /// Offending value.
    pub detail: String,
}

/// Serializes a path. JSON cannot hold a name that is not Unicode.
fn lossy<S: Serializer>(path: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {:?}: {}", self.file.display(), self.sample, self.code, self.detail)
    }
}

/// Reason why a sample could not be prepared.
#[derive(Debug)]
pub enum SampleError {
    /// The sample is defective and left out.
    Defect(Defect),
    /// The machine failed; this must not count as a defect.
    Fatal(Error),
}

impl From<Error> for SampleError {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Result whose error costs one sample, or ends the computation.
pub type SampleResult<T> = std::result::Result<T, SampleError>;

/// Defects in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// Records of the defects.
    pub defects: Vec<Defect>,
}

impl Quarantine {
    /// Returns the number of defects of each kind, in the order of [`DefectCode`].
    pub fn counts(&self) -> std::collections::BTreeMap<DefectCode, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for defect in &self.defects {
            *counts.entry(defect.code).or_insert(0) += 1;
        }
        counts
    }
}

/// Tolerated fraction of defective samples, and the file that lists them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// Tolerated fraction of defective samples.
    pub max_bad_fraction: f64,
    /// File to which all defects are written, one JSON object per line, if there are any.
    pub report: Option<PathBuf>,
}

impl Default for Tolerance {
    /// 1 defect in 1000, no report.
    fn default() -> Self {
        Self { max_bad_fraction: 1e-3, report: None }
    }
}

impl Tolerance {
    /// Checks that the fraction is within 0 to 1.
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

    /// Writes the report atomically, if one is requested and there are defects. Fails for an invalid fraction.
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

    /// Fails if the defective share, `bad` of `total` samples, exceeds the tolerated fraction.
    pub(crate) fn check(&self, quarantine: &Quarantine, bad: usize, total: usize) -> Result<()> {
        if bad as f64 <= self.max_bad_fraction * total as f64 {
            return Ok(());
        }
        let shown: Vec<String> = quarantine.defects.iter().take(SHOWN).map(ToString::to_string).collect();
        let Self { max_bad_fraction, report } = self.clone();
        Err(Error::TooManyDefects { bad, total, max_bad_fraction, first: shown.join("; "), report })
    }

    /// Checks like [`Tolerance::check`], and also fails if every sample is defective, however large the fraction is.
    pub(crate) fn check_left(&self, quarantine: &Quarantine, bad: usize, total: usize) -> Result<()> {
        let none_left = Self { max_bad_fraction: 0., report: self.report.clone() };
        if bad < total { self } else { &none_left }.check(quarantine, bad, total)
    }
}

/// Number of defects quoted in an error message.
pub(crate) const SHOWN: usize = 3;
