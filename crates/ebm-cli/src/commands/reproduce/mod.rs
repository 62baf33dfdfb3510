//! `ebm reproduce`, which `cargo xtask reproduce` starts.

pub mod common;
mod detection;
mod detection_tables;
mod face;
pub mod face_tables;
mod tabular;
mod toy;
mod toy_figures;
mod tracking;
mod tracking_tables;

use anyhow::Result;
use clap::Subcommand;
use ebm_face::reproduce::Task;

use crate::progress::Console;
use crate::signals::Signals;

/// Results of the paper that can be reproduced.
#[derive(Subcommand)]
pub enum Reproduce {
    /// Table 2: comparison of box regression heads.
    Detection(detection::DetectionArgs),
    /// Table 3: visual tracking with ATOM's box module and ours.
    Tracking(tracking::TrackingArgs),
    /// Table 4: age estimation, every baseline before and after refinement.
    Age(face::FaceArgs),
    /// Table 5: head-pose estimation, every baseline before and after refinement.
    HeadPose(face::FaceArgs),
    /// Regression on UCI's tables with the splits of Gal and Ghahramani.
    Tabular(tabular::TabularArgs),
    /// Figure 2: 1-D regression, with every objective.
    Toy(toy::ToyArgs),
}

/// Runs the command.
pub fn run(command: Reproduce, signals: &Signals) -> Result<()> {
    let progress = || Ok::<_, anyhow::Error>(Console::stopping_at(signals.listen()?));
    match command {
        Reproduce::Detection(args) => common::run(&args, progress()?),
        Reproduce::Tracking(args) => common::run(&args, progress()?),
        Reproduce::Age(args) => common::run(&face::Faces { task: Task::Age, args }, progress()?),
        Reproduce::HeadPose(args) => common::run(&face::Faces { task: Task::HeadPose, args }, progress()?),
        Reproduce::Tabular(args) => tabular::run(&args),
        Reproduce::Toy(args) => toy::run(&args),
    }
}
