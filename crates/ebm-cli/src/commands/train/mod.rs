//! `ebm train`: the same course for every task, [`ebm_experiment::train`].

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

/// What to train.
#[derive(Subcommand)]
pub enum Train {
    /// Faster-RCNN: all of it, or all but a body with given weights.
    Detector(detection::DetectorArgs),
    /// What a method adds to a trained detector: a confidence branch, or a density in the place of the
    /// regression.
    #[command(alias = "confidence")]
    Branch(detection::BranchArgs),
    /// A network of its own that places other detectors' boxes.
    Refiner(detection::RefinerArgs),
    /// The box module of a tracker, on one's own sequences.
    Tracker(tracker::TrackerArgs),
    /// A network of ages, on one's own faces.
    Age(face::FaceArgs<face::AgeImages>),
    /// A network of head poses, on one's own faces.
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

/// Trains as `own` says; standard output names the `result`.
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
    let trained = course(own, &mut training, &mut session);
    let is_done = trained.is_ok() && group.is_first();
    parallel::end(&group, trained)?;
    if is_done {
        println!("{}", result(&training).display());
    }
    Ok(())
}

fn course<T: Training<Error: Into<Error>>>(
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

/// What to do where the disk is full; other errors speak for themselves.
fn no_space(error: Error, run: &Path) -> Error {
    let is_of_memory = error.chain().any(|cause| cause.to_string().contains("OUT_OF_MEMORY"));
    if is_of_memory || !exit::is_of_resources(&error) || error.to_string().starts_with("no space for") {
        return error;
    }
    let run = run.display();
    error.context(format!("no space for {run}; free some and go on with --resume: the checkpoints are whole"))
}
