//! Figures of a tracker on a dataset.

use std::collections::BTreeSet;

use ebm_data::sequences::Rect;
use serde::{Deserialize, Serialize};

use super::convention::Convention;
use super::figures::TrackingFigures;
use super::sequence::{SequenceScores, TrackingGroundTruth, score_sequence};
use crate::error::{Error, Result, TrackingProblem};

/// The figures of a tracker on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackingReport {
    /// Rules by which the figures were computed.
    pub convention: Convention,
    /// Number of sequences that were scored.
    pub sequences: usize,
    /// Number of frames that count.
    pub frames: usize,
    /// Figures over the whole dataset.
    #[serde(flatten)]
    pub figures: TrackingFigures,
    /// Figures of each sequence.
    pub rows: Vec<SequenceScores>,
    /// Sequences that could not be scored.
    pub failed: Vec<FailedSequence>,
    /// Result files without an annotation; they are not scored.
    pub unmatched: Vec<String>,
}

/// A sequence that could not be scored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSequence {
    /// Name of the sequence.
    pub name: String,
    /// Problem, place and remedy.
    pub reason: String,
}

impl TrackingReport {
    /// Averages the figures of `rows`, weighted by sequence or by frame as the convention states.
    ///
    /// # Errors
    /// [`Error::NoSequence`] if all sequences failed; [`Error::Empty`] without any.
    pub(super) fn new(
        convention: &Convention,
        rows: Vec<SequenceScores>,
        failed: Vec<FailedSequence>,
        unmatched: Vec<String>,
    ) -> Result<Self> {
        if rows.is_empty() {
            let Some(FailedSequence { name, reason }) = failed.first().cloned() else {
                return Err(Error::Empty("sequences"));
            };
            return Err(Error::NoSequence(failed.len(), name, reason));
        }
        let weight =
            |row: &SequenceScores| if convention.weight_by_frames { row.counted as f64 } else { 1.0 };
        let weights: Vec<f64> = rows.iter().map(weight).collect();
        let parts: Vec<&TrackingFigures> = rows.iter().map(|row| &row.figures).collect();
        Ok(Self {
            convention: convention.clone(),
            sequences: rows.len(),
            frames: rows.iter().map(|row| row.counted).sum(),
            figures: TrackingFigures::of_parts(&parts, &weights),
            rows,
            failed,
            unmatched,
        })
    }
}

/// Scores predictions in memory: for each sequence its annotation and the predicted boxes, one for each frame
/// from the first. A sequence that cannot be scored is listed in the report and left out of the figures.
///
/// # Errors
/// [`Error::NoSequence`] if none can be scored, [`Error::Empty`] without a sequence.
pub fn evaluate<'a>(
    sequences: impl IntoIterator<Item = (TrackingGroundTruth<'a>, &'a [Rect])>,
    convention: &Convention,
) -> Result<TrackingReport> {
    let scored = sequences.into_iter().map(|(truth, prediction)| {
        let scores = score_sequence(&truth, prediction, convention);
        (truth.name.into_owned(), scores)
    });
    collect(scored, convention, Vec::new(), Vec::new())
}

/// Builds the report from the scores of named sequences; `failed` and `unmatched` are listed in it.
pub(super) fn collect(
    scored: impl Iterator<Item = (String, Result<SequenceScores>)>,
    convention: &Convention,
    mut failed: Vec<FailedSequence>,
    unmatched: Vec<String>,
) -> Result<TrackingReport> {
    let mut names = BTreeSet::new();
    let mut rows = Vec::new();
    for (name, scores) in scored {
        let scores = if names.insert(name.clone()) {
            scores
        } else {
            Err(Error::Tracking(name.clone(), TrackingProblem::Duplicate))
        };
        match scores {
            Ok(scores) => rows.push(scores),
            Err(error) => failed.push(FailedSequence { name, reason: error.to_string() }),
        }
    }
    TrackingReport::new(convention, rows, failed, unmatched)
}
