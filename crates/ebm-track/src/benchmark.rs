//! A tracker on a dataset: every sequence from its first frame to its last, several times, several sequences
//! at a time.

use std::path::{Path, PathBuf};
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

/// How often a tracker, which draws numbers, runs over a dataset, and how many sequences are tracked at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Times that every sequence is tracked.
    pub repetitions: usize,
    /// Threads, each with a sequence.
    pub workers: usize,
}

/// What a tracker made of a dataset in one of its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repetition {
    /// Every sequence that was tracked, in the dataset's order.
    pub tracked: Vec<TrackedSequence>,
    /// The others, with the reason.
    pub failed: Vec<FailedSequence>,
}

/// The folder of a run below that of all results; runs are counted from 1.
pub fn run_folder(results: &Path, run: usize) -> PathBuf {
    results.join(format!("run_{run:03}"))
}

/// Tracks the target of every sequence in every run. The randomness of a sequence is `key` split by the run
/// and its name, so that it depends neither on the others nor on the number of workers. Boxes and times go to
/// [`run_folder`] when a sequence's last frame is done; a sequence whose boxes are there from an interrupted
/// call is not tracked again. One that can not be tracked stops no other.
///
/// # Errors
/// When boxes can not be written, or those that are there can not be read.
pub fn track_dataset<B: BoxNetwork + Sync>(
    networks: &Networks<B>,
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
            // Nobody listens any more after a failure that ends everything.
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

/// What became of a sequence.
type Outcome = std::result::Result<TrackedSequence, FailedSequence>;

fn track_one<B: BoxNetwork>(
    networks: &Networks<B>,
    config: &TrackerConfig,
    sequence: &Sequence,
    folder: &Path,
    key: Key,
) -> Result<Outcome> {
    let (name, format) = (&sequence.name, ResultFormat::Full);
    let (boxes, times) = (format.result_path(folder, name, 1), format.time_path(folder, name));
    // The boxes are written last: where they are, the times are too.
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
    /// The figures. Sequences that could not be tracked are listed, and do not count.
    ///
    /// # Errors
    /// When no sequence can be scored; when a convention asks for the size of a sequence's frames and its
    /// first can not be read.
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

    /// The frames that were tracked and not found in files, and what they took in all.
    pub fn cost(&self) -> (usize, Stages) {
        let frames = self.tracked.iter().flat_map(|sequence| &sequence.frames);
        frames.fold((0, Stages::default()), |(count, sum), frame| (count + 1, sum + frame.stages))
    }
}

/// What the boxes in a folder depend on, which does not change when the tracking of a dataset goes on.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// The dataset's name.
    pub dataset: String,
    /// SHA-256 of the tracker's file, which says on which backbone it was trained.
    pub model_sha256: String,
    /// The seed of all that the tracker draws.
    pub seed: u64,
    /// The tracker.
    pub tracker: SavedConfig,
}

impl Origin {
    /// Writes this to `origin.toml` in the folder `out`.
    ///
    /// # Errors
    /// [`Error::Config`] where the folder has the boxes of something else; when a file can not be read or written.
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

/// Writes what the server or toolkit of `set` expects of these runs anew to `folder`, and returns the folders whose
/// files a server takes as an archive.
///
/// # Errors
/// When a file can not be written, or one that is there not be removed.
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
