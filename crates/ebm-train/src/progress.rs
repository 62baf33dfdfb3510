//! What a long computation tells its caller.

use std::path::Path;

use crate::checkpoint::Retention;
use crate::error::Result;
use crate::observer::{Event, Observer};
use crate::run_dir::{Environment, RunDir};
use crate::trainer::{TrainOptions, TrainTask, train};

/// Watches the stages of a reproduction; the library itself never prints.
pub trait Progress {
    /// A stage of `total` units begins.
    fn begin(&mut self, stage: &str, total: usize);

    /// `done` units of the stage are done; `note` is worth showing beside it.
    fn advance(&mut self, done: usize, note: &str);

    /// The stage is over.
    fn end(&mut self);

    /// Something that the user should read.
    fn message(&mut self, text: &str);
}

/// Trains `task` for `steps` in a new run directory `root/name`, as a stage of `progress`, and leaves its last checkpoint
/// there.
///
/// # Errors
/// Those of [`RunDir::create`] and [`train`].
pub fn train_run<T: TrainTask>(
    (root, name): (&Path, &str),
    config: &str,
    steps: usize,
    seed: u64,
    task: &mut T,
    progress: &mut dyn Progress,
) -> Result<RunDir> {
    let run = RunDir::create(root, name, config, &Environment::default())?;
    let (checkpoint_every, retention) = (1000, Retention::default());
    let options = TrainOptions { run: &run, seed, checkpoint_every, retention, resume: false };
    progress.begin(&format!("training {name}"), steps);
    train(0..steps, task, &mut StageObserver::new(progress), &options)?;
    progress.end();
    Ok(run)
}

/// Shows nothing.
impl Progress for () {
    fn begin(&mut self, _stage: &str, _total: usize) {}
    fn advance(&mut self, _done: usize, _note: &str) {}
    fn end(&mut self) {}
    fn message(&mut self, _text: &str) {}
}

/// Passes a training's events on as the advance of a stage; the note is the loss, averaged over recent steps.
pub struct StageObserver<'a> {
    progress: &'a mut dyn Progress,
    smoothed: Option<f64>,
}

/// Weight of the newest loss in the running average.
const SMOOTHING: f64 = 0.05;

impl<'a> StageObserver<'a> {
    /// Reports to `progress`, whose stage has begun.
    pub fn new(progress: &'a mut dyn Progress) -> Self {
        Self { progress, smoothed: None }
    }
}

impl Observer for StageObserver<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Warning { message } => self.progress.message(message),
            Event::Step { step, report, skipped } => {
                if skipped {
                    let text =
                        format!("step {step}: loss {} is not finite; the update was skipped", report.loss);
                    self.progress.message(&text);
                } else {
                    let before = self.smoothed.unwrap_or(report.loss);
                    self.smoothed = Some(before + SMOOTHING * (report.loss - before));
                }
                self.progress.advance(step + 1, &format!("loss {:.4}", self.smoothed.unwrap_or(report.loss)));
            }
            _ => {}
        }
    }
}
