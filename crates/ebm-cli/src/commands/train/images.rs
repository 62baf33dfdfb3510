//! The annotated images that a detector, a branch or a refiner is trained on and judged by.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use candle_core::Device;
use clap::Args;
use ebm_data::quarantine::Tolerance;
use ebm_detect::config::{ExperimentConfig, Settings, TrainingConfig};
use ebm_detect::training::{ImageFiles, TrainingOptions};
use ebm_detect::weights::WeightFile;
use ebm_experiment::config::check_ranges;

use super::run::RunArgs;
use crate::workers::WorkersArgs;

/// Data and length of a training on annotated images.
#[derive(Args)]
pub struct CommonArgs {
    #[command(flatten)]
    data: DataArgs,
    /// COCO annotations of the images by which the best network is kept and a confidence's step lengths are
    /// chosen; without them the split valid of --data. Where there is neither, every fifth training image is
    /// held out for a confidence.
    #[arg(long, requires = "val_images")]
    val_annotations: Option<PathBuf>,
    /// Their images.
    #[arg(long, requires = "val_annotations")]
    val_images: Option<PathBuf>,
    /// Updates, in place of the configuration's, at least 1; milestones move in proportion.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Images per update, in place of the configuration's; several processes share them equally.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// Compute the frozen layers once per image and keep the result in memory: of the mirrored images too
    /// where they are a body's; for a branch no image is mirrored then.
    #[arg(long)]
    pub cache: bool,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    workers: WorkersArgs,
}

/// Which images, and how many of them may be defective.
#[derive(Args)]
struct DataArgs {
    /// A folder of annotated images in COCO's, Pascal VOC's or YOLO's form, which is recognised; of its
    /// splits, train is trained on and valid chooses a step length.
    #[arg(long, value_name = "FOLDER", required_unless_present = "annotations")]
    data: Option<PathBuf>,
    /// COCO annotation file. It and --images may be given several times, in pairs: all are trained on.
    #[arg(long, conflicts_with = "data", requires = "images")]
    annotations: Vec<PathBuf>,
    /// Its images.
    #[arg(long, requires = "annotations")]
    images: Vec<PathBuf>,
    /// Only the first so many images, by id.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Which part of the samples may be defective, 0 to 1: they are left out.
    #[arg(long, value_name = "FRACTION", default_value_t = Tolerance::default().max_bad_fraction)]
    max_bad_fraction: f64,
    /// Where defective samples are listed, a JSON object a line; images that cannot be decoded in a file of
    /// this name with `.images` at its end.
    #[arg(long, value_name = "FILE")]
    defects: Option<PathBuf>,
}

impl CommonArgs {
    /// The configuration that is given, or else that of the detector's file, or else mini, with the changes
    /// of the command line.
    pub fn config(&self, detector: Option<&Path>) -> Result<ExperimentConfig> {
        let mut config: ExperimentConfig = match (&self.run.config, detector) {
            (None, Some(detector)) => {
                let own = WeightFile::open(detector, &Device::Cpu)?.configuration()?.to_toml()?;
                self.run.settings.parse(&detector.display().to_string(), &own)?.settings
            }
            _ => self.run.settings("mini")?,
        };
        config.detector.backbone.maps = self.run.device.precision().into();
        config.trainings_mut().into_iter().for_each(|training| self.change(training));
        check_ranges("of the command line", &config)?;
        Ok(config)
    }

    /// Makes a training as long, and its batches as large, as is asked for.
    pub fn change(&self, training: &mut TrainingConfig) {
        if let Some(steps) = self.steps {
            training.set_steps(steps as usize);
        }
        training.batch_size = self.batch_size.map_or(training.batch_size, |size| size as usize);
    }

    /// The training's images, seed, and `file`.
    pub fn options(&self, file: PathBuf) -> Result<TrainingOptions> {
        let DataArgs { data, annotations, images, limit, max_bad_fraction, defects } = &self.data;
        let (files, folders) = (annotations.len(), images.len());
        ensure!(
            files == folders,
            "--annotations is given {files} times, --images {folders} times; give them in pairs, or --data"
        );
        Ok(TrainingOptions {
            images: ImageFiles {
                folder: data.clone(),
                coco: annotations.iter().cloned().zip(images.iter().cloned()).collect(),
                limit: limit.map(|limit| limit as usize),
                tolerance: Tolerance { max_bad_fraction: *max_bad_fraction, report: defects.clone() },
            },
            validation: self.val_annotations.clone().zip(self.val_images.clone()),
            seed: self.run.seed,
            cache: self.cache,
            workers: self.workers.count(),
            file,
        })
    }
}
