//! `ebm train`: the same course for every task, [`ebm_experiment::train`].

mod branch;
mod detector;
pub mod face;
mod held_out;
mod images;
mod refiner;
mod run;
mod tracker;
mod watch;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use ebm_experiment::{Session, Training};

use super::create_dir;
use crate::parallel;
use crate::progress::Console;
use crate::signals::Signals;
use run::RunArgs;

/// What to train.
#[derive(Subcommand)]
pub enum Train {
    /// Faster-RCNN: all of it, or all but a body with given weights.
    Detector(detector::DetectorArgs),
    /// What a method adds to a trained detector: a confidence branch, or a density in the place of the
    /// regression.
    #[command(alias = "confidence")]
    Branch(branch::BranchArgs),
    /// A network of its own that places other detectors' boxes.
    Refiner(refiner::RefinerArgs),
    /// The box module of a tracker, on one's own sequences.
    Tracker(tracker::TrackerArgs),
    /// A network of ages, on one's own faces.
    Age(face::FaceArgs<face::AgeImages>),
    /// A network of head poses, on one's own faces.
    HeadPose(face::FaceArgs<face::PoseImages>),
}

/// The arguments of a task, which train it.
trait TrainArgs: Training<Error = anyhow::Error> {
    /// Those that all tasks have.
    fn run(&self) -> &RunArgs;

    /// What standard output names at the end: by default the run's folder.
    fn result(&self) -> Result<PathBuf> {
        Ok(self.run().run.clone())
    }
}

/// Runs the command.
pub fn run(command: Train, signals: &Signals) -> Result<()> {
    match command {
        Train::Detector(args) => train(args, signals),
        Train::Branch(args) => train(args, signals),
        Train::Refiner(args) => train(args, signals),
        Train::Tracker(args) => train(args, signals),
        Train::Age(args) => start(&args.run, &mut args.training()?, run_folder, signals),
        Train::HeadPose(args) => start(&args.run, &mut args.training()?, run_folder, signals),
    }
}

fn train<T: TrainArgs>(mut args: T, signals: &Signals) -> Result<()> {
    let run = args.run().clone();
    start(&run, &mut args, |args, _| args.result(), signals)
}

/// The run's folder, as what standard output names at the end.
fn run_folder<T>(_: &T, run: &RunArgs) -> Result<PathBuf> {
    Ok(run.run.clone())
}

/// Trains as `own` says; standard output names the `result`.
fn start<T: Training<Error: Into<anyhow::Error>>>(
    own: &RunArgs,
    training: &mut T,
    result: fn(&T, &RunArgs) -> Result<PathBuf>,
    signals: &Signals,
) -> Result<()> {
    let (engine, device) = own.engine();
    let (group, device) = engine.join(device)?;
    let mut progress = Console::stopping_at(signals.listen()?).computing_on(&device);
    if !group.is_first() {
        progress = progress.silent();
    }
    let mut session = Session { group: &group, device: &device, progress: &mut progress };
    let trained = course(own, training, result, &mut session);
    parallel::end(&group, trained)
}

fn course<T: Training<Error: Into<anyhow::Error>>>(
    own: &RunArgs,
    training: &mut T,
    result: fn(&T, &RunArgs) -> Result<PathBuf>,
    session: &mut Session<'_>,
) -> Result<()> {
    let run = own.place()?;
    let mut watch = None;
    if session.group.is_first() {
        create_dir(run.spec.root)?;
        watch = Some(own.watch.begin(&own.run)?);
    }
    ebm_experiment::train(training, &run, session).map_err(Into::<anyhow::Error>::into)?;
    drop(watch);
    if session.group.is_first() {
        println!("{}", result(training, own)?.display());
    }
    Ok(())
}
