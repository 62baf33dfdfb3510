//! Mean figures over several runs of one tracker.

use std::collections::BTreeSet;

use super::convention::Convention;
use super::figures::TrackingFigures;
use super::report::{FailedSequence, TrackingReport};
use crate::error::{Error, Result};

/// Mean figures over several runs, the usual report for trackers that draw random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct RunsReport {
    /// Rules by which the figures were computed.
    pub convention: Convention,
    /// Number of runs.
    pub runs: usize,
    /// Number of sequences that all runs have.
    pub sequences: usize,
    /// Means of the figures over the runs.
    pub figures: TrackingFigures,
    /// Sequences that could not be scored in some run; they are left out of every run.
    pub failed: Vec<FailedSequence>,
}

/// Averages the figures and curves of several runs over the sequences that all of them have.
///
/// # Errors
/// [`Error::Empty`] without a run; [`Error::OtherConvention`] if the runs' conventions differ;
/// [`Error::NoSequence`] or [`Error::Empty`] if no sequence is in all runs.
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

/// Collects the failures of all runs, each with its run, and the sequences that some runs scored and others
/// did not contain.
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
