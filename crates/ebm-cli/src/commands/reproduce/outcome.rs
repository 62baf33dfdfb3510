//! What every reproduction leaves, prints and concludes.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_eval::{Comparison, Expected};
use serde_json::{Value, json};

use super::common::CommonArgs;
use crate::schema::document;

/// What is to come of the comparison with the configuration's expected figures.
#[derive(Args, Clone, Copy)]
pub struct CheckArgs {
    /// Leave with exit code 5 where a figure lies further from the configuration's expected one than it
    /// tolerates.
    #[arg(long)]
    check: bool,
}

/// The figures that a run is compared with, or why with none.
pub type Reference<'a> = Result<&'a Expected, &'static str>;

/// Why a smoke run is compared with nothing.
pub const SMOKE: &str = "the results of --smoke mean nothing";

impl CheckArgs {
    /// Refuses --check before the work begins where nothing could come of it.
    pub fn refuse_without(self, reference: &Reference<'_>) -> Result<()> {
        match reference {
            Err(reason) if self.check => bail!("--check has nothing to compare: {reason}; leave it out"),
            _ => Ok(()),
        }
    }

    /// Says the comparison's line as the last one, or fails with it.
    pub fn conclude(self, comparison: Comparison) -> Result<()> {
        if self.check && (comparison.missed > 0 || comparison.compared == 0) {
            return Err(Missed(comparison).into());
        }
        eprintln!("{comparison}");
        Ok(())
    }
}

/// The figures are not those that the configuration expects, or there are none to compare.
#[derive(Debug)]
pub struct Missed(Comparison);

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Missed {}

/// A study that has been made.
pub struct Study {
    /// The table or figure of the paper.
    pub title: &'static str,
    /// One JSON object for each method and seed.
    pub rows: Value,
    /// Further keys of the document.
    pub more: Value,
    /// For people; `report.md` has it below the title.
    pub tables: String,
    /// What follows them in `report.md`.
    pub appendix: &'static str,
    /// What the run has beside `results.json` and `report.md`.
    pub files: &'static str,
}

impl CommonArgs {
    /// Writes a study's `results.json` and `report.md` to `run`, prints one of them, and says how the figures
    /// compare with the expected ones.
    ///
    /// # Errors
    /// When a file cannot be written, and [`Missed`].
    pub fn finish(
        &self,
        command: &str,
        scale: &str,
        run: &Path,
        Study { title, rows, mut more, tables, appendix, files }: Study,
        reference: &Reference<'_>,
    ) -> Result<()> {
        let comparison = match reference {
            Ok(expected) => expected.compare(rows.as_array().map_or(&[], Vec::as_slice)),
            Err(reason) => Comparison::none(reason),
        };
        if let (Some(more), Value::Object(own)) = (
            more.as_object_mut(),
            json!({ "study": title, "scale": scale, "rows": rows, "expected": comparison }),
        ) {
            more.extend(own);
        }
        let object = document(command, more);
        write_atomic(&run.join("results.json"), &serde_json::to_vec_pretty(&object)?)?;
        let report = format!("# {title}, {scale} scale\n\n{tables}\n{appendix}\n{comparison}\n");
        write_atomic(&run.join("report.md"), report.as_bytes())?;
        if self.json {
            println!("{object}");
        } else {
            println!("{tables}");
        }
        eprintln!("{files}, results.json and report.md are in {}", run.display());
        self.check.conclude(comparison)
    }
}
