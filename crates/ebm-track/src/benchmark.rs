//! A tracker on a benchmark: every sequence from its first frame to its last.

use std::path::Path;

use ebm_data::sequences::{Rect, Sequence, read_boxes};
use ebm_eval::tracking::{
    Convention, FailedSequence, ResultFormat, TrackingGroundTruth, TrackingReport, evaluate, write_result,
};
use ebm_seed::Key;
use ebm_train::Progress;

use crate::box_module::BoxNetwork;
use crate::error::Result;
use crate::sequence::{TrackedSequence, track_sequence};
use crate::tracker::{Networks, Stages, TrackerConfig};

/// What came out.
pub struct Benchmark {
    /// The figures. Sequences that could not be tracked are listed, and do not count.
    pub report: TrackingReport,
    /// Every sequence that was tracked.
    pub tracked: Vec<TrackedSequence>,
}

/// Tracks the target of every sequence and scores the boxes. A sequence's randomness is `key` split by its name, so that it does
/// not depend on the others. Its boxes are written to `results` when its last frame is done; a sequence whose boxes are there from an
/// interrupted run is not tracked again.
///
/// # Errors
/// When no sequence can be tracked and scored, or boxes can not be written.
pub fn benchmark<B: BoxNetwork>(
    networks: &Networks<B>,
    config: &TrackerConfig,
    (sequences, convention): (&[Sequence], &Convention),
    results: &Path,
    key: Key,
    progress: &mut dyn Progress,
) -> Result<Benchmark> {
    let (mut tracked, mut failed) = (Vec::new(), Vec::new());
    progress.begin("tracking", sequences.len());
    for (i, sequence) in sequences.iter().enumerate() {
        let key = key.split(&sequence.name);
        let path = ResultFormat::Full.result_path(results, &sequence.name, 1);
        if path.is_file() {
            let (name, boxes) = (sequence.name.clone(), read_boxes(&path)?);
            tracked.push((sequence, TrackedSequence { name, boxes, frames: Vec::new() }));
            continue;
        }
        match track_sequence(networks, config, sequence, key, &mut |_, _, _, _| Ok(())) {
            Ok(found) => {
                write_result(results, &sequence.name, &found.boxes, ResultFormat::Full, 1)?;
                tracked.push((sequence, found));
            }
            Err(error) => {
                failed.push(FailedSequence { name: sequence.name.clone(), reason: error.to_string() })
            }
        }
        progress.advance(i + 1, &sequence.name);
    }
    progress.end();
    let scored = tracked
        .iter()
        .map(|(sequence, found)| (TrackingGroundTruth::from(*sequence), found.boxes.as_slice()));
    let mut report = evaluate(scored, convention)?;
    report.failed.extend(failed);
    Ok(Benchmark { report, tracked: tracked.into_iter().map(|(_, found)| found).collect() })
}

impl Benchmark {
    /// The frames that were tracked and not found in files, and what they took in all.
    pub fn cost(&self) -> (usize, Stages) {
        let frames = self.tracked.iter().flat_map(|sequence| &sequence.frames);
        frames.fold((0, Stages::default()), |(count, sum), frame| (count + 1, sum + frame.stages))
    }

    /// The boxes of a sequence.
    pub fn boxes(&self, name: &str) -> Option<&[Rect]> {
        self.tracked.iter().find(|found| found.name == name).map(|found| found.boxes.as_slice())
    }
}
