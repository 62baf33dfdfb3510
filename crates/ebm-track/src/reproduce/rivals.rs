//! Other trackers, by the boxes that they published.

use std::path::PathBuf;

use ebm_eval::Error as EvalError;
use ebm_eval::tracking::{Annotations, FailedSequence, evaluate_runs, merge};
use serde::{Deserialize, Serialize};

use super::Figures;
use super::compare::Test;
use crate::Result;

/// A tracker's figures from the boxes that it published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RivalRow {
    /// The dataset.
    pub dataset: String,
    /// The tracker.
    pub name: String,
    /// The sequences that were scored.
    pub sequences: usize,
    /// How well its boxes lie.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Scores the boxes in each of the folders `results` on each dataset of which they have a sequence; with what
/// could not be scored.
pub(super) fn rivals(
    tests: &[Test],
    results: &[(String, PathBuf)],
) -> Result<(Vec<RivalRow>, Vec<FailedSequence>)> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (name, folder) in results {
        let of =
            |sequence: String, reason: String| FailedSequence { name: format!("{name}, {sequence}"), reason };
        for test in tests {
            let annotations = Annotations::from(&test.sequences[..]);
            let report = match evaluate_runs(&annotations, folder, &test.convention) {
                // They are boxes of another dataset.
                Err(EvalError::NoSequence { .. }) => continue,
                runs => merge(&runs?)?,
            };
            let figures = Figures::from(&report);
            failed.extend(report.failed.into_iter().map(|one| of(one.name, one.reason)));
            rows.push(RivalRow {
                dataset: test.name.clone(),
                name: name.clone(),
                sequences: report.sequences,
                figures,
            });
        }
        if !rows.iter().any(|row| row.name == *name) {
            failed.push(of(
                folder.display().to_string(),
                "no result of a measured sequence is there".to_owned(),
            ));
        }
    }
    Ok((rows, failed))
}
