//! `ebm reproduce`, which `cargo xtask reproduce` starts.

mod detection;
mod face;
mod face_figures;
mod toy;
mod toy_figures;
mod tracking;
mod tracking_figures;

use anyhow::Result;
use clap::Subcommand;
use ebm_face::reproduce::Task;

/// What to reproduce.
#[derive(Subcommand)]
pub enum Reproduce {
    /// Table 2: box regression heads compared.
    Detection(detection::DetectionArgs),
    /// Table 3: visual tracking, ATOM's box module and ours.
    Tracking(tracking::TrackingArgs),
    /// Table 4: age estimation, every baseline before and after refinement.
    Age(face::FaceArgs),
    /// Table 5: head-pose estimation, the same.
    HeadPose(face::FaceArgs),
    /// Figure 2: 1-D regression, with every objective.
    Toy(toy::ToyArgs),
}

/// Runs the command.
pub fn run(command: Reproduce) -> Result<()> {
    match command {
        Reproduce::Detection(args) => detection::run(args),
        Reproduce::Tracking(args) => tracking::run(&args),
        Reproduce::Age(args) => face::run(Task::Age, &args),
        Reproduce::HeadPose(args) => face::run(Task::HeadPose, &args),
        Reproduce::Toy(args) => toy::run(args),
    }
}
