//! `ebm calibrate refiner`: what validation images teach about a refiner for one detector.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_detect::weights::REFINER;
use ebm_detect::{Annotated, CalibrationOptions, RefinedResults, RefinerFit};
use ebm_eval::{detections::check_ids, read_results};
use ebm_train::ModelMetadata;

use crate::device::DeviceArgs;
use crate::model_path::ModelPath;
use crate::progress::Console;

/// Arguments of `ebm calibrate refiner`.
#[derive(Args)]
pub struct RefinerArgs {
    /// The refiner, of `ebm train refiner`, or hub:OWNER/NAME.
    #[arg(long)]
    refiner: ModelPath,
    /// A detector's boxes on images that neither it nor the refiner was trained on, as a COCO result file.
    #[arg(long)]
    results: PathBuf,
    /// COCO annotations of these images.
    #[arg(long)]
    annotations: PathBuf,
    /// Folder of the images.
    #[arg(long)]
    images: PathBuf,
    /// Where the refiner goes that knows the step length, the temperature and the factors of its intervals, and
    /// how f enters scores.
    #[arg(long)]
    out: PathBuf,
    /// The factor of the configured step lengths; then none is chosen.
    #[arg(long)]
    step_factor: Option<f64>,
    /// Samples for each density.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..))]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

pub fn run(args: &RefinerArgs) -> Result<()> {
    if args.out.exists() {
        bail!("{} exists already; give another --out", args.out.display());
    }
    let device = args.device.open_single()?;
    let found = read_results(&args.results)?;
    let dataset = CocoDataset::load(&args.annotations, &args.images, &LoadOptions::new(Purpose::Eval))?;
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
