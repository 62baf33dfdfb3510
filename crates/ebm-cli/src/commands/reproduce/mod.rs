//! `ebm reproduce`, which `cargo xtask reproduce` starts.

mod detection;
mod toy;
mod toy_figures;

use anyhow::Result;
use clap::Subcommand;

/// What to reproduce.
#[derive(Subcommand)]
pub enum Reproduce {
    /// Table 2: box regression heads compared.
    Detection(detection::DetectionArgs),
    /// Figure 2: 1-D regression, with every objective.
    Toy(toy::ToyArgs),
}

/// Runs the command.
pub fn run(command: Reproduce) -> Result<()> {
    match command {
        Reproduce::Detection(args) => detection::run(args),
        Reproduce::Toy(args) => toy::run(args),
    }
}
