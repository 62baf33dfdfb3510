//! `ebm calibrate`: what annotated images and videos teach about how a trained model is used.

mod refiner;
mod tracker;

use anyhow::Result;
use clap::Subcommand;

/// What to calibrate.
#[derive(Subcommand)]
pub enum Calibrate {
    /// A refiner, from a detector's boxes on annotated images: how far to move boxes, how wide intervals have to
    /// be, and how f enters scores.
    Refiner(refiner::RefinerArgs),
    /// A tracker, from annotated videos: how wide the bands of edges have to be.
    Tracker(tracker::TrackerArgs),
}

pub fn run(command: Calibrate) -> Result<()> {
    match command {
        Calibrate::Refiner(args) => refiner::run(&args),
        Calibrate::Tracker(args) => tracker::run(&args),
    }
}
