//! How much of a dataset may be defective.

use std::path::Path;

use super::{Face, Faces};
use crate::error::Result;
use crate::quarantine::Finding;

pub use crate::quarantine::Tolerance;

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
        tolerance.validate()?;
        Ok(Self { tolerance, faces: Faces::default() })
    }

    /// Takes a face, or records why `sample` of `file` is none.
    pub fn push(&mut self, file: &Path, sample: &str, outcome: std::result::Result<Face, Finding>) {
        match outcome {
            Ok(face) => self.faces.faces.push(face),
            Err(finding) => self.faces.quarantine.defects.push(finding.in_sample(file, sample)),
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
