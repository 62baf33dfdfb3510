//! How much of a dataset may be defective.

use std::path::Path;

use super::{Face, Faces};
use crate::error::Result;
use crate::quarantine::{Defect, DefectCode, check_max_bad_fraction};

pub use crate::quarantine::Tolerance;

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
        self.tolerance.apply(&self.faces.quarantine, self.faces.faces.len())?;
        Ok(self.faces)
    }
}
