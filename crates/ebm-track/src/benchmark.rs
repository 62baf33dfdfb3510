//! Evaluation of a tracker on a dataset, with repeated runs and several sequences in parallel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use ebm_base::Key;
use ebm_data::decode::read_image;
use ebm_data::files::{read_settings, write_atomic};
use ebm_data::sequences::{Sequence, read_boxes};
use ebm_eval::tracking::{
    Convention, FailedSequence, ResultFormat, RunResult, TestSet, TrackingGroundTruth, TrackingReport,
    evaluate, read_times, write_result, write_times,
};
use ebm_train::{Progress, settings};
use serde::Serialize;

use crate::box_module::BoxNetwork;
use crate::saved::SavedConfig;
use crate::sequence::{TrackedSequence, track_sequence};
use crate::tracker::{Networks, Stages, TrackerConfig};
use crate::{Error, Result};

/// Number of runs of a tracker over a dataset, and number of threads. Runs differ because a tracker is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Number of times that every sequence is tracked.
    pub repetitions: usize,
    /// Number of threads. Each tracks one sequence at a time.
    pub workers: usize,
}

/// Results of one run of a tracker over a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repetition {
    /// Sequences that were tracked, in the order of the dataset.
    pub tracked: Vec<TrackedSequence>,
    /// Sequences that could not be tracked, with the reason.
    pub failed: Vec<FailedSequence>,
}

/// Returns the folder of the run number `run`, counted from 1, below `results`.
pub fn run_folder(results: &Path, run: usize) -> PathBuf {
    results.join(format!("run_{run:03}"))
}

/// Tracks the target of every sequence in every run.
///
/// The random numbers of a sequence come from `key`, split by the run and the sequence's name. So they do not depend on
/// other sequences or on the number of workers. Boxes and times are written to [`run_folder`] after the last frame of a
/// sequence. A sequence whose boxes exist from an interrupted call is not tracked again. A sequence that cannot be
/// tracked does not stop the others.
///
/// # Errors
/// When boxes cannot be written, or existing boxes cannot be read.
pub fn track_dataset<B: BoxNetwork + Send + Sync>(
    networks: &Arc<Networks<B>>,
    config: &TrackerConfig,
    sequences: &[Sequence],
    results: &Path,
    runs: Runs,
    key: Key,
    progress: &mut dyn Progress,
) -> Result<Vec<Repetition>> {
    let jobs = runs.repetitions * sequences.len();
    let next = AtomicUsize::new(0);
    let work = |answers: Sender<(usize, Result<Outcome>)>| {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return;
            }
            let (run, place) = (job / sequences.len(), job % sequences.len());
            let key = key.split("run").index(run as u64);
            let outcome = track_one(networks, config, &sequences[place], &run_folder(results, run + 1), key);
            // The receiver is gone after an error that ends all jobs.
            if answers.send((job, outcome)).is_err() {
                return;
            }
        }
    };
    progress.begin("tracking", jobs);
    let mut outcomes: Vec<Option<Outcome>> = (0..jobs).map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..runs.workers.max(1) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        for (done, (job, outcome)) in receiver.into_iter().enumerate() {
            outcomes[job] = Some(outcome?);
            progress.advance(done + 1, &sequences[job % sequences.len()].name);
        }
        Ok::<(), Error>(())
    })?;
    progress.end();
    let mut all = vec![Repetition::default(); runs.repetitions];
    for (job, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Some(Ok(tracked)) => all[job / sequences.len()].tracked.push(tracked),
            Some(Err(failed)) => all[job / sequences.len()].failed.push(failed),
            None => {}
        }
    }
    Ok(all)
}

/// Result of one sequence.
type Outcome = std::result::Result<TrackedSequence, FailedSequence>;

fn track_one<B: BoxNetwork>(
    networks: &Arc<Networks<B>>,
    config: &TrackerConfig,
    sequence: &Sequence,
    folder: &Path,
    key: Key,
) -> Result<Outcome> {
    let (name, format) = (&sequence.name, ResultFormat::Full);
    let (boxes, times) = (format.result_path(folder, name, 1), format.time_path(folder, name));
    // The boxes are written last, so the times exist if the boxes do.
    if boxes.is_file() {
        let (boxes, seconds) = (read_boxes(&boxes)?, read_times(&times)?);
        if boxes.len() == sequence.frames.len() {
            return Ok(Ok(TrackedSequence { name: name.clone(), boxes, seconds, frames: Vec::new() }));
        }
    }
    match track_sequence(networks, config, sequence, key.split(name), &mut |_, _, _, _| Ok(())) {
        Ok(found) => {
            write_times(folder, name, &[&found.seconds], format)?;
            write_result(folder, name, &found.boxes, format, 1)?;
            Ok(Ok(found))
        }
        Err(error) => Ok(Err(FailedSequence { name: name.clone(), reason: error.to_string() })),
    }
}

impl Repetition {
    /// Computes the figures. Sequences that could not be tracked are listed, and do not count.
    ///
    /// # Errors
    /// When no sequence can be scored; when `convention` needs the size of the frames and the first frame of a sequence
    /// cannot be read.
    pub fn report(&self, sequences: &[Sequence], convention: &Convention) -> Result<TrackingReport> {
        let mut scored = Vec::new();
        for found in &self.tracked {
            let Some(sequence) = sequences.iter().find(|sequence| sequence.name == found.name) else {
                continue;
            };
            let mut truth = TrackingGroundTruth::from(sequence);
            if let (true, Some(path)) = (convention.clip_to_image, sequence.frames.path(0)) {
                let image = read_image(&path)?;
                truth.image_size = Some([image.width as f64, image.height as f64]);
            }
            scored.push((truth, found.boxes.as_slice()));
        }
        let mut report = evaluate(scored, convention)?;
        report.failed.extend(self.failed.iter().cloned());
        Ok(report)
    }

    /// Returns the number of frames that were tracked, and their total time. Boxes read from files do not count.
    pub fn cost(&self) -> (usize, Stages) {
        let frames = self.tracked.iter().flat_map(|sequence| &sequence.frames);
        frames.fold((0, Stages::default()), |(count, sum), frame| (count + 1, sum + frame.stages))
    }
}

/// Origin of the boxes in a folder. An interrupted evaluation continues only with the same origin.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// Name of the dataset.
    pub dataset: String,
    /// SHA-256 of the tracker's file, which names its backbone.
    pub model_sha256: String,
    /// Seed of the tracker.
    pub seed: u64,
    /// Settings of the tracker.
    pub tracker: SavedConfig,
}

impl Origin {
    /// Writes this origin to `origin.toml` in the folder `out`, or compares it with the file that exists.
    ///
    /// # Errors
    /// [`Error::Config`] when the folder has boxes of another origin; when a file cannot be read or written.
    pub fn claim(&self, out: &Path) -> Result<()> {
        let path = out.join("origin.toml");
        let fail = |reason: String| Error::config(path.display(), format!("{reason}; give another --out"));
        let text = toml::to_string(self).map_err(|error| fail(error.to_string()))?;
        if !path.is_file() {
            return Ok(write_atomic(&path, text.as_bytes())?);
        }
        let flat = |text: &str| settings::flat(text).map_err(|error| fail(error.to_string()));
        let differences = settings::differences(&flat(&read_settings(&path)?)?, &flat(&text)?, |_| true);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(fail(format!("has boxes with {}", differences.join(", "))))
        }
    }
}

/// Writes the runs `all` to `folder` in the format of the server or toolkit of `set`, and replaces the folder's
/// contents. Returns the folders whose files are to be uploaded as an archive.
///
/// # Errors
/// When a file cannot be written, or an existing one cannot be removed.
pub fn write_submission(set: TestSet, folder: &Path, all: &[Repetition]) -> Result<Vec<PathBuf>> {
    if folder.is_dir() {
        std::fs::remove_dir_all(folder).map_err(|source| ebm_data::Error::io("remove", folder, source))?;
    }
    let results: Vec<Vec<RunResult<'_>>> =
        all.iter().map(|run| run.tracked.iter().map(RunResult::from).collect()).collect();
    Ok(set.write_submission(folder, &results)?)
}

impl<'a> From<&'a TrackedSequence> for RunResult<'a> {
    fn from(found: &'a TrackedSequence) -> Self {
        Self { name: &found.name, boxes: &found.boxes, seconds: &found.seconds }
    }
}
