//! `ebm calibrate refiner`: what validation images teach about a refiner for one detector.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_detect::config::{RefinerConfig, Settings};
use ebm_detect::weights::REFINER;
use ebm_detect::{
    BoxRefiner, Calibration, CalibrationOptions, RefinedResults, RefinerOptions, best_refiner_factor,
};
use ebm_eval::{GroundTruth, detections::check_ids, read_results};
use ebm_nn::import::load_safetensors;
use ebm_seed::Key;
use ebm_train::{ModelMetadata, Progress};

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

/// How a refiner is calibrated.
pub struct Fit<'a> {
    /// The refiner's file.
    pub refiner: &'a Path,
    /// What it says of itself.
    pub metadata: ModelMetadata,
    /// The factor of the configured step lengths, where none is to be chosen.
    pub step_factor: Option<f64>,
    /// Samples for the densities; none, where step lengths alone are chosen.
    pub samples: Option<CalibrationOptions>,
    /// Where the network computes.
    pub options: RefinerOptions,
}

impl Fit<'_> {
    /// Chooses by `results` and says what was chosen; the file's metadata with it.
    pub fn to(&self, results: &RefinedResults<'_>, progress: &mut dyn Progress) -> Result<ModelMetadata> {
        let path = self.refiner;
        let mut said = self.metadata.clone();
        let factor = match self.step_factor {
            Some(factor) => factor,
            None => {
                let refiner = BoxRefiner::open_with(path, &self.options)?;
                let factors = &RefinerConfig::parse("its configuration", &said.config)?.step_factors;
                let (factor, ap) = best_refiner_factor(&refiner, results, factors, progress)?;
                let text = format!("step lengths × {factor}: AP {:.1} on {}", 100.0 * ap, results.name);
                progress.message(&text);
                factor
            }
        };
        said.step_factor = Some(factor);
        let Some(samples) = &self.samples else { return Ok(said) };
        let options = RefinerOptions { step_factor: Some(factor), ..self.options.clone() };
        let refiner = BoxRefiner::open_with(path, &options)?;
        let Some(found) = Calibration::of(&refiner, results, samples, progress)? else {
            progress.message(&format!(
                "intervals and scores stay as they are: fewer than {} boxes are right, or there is no density",
                Calibration::FEWEST
            ));
            return Ok(said);
        };
        let Calibration { temperature, factors: [left, top, right, bottom], rescoring } = found;
        progress.message(&format!(
            "temperature {temperature}; intervals are multiplied by {left:.3}, {top:.3}, {right:.3}, {bottom:.3} (left, top, right, bottom); \
             f enters scores with the power {}",
            rescoring.power
        ));
        said.calibration = toml::to_string(&found).context("the calibration")?;
        Ok(said)
    }
}

/// Runs the command.
pub fn run(args: &RefinerArgs) -> Result<()> {
    if args.out.exists() {
        bail!("{} exists already; give another --out", args.out.display());
    }
    let options = RefinerOptions { device: args.device.open_single()?, ..RefinerOptions::default() };
    let found = read_results(&args.results)?;
    let dataset = CocoDataset::load(&args.annotations, &args.images, &LoadOptions::new(Purpose::Eval))?;
    let truth = GroundTruth::from(&dataset);
    check_ids(&found, &truth, &args.results.display().to_string())?;
    let results =
        RefinedResults { name: "validation images", dataset: &dataset, truth: &truth, detections: &found };
    let key = Key::new(args.seed).split("calibration");
    let file = args.refiner.file()?;
    let fit = Fit {
        refiner: &file,
        metadata: ModelMetadata::require(&file, &[REFINER])?,
        step_factor: args.step_factor,
        samples: Some(CalibrationOptions { samples: args.samples as usize, key }),
        options,
    };
    let said = fit.to(&results, &mut Console::new())?;
    said.save(&args.out, &load_safetensors(&file, &candle_core::Device::Cpu)?)?;
    println!("{}", args.out.display());
    Ok(())
}
