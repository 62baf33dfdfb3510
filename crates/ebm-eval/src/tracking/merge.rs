//! Several runs of one tracker.

use std::collections::BTreeSet;

use super::convention::Convention;
use super::figures::TrackingFigures;
use super::report::{FailedSequence, TrackingReport};
use crate::error::{Error, Result};

/// The figures of several runs, their means. Trackers that draw numbers are reported so.
#[derive(Clone, Debug, PartialEq)]
pub struct RunsReport {
    /// How frames became figures.
    pub convention: Convention,
    /// The number of runs.
    pub runs: usize,
    /// The number of sequences that all runs have.
    pub sequences: usize,
    /// What was measured.
    pub figures: TrackingFigures,
    /// What could not be scored in a run, and so counts in none.
    pub failed: Vec<FailedSequence>,
}

/// Takes runs together, over the sequences that all of them have: the mean of curves is the curve of means.
///
/// # Errors
/// [`Error::Empty`] without a run; [`Error::OtherConvention`]; [`Error::NoSequence`] or [`Error::Empty`] when no
/// sequence is in all runs.
pub fn merge(runs: &[TrackingReport]) -> Result<RunsReport> {
    let first = runs.first().ok_or(Error::Empty("runs"))?;
    if let Some(other) = runs.iter().position(|run| run.convention != first.convention) {
        return Err(Error::OtherConvention(other + 1));
    }
    let names =
        |run: &TrackingReport| -> BTreeSet<String> { run.rows.iter().map(|row| row.name.clone()).collect() };
    let common = runs.iter().skip(1).fold(names(first), |common, run| &common & &names(run));
    let failed = failures(runs, &common);
    let mut figures = Vec::new();
    for run in runs {
        let rows = run.rows.iter().filter(|row| common.contains(&row.name)).cloned().collect();
        figures.push(TrackingReport::new(&run.convention, rows, failed.clone(), Vec::new())?.figures);
    }
    let figures = TrackingFigures::of_parts(&figures.iter().collect::<Vec<_>>(), &vec![1.0; runs.len()]);
    let (convention, sequences) = (first.convention.clone(), common.len());
    Ok(RunsReport { convention, runs: runs.len(), sequences, figures, failed })
}

/// The failures of all runs, each with its run, and what was scored in some runs without having failed in the
/// others.
fn failures(runs: &[TrackingReport], common: &BTreeSet<String>) -> Vec<FailedSequence> {
    let mut failed = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        for FailedSequence { name, reason } in &run.failed {
            failed.push(FailedSequence { name: name.clone(), reason: format!("run {}: {reason}", i + 1) });
        }
    }
    let known: BTreeSet<String> = failed.iter().map(|failed| failed.name.clone()).collect();
    let scored: BTreeSet<&String> = runs.iter().flat_map(|run| &run.rows).map(|row| &row.name).collect();
    for name in scored.into_iter().filter(|&name| !common.contains(name) && !known.contains(name)) {
        failed.push(FailedSequence {
            name: name.clone(),
            reason: "not in every run; score it in all".to_owned(),
        });
    }
    failed
}
