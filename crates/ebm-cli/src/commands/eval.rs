//! `ebm eval`: computes metrics.

use anyhow::Result;
use clap::Subcommand;

use super::eval_detection::{self, DetectionArgs};
use super::eval_face::{self, AgeArgs, PoseArgs};
use super::eval_table::{self, TableArgs};
use super::eval_tracking::{self, TrackingArgs};

/// Tasks that can be evaluated.
#[derive(Subcommand)]
pub enum Eval {
    /// The twelve COCO metrics of a result file or of a trained model; also by category, by kind of error, and the
    /// worst images.
    Detection(Box<DetectionArgs>),
    /// Success and precision of a tracker's boxes, whichever program wrote them.
    Tracking(TrackingArgs),
    /// The mean absolute error of trained networks on faces with ages, before and after refinement.
    Age(AgeArgs),
    /// The mean absolute error of trained networks on heads with poses, before and after refinement.
    HeadPose(PoseArgs),
    /// Log-likelihood, errors and calibration of a fit on another table.
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
