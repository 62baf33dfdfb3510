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
    fn result(&self) -> Result<std::path::PathBuf> {
        Ok(self.run().run.clone())
    }
}

/// Runs the command.
pub fn run(command: Train, signals: &Signals) -> Result<()> {
    match command {
        Train::Detector(args) => train(args, signals),
        Train::Branch(args) => train(args, signals),
        Train::Refiner(args) => train(args, signals),
        Train::Tracker(args) => train_task(&args.run, &mut args.training()?, signals),
        Train::Age(args) => train_task(&args.run, &mut args.training()?, signals),
        Train::HeadPose(args) => train_task(&args.run, &mut args.training()?, signals),
    }
}

fn train<T: TrainArgs>(mut args: T, signals: &Signals) -> Result<()> {
    let own = args.run().clone();
    if trained(&own, &mut args, signals)? {
        println!("{}", args.result()?.display());
    }
    Ok(())
}

/// Runs a task's own training; standard output names the run's folder at the end.
fn train_task<T: Training>(own: &RunArgs, training: &mut T, signals: &Signals) -> Result<()>
where
    anyhow::Error: From<T::Error>,
{
    if trained(own, training, signals)? {
        println!("{}", own.run.display());
    }
    Ok(())
}

/// Runs a training; whether this process is the first of its group, which speaks of it.
fn trained<T: Training>(own: &RunArgs, training: &mut T, signals: &Signals) -> Result<bool>
where
    anyhow::Error: From<T::Error>,
{
    let (engine, device) = own.engine();
    let (group, device) = engine.join(device)?;
    let mut progress = Console::stopping_at(signals.listen()?).computing_on(&device);
    if !group.is_first() {
        progress = progress.silent();
    }
    let mut session = Session { group: &group, device: &device, progress: &mut progress };
    let result = course(own, training, &mut session);
    let is_first = group.is_first();
    parallel::end(&group, result).map(|()| is_first)
}

fn course<T: Training>(own: &RunArgs, training: &mut T, session: &mut Session<'_>) -> Result<()>
where
    anyhow::Error: From<T::Error>,
{
    let run = own.place()?;
    let mut watch = None;
    if session.group.is_first() {
        create_dir(run.spec.root)?;
        watch = Some(own.watch.begin(&own.run)?);
    }
    ebm_experiment::train(training, &run, session)?;
    drop(watch);
    Ok(())
}
