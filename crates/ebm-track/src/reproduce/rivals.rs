//! Other trackers: boxes that they published, and what the paper quotes of them.

use std::path::PathBuf;

use ebm_eval::Error as EvalError;
use ebm_eval::tracking::{Annotations, FailedSequence, evaluate_runs, merge};
use serde::{Deserialize, Serialize};

use super::Figures;
use super::compare::Test;
use crate::error::Result;

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

/// A tracker's column of Table 3 as the paper quotes it, in percent; none where the table has a dash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quoted {
    /// Its name.
    pub name: &'static str,
    /// Precision, normalised precision and success on TrackingNet's test set.
    pub tracking_net: [f64; 3],
    /// OP50, OP75 and AUC on UAV123.
    pub uav123: [Option<f64>; 3],
}

/// The trackers of Table 3 beside those that are compared here. OP50 and OP75 of SiamRPN++ are read off a plot, to within 1.
pub const QUOTED: [Quoted; 6] = [
    Quoted { name: "ECO", tracking_net: [49.2, 61.8, 55.4], uav123: [Some(64.0), Some(32.8), Some(53.7)] },
    Quoted { name: "SiamFC", tracking_net: [53.3, 66.6, 57.1], uav123: [None, None, None] },
    Quoted { name: "MDNet", tracking_net: [56.5, 70.5, 60.6], uav123: [None, None, Some(52.8)] },
    Quoted { name: "UPDT", tracking_net: [55.7, 70.2, 61.1], uav123: [Some(66.8), Some(32.9), Some(55.0)] },
    Quoted {
        name: "DaSiamRPN",
        tracking_net: [59.1, 73.3, 63.8],
        uav123: [Some(73.6), Some(41.1), Some(58.4)],
    },
    Quoted {
        name: "SiamRPN++",
        tracking_net: [69.4, 80.0, 73.3],
        uav123: [Some(75.0), Some(56.0), Some(61.3)],
    },
];

/// Scores the boxes in each of the folders `results` on each dataset of which they have a sequence; with what could not be scored.
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
