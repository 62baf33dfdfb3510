//! Arguments that name the annotated images for the training and validation of a detector, a branch or a refiner.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use candle_core::Device;
use clap::Args;
use ebm_detect::config::{ExperimentConfig, Settings, TrainingConfig};
use ebm_detect::training::{ImageFiles, TrainingOptions};
use ebm_detect::weights::WeightFile;
use ebm_experiment::config::check_ranges;

use super::run::RunArgs;
use crate::tolerance::ToleranceArgs;
use crate::workers::WorkersArgs;

/// Data and length of a training on annotated images.
#[derive(Args)]
pub struct CommonArgs {
    #[command(flatten)]
    data: DataArgs,
    /// COCO annotations of the validation images, which choose the best network and a confidence's step lengths. By
    /// default the split valid of --data. Without either, every fifth training image is held out for a confidence.
    #[arg(long, requires = "val_images")]
    val_annotations: Option<PathBuf>,
    /// Folder of the images of --val-annotations.
    #[arg(long, requires = "val_annotations")]
    val_images: Option<PathBuf>,
    /// Number of updates, instead of the configuration's. Milestones move in proportion.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Images per update, instead of the configuration's. Several processes share them equally.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// Compute the frozen layers once per image and keep the result in memory. A body's results are also kept for
    /// mirrored images. A branch is then trained without mirrored images.
    #[arg(long)]
    pub cache: bool,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    workers: WorkersArgs,
}

/// Training images, and the fraction of them that may be defective.
#[derive(Args)]
struct DataArgs {
    /// Folder of annotated images in COCO's, Pascal VOC's or YOLO's format, which is detected. Its split train is
    /// trained on, and valid chooses a step length.
    #[arg(long, value_name = "FOLDER", required_unless_present = "annotations")]
    data: Option<PathBuf>,
    /// COCO annotation file. It and --images may be given several times, in pairs, to train on all of them.
    #[arg(long, conflicts_with = "data", requires = "images")]
    annotations: Vec<PathBuf>,
    /// Folder of the images of --annotations.
    #[arg(long, requires = "annotations")]
    images: Vec<PathBuf>,
    /// Train only on the first LIMIT images, by id.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    tolerance: ToleranceArgs,
}

impl CommonArgs {
    /// Returns the given configuration, or the one in the detector's file, or mini, with the changes of the command
    /// line.
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

    /// Sets the number of updates and the batch size, if they are given.
    pub fn change(&self, training: &mut TrainingConfig) {
        if let Some(steps) = self.steps {
            training.set_steps(steps as usize);
        }
        training.batch_size = self.batch_size.map_or(training.batch_size, |size| size as usize);
    }

    /// Returns the training's options. The result is written to `file`.
    pub fn options(&self, file: PathBuf) -> Result<TrainingOptions> {
        let DataArgs { data, annotations, images, limit, tolerance } = &self.data;
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
                tolerance: tolerance.tolerance(),
            },
            validation: self.val_annotations.clone().zip(self.val_images.clone()),
            seed: self.run.seed,
            cache: self.cache,
            workers: self.workers.count(),
            file,
        })
    }
}
