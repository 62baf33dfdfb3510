//! `ebm train`: runs [`ebm_experiment::train`] for every task.

mod detection;
pub mod face;
mod images;
mod run;
mod tracker;
mod watch;

use std::path::Path;

use anyhow::{Error, Result};
use clap::Subcommand;
use ebm_experiment::{Session, Training};

use super::create_dir;
use crate::progress::Console;
use crate::signals::Signals;
use crate::{exit, parallel};
use run::RunArgs;

/// Models that can be trained.
#[derive(Subcommand)]
pub enum Train {
    /// Faster-RCNN, as a whole or without a body whose weights are given.
    Detector(detection::DetectorArgs),
    /// A method's branch of a trained detector: a confidence, or a density instead of the box regression.
    #[command(alias = "confidence")]
    Branch(detection::BranchArgs),
    /// A separate network that refines other detectors' boxes.
    Refiner(detection::RefinerArgs),
    /// The box module of a tracker, on your sequences.
    Tracker(tracker::TrackerArgs),
    /// A network for ages, on your faces.
    Age(face::FaceArgs<face::AgeImages>),
    /// A network for head poses, on your faces.
    HeadPose(face::FaceArgs<face::PoseImages>),
}

pub fn run(command: Train, signals: &Signals) -> Result<()> {
    match command {
        Train::Detector(args) => start(&args.common.run, args.training()?, |of| &of.options.file, signals),
        Train::Branch(args) => start(&args.common.run, args.training()?, |of| &of.options.file, signals),
        Train::Refiner(args) => start(&args.common.run, args.training()?, |of| &of.options.file, signals),
        Train::Tracker(args) => start(&args.run, args.training()?, |of| &of.run, signals),
        Train::Age(args) => start(&args.run, args.training()?, |of| &of.run, signals),
        Train::HeadPose(args) => start(&args.run, args.training()?, |of| &of.run, signals),
    }
}

/// Trains with the arguments `own`, and prints the path that `result` returns.
fn start<T: Training<Error: Into<Error>>>(
    own: &RunArgs,
    mut training: T,
    result: fn(&T) -> &Path,
    signals: &Signals,
) -> Result<()> {
    let (group, device) = own.engine.join(own.device)?;
    let mut progress = Console::stopping_at(signals.listen()?).computing_on(&device);
    if !group.is_first() {
        progress = progress.silent();
    }
    let mut session = Session { group: &group, device: &device, progress: &mut progress };
    let trained = run_training(own, &mut training, &mut session);
    let is_done = trained.is_ok() && group.is_first();
    parallel::end(&group, trained)?;
    if is_done {
        println!("{}", result(&training).display());
    }
    Ok(())
}

fn run_training<T: Training<Error: Into<Error>>>(
    own: &RunArgs,
    training: &mut T,
    session: &mut Session<'_>,
) -> Result<()> {
    let run = own.place()?;
    let mut watch = None;
    if session.group.is_first() {
        create_dir(run.spec.root)?;
        watch = Some(own.watch.begin(&own.run)?);
    }
    let no_space = |error: T::Error| no_space(error.into(), &own.run);
    ebm_experiment::train(training, &run, session).map_err(no_space)?;
    drop(watch);
    Ok(())
}

/// Adds advice to an error from a full disk. Other errors stay as they are.
fn no_space(error: Error, run: &Path) -> Error {
    let is_of_memory = error.chain().any(|cause| cause.to_string().contains("OUT_OF_MEMORY"));
    if is_of_memory || !exit::is_of_resources(&error) || error.to_string().starts_with("no space for") {
        return error;
    }
    let run = run.display();
    error.context(format!("no space for {run}; free some and go on with --resume: the checkpoints are whole"))
}
