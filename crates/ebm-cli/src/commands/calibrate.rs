//! `ebm calibrate`: calibrates a trained refiner or tracker on annotated images or videos.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_detect::weights::REFINER;
use ebm_detect::{Annotated, CalibrationOptions, RefinedResults, RefinerFit};
use ebm_eval::tracking::TestSet;
use ebm_eval::{detections::check_ids, read_results};
use ebm_track::saved::SavedConfig;
use ebm_track::{BandCalibration, Tracker, TrackerOptions, calibrate_bands};
use ebm_train::{ModelFile, ModelMetadata};

use super::eval_tracking::{bands_table, parse_test_set};
use super::report_left_out;
use crate::device::DeviceArgs;
use crate::model_path::ModelPath;
use crate::progress::Console;
use crate::tolerance::ToleranceArgs;

/// Models that can be calibrated.
#[derive(Subcommand)]
pub enum Calibrate {
    /// A refiner, on a detector's boxes in annotated images: how far it moves boxes, how wide its intervals are, and
    /// how f changes scores.
    Refiner(RefinerArgs),
    /// A tracker, on annotated videos: how wide the bands of edges are.
    Tracker(TrackerArgs),
}

pub fn run(command: Calibrate) -> Result<()> {
    match command {
        Calibrate::Refiner(args) => refiner(&args),
        Calibrate::Tracker(args) => tracker(&args),
    }
}

/// Arguments of `ebm calibrate refiner`.
#[derive(Args)]
pub struct RefinerArgs {
    /// Refiner file of `ebm train refiner`, or hub:OWNER/NAME.
    #[arg(long)]
    refiner: ModelPath,
    /// COCO result file with a detector's boxes on images that neither the detector nor the refiner was trained on.
    #[arg(long)]
    results: PathBuf,
    /// COCO annotations of the images.
    #[arg(long)]
    annotations: PathBuf,
    /// Folder of the images.
    #[arg(long)]
    images: PathBuf,
    /// File for the calibrated refiner, with the step length, the temperature, the factors of intervals and the
    /// rescoring by f. It must not exist.
    #[arg(long)]
    out: PathBuf,
    /// Factor of the configured step lengths, instead of one chosen on the images.
    #[arg(long)]
    step_factor: Option<f64>,
    /// Number of samples for each density.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=100_000))]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

fn refiner(args: &RefinerArgs) -> Result<()> {
    if args.out.exists() {
        bail!("{} exists already; give another --out", args.out.display());
    }
    let device = args.device.open_single()?;
    let found = read_results(&args.results)?;
    let options = LoadOptions { tolerance: args.tolerance.tolerance(), ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(&args.annotations, &args.images, &options)?;
    report_left_out("records", &dataset.quarantine);
    let images = Annotated::new("validation images", dataset, 0);
    check_ids(&found, &images.truth, &args.results.display().to_string())?;
    let key = Key::new(args.seed).split("calibration");
    let file = args.refiner.file()?;
    let fit = RefinerFit {
        file: &file,
        metadata: ModelMetadata::require(&file, &[REFINER])?,
        step_factor: args.step_factor,
        samples: Some(CalibrationOptions { samples: args.samples as usize, key }),
        device,
    };
    let results = RefinedResults { images: &images, detections: &found };
    fit.write(&results, &args.out, &mut Console::new())?;
    println!("{}", args.out.display());
    Ok(())
}

/// Arguments of `ebm calibrate tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    /// Run of the tracker, such as runs/tracking-stills-1/ebm-0. The calibration is written into its model.safetensors
    /// and replaces an earlier one.
    #[arg(long)]
    run: PathBuf,
    /// Folder of annotated sequences that the tracker was not trained on, laid out as their dataset is.
    #[arg(long)]
    sequences: PathBuf,
    /// Dataset of the sequences.
    #[arg(long, value_parser = parse_test_set(), default_value = "other")]
    dataset: TestSet,
    /// Samples of p(y|x) in each frame; take the number that the tracker will be used with.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=100_000))]
    samples: u32,
    /// Seed of the tracker's random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Weights of the backbone, if they are no longer where the run had them.
    #[arg(long)]
    backbone: Option<PathBuf>,
}

fn tracker(args: &TrackerArgs) -> Result<()> {
    let options = TrackerOptions { backbone: args.backbone.clone(), seed: args.seed };
    let tracker = Tracker::open_with(&args.run, &options)?;
    let found = (args.dataset.load(&args.sequences))
        .with_context(|| format!("the sequences in {}", args.sequences.display()))?;
    report_left_out("sequences", &found.quarantine);
    let samples = args.samples as usize;
    let BandCalibration { density, left_out } =
        calibrate_bands(&tracker, &found.sequences, samples, &mut Console::new())
            .context("the bands are not calibrated")?;
    let [left, top, right, bottom] = density.factors.unwrap_or([1.0; 4]);
    eprintln!(
        "temperature {}; bands are multiplied by {left:.3}, {top:.3}, {right:.3}, {bottom:.3} (left, top, right, bottom)",
        density.temperature
    );
    match left_out.len() {
        0 => eprintln!("a single sequence cannot show what the bands hold in another; give more sequences"),
        _ => eprintln!("By bands that were calibrated on the other sequences: {}", bands_table(&left_out)),
    }
    let saved = SavedConfig { density: Some(density), ..tracker.saved.clone() };
    saved.save(&ModelFile::open(&args.run)?.tensors, &args.run)?;
    println!("{}", ModelFile::at(&args.run).display());
    Ok(())
}
