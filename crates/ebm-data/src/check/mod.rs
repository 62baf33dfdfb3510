//! Every defect of a dataset, for `ebm data check`.
//!
//! A loader stops at the first defect of a record, since the record is left out then; a check goes on and
//! tells all, also what a loader tolerates, such as a grey image. Nothing is left out and no fraction is
//! tolerated.

mod coco;
mod faces;
mod outline;
mod photo;
mod sequences;

use std::path::Path;

use crate::error::{Error, Result};
use crate::quarantine::{Finding, Quarantine};

pub use coco::coco;
pub use faces::{biwi, utkface};
pub use sequences::{Benchmark, sequences};

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether each image is decoded; otherwise it need only be there.
    pub decode: bool,
}

impl Default for CheckOptions {
    /// Everything.
    fn default() -> Self {
        Self { decode: true }
    }
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Images and annotations, faces, or sequences that were looked at.
    pub samples: usize,
    /// All defects, in the order of the dataset.
    pub quarantine: Quarantine,
}

impl Checked {
    /// Whether what is at `path` is without defects.
    ///
    /// # Errors
    /// [`Error::Defective`] with their number if there are any.
    pub fn verdict(&self, path: &Path) -> Result<()> {
        match self.quarantine.defects.len() {
            0 => Ok(()),
            defects => Err(Error::Defective { path: path.to_owned(), defects, samples: self.samples }),
        }
    }

    fn record(&mut self, file: &Path, sample: &str, finding: Finding) {
        self.quarantine.defects.push(finding.in_sample(file, sample));
    }
}
