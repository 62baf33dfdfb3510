//! `ebm calibrate tracker`: bands that hold nine of ten edges on annotated videos.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebm_eval::tracking::TestSet;
use ebm_track::saved::SavedConfig;
use ebm_track::{Tracker, TrackerOptions, calibrate_bands};
use ebm_train::ModelFile;

use crate::commands::eval_tracking::parse_test_set;
use crate::commands::say_left_out;
use crate::progress::Console;

/// Arguments of `ebm calibrate tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    /// The tracker, a run such as runs/tracking-stills-1/ebm-0, into whose model.safetensors goes what was
    /// learnt, in the place of what it says of its density.
    #[arg(long)]
    run: PathBuf,
    /// Annotated sequences that it was not trained on, laid out as their dataset is.
    #[arg(long)]
    sequences: PathBuf,
    /// Of which dataset they are.
    #[arg(long, value_parser = parse_test_set(), default_value = "other")]
    dataset: TestSet,
    /// Samples of p(y|x) in each frame, as many as will be drawn when it is used.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..))]
    samples: u32,
    /// Seed of the tracker's numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The backbone's weight file, where it is no longer where the run had it.
    #[arg(long)]
    backbone: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &TrackerArgs) -> Result<()> {
    let options = TrackerOptions { backbone: args.backbone.clone(), seed: args.seed };
    let tracker = Tracker::open_with(&args.run, &options)?;
    let found = (args.dataset.load(&args.sequences))
        .with_context(|| format!("the sequences in {}", args.sequences.display()))?;
    say_left_out(&found.quarantine);
    let samples = args.samples as usize;
    let density = calibrate_bands(&tracker, &found.sequences, samples, &mut Console::new())
        .context("the bands stay as they are")?;
    let [left, top, right, bottom] = density.factors.unwrap_or([1.0; 4]);
    eprintln!(
        "temperature {}; bands are multiplied by {left:.3}, {top:.3}, {right:.3}, {bottom:.3} (left, top, right, bottom)",
        density.temperature
    );
    let saved = SavedConfig { density: Some(density), ..tracker.saved.clone() };
    saved.save(&ModelFile::open(&args.run)?.tensors, &args.run)?;
    println!("{}", ModelFile::at(&args.run).display());
    Ok(())
}
