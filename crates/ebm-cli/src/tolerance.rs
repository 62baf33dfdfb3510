//! Arguments for the defects of annotations and images that a command accepts.

use std::path::PathBuf;

use clap::Args;
use ebm_data::quarantine::Tolerance;

/// Share of defects that is accepted, and their list.
#[derive(Args)]
pub struct ToleranceArgs {
    /// Fraction of samples that may be defective, 0 to 1. They are left out.
    #[arg(long, value_name = "FRACTION", default_value_t = Tolerance::default().max_bad_fraction)]
    max_bad_fraction: f64,
    /// File for a list of defective samples, one JSON object in each line. Images that cannot be decoded are listed in
    /// a file with this name followed by `.images`.
    #[arg(long, value_name = "FILE")]
    defects: Option<PathBuf>,
}

impl ToleranceArgs {
    /// Returns the tolerance that the arguments describe.
    pub fn tolerance(&self) -> Tolerance {
        Tolerance { max_bad_fraction: self.max_bad_fraction, report: self.defects.clone() }
    }
}
