//! How much of a dataset may be defective.

use std::path::{Path, PathBuf};

use super::{Face, Faces};
use crate::error::Result;
use crate::quarantine::{Defect, DefectCode, Quarantine, check_max_bad_fraction};

/// How many defective entries are tolerated, and where they are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// The tolerated fraction of defective entries.
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

/// A defect's kind and the offending value.
pub(super) type Finding = (DefectCode, String);

/// Sound and defective entries of one dataset, in the order of the source.
pub(super) struct Collector<'a> {
    tolerance: &'a Tolerance,
    faces: Faces,
}

impl<'a> Collector<'a> {
    /// Nothing yet.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) for a tolerated fraction outside 0 to 1.
    pub fn new(tolerance: &'a Tolerance) -> Result<Self> {
        check_max_bad_fraction(tolerance.max_bad_fraction)?;
        Ok(Self { tolerance, faces: Faces::default() })
    }

    /// Takes a face, or records why `sample` of `file` is none.
    pub fn push(&mut self, file: &Path, sample: &str, outcome: std::result::Result<Face, Finding>) {
        match outcome {
            Ok(face) => self.faces.faces.push(face),
            Err((code, detail)) => {
                let defect = Defect { file: file.to_owned(), sample: sample.to_owned(), code, detail };
                self.faces.quarantine.defects.push(defect);
            }
        }
    }

    /// Everything that was pushed, after the report was written.
    ///
    /// # Errors
    /// [`Error::TooManyDefects`](crate::Error::TooManyDefects) above the tolerated fraction,
    /// [`Error::Io`](crate::Error::Io) if the report cannot be written.
    pub fn finish(self) -> Result<Faces> {
        let Quarantine { defects } = &self.faces.quarantine;
        let report = self.tolerance.report.as_deref();
        if let Some(path) = report.filter(|_| !defects.is_empty()) {
            self.faces.quarantine.write_jsonl(path)?;
        }
        let (bad, total) = (defects.len(), defects.len() + self.faces.faces.len());
        self.faces.quarantine.check_fraction(bad, total, self.tolerance.max_bad_fraction, report)?;
        Ok(self.faces)
    }
}
