//! `ebm eval`.

use anyhow::Result;
use clap::Subcommand;

use super::eval_detection::{self, DetectionArgs};
use super::eval_face::{self, AgeArgs, PoseArgs};
use super::eval_table::{self, TableArgs};
use super::eval_tracking::{self, TrackingArgs};

/// What to evaluate.
#[derive(Subcommand)]
pub enum Eval {
    /// The twelve COCO figures of a result file, or of a trained model on images; by category and size, by
    /// kind of error, and the worst images.
    Detection(Box<DetectionArgs>),
    /// Success and precision of the boxes that any tracker wrote.
    Tracking(TrackingArgs),
    /// The mean absolute error of saved networks on faces with ages, refined and not.
    Age(AgeArgs),
    /// The same on heads with poses.
    HeadPose(PoseArgs),
    /// Likelihood, errors and calibration of a fit on another table.
    Table(TableArgs),
}

pub fn run(command: Eval) -> Result<()> {
    match command {
        Eval::Detection(args) => eval_detection::run(&args),
        Eval::Tracking(args) => eval_tracking::run(&args),
        Eval::Age(args) => eval_face::age(&args),
        Eval::HeadPose(args) => eval_face::pose(&args),
        Eval::Table(args) => eval_table::run(&args),
    }
}
