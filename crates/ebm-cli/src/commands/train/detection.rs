//! `ebm train detector`, `ebm train branch`, `ebm train refiner`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ebm_detect::config::RefinerConfig;
use ebm_detect::training::{BranchTraining, DetectorTraining, RefinerTraining};
use ebm_experiment::config::check_ranges;

use super::images::CommonArgs;

/// Arguments of `ebm train detector`.
#[derive(Args)]
pub struct DetectorArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Weights of the body (a ResNet with torchvision's names, or EfficientNet-Lite0 as published, as the configuration
    /// says). The body is frozen then.
    #[arg(long)]
    body: Option<PathBuf>,
    /// Accept weights with a part of the body. The rest is initialised and trained. By default every name must be
    /// there.
    #[arg(long, requires = "body", conflicts_with = "cache")]
    partial_body: bool,
}

impl DetectorArgs {
    /// Returns the training that the arguments describe.
    pub fn training(&self) -> Result<DetectorTraining> {
        Ok(DetectorTraining {
            config: self.common.config(None)?,
            own_classes: self.common.run.config.is_none(),
            body: self.body.clone(),
            partial_body: self.partial_body,
            options: self.common.options(self.common.run.run.join("detector.safetensors"))?,
        })
    }
}

/// Arguments of `ebm train branch`.
#[derive(Args)]
pub struct BranchArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Weights of the detector.
    #[arg(long)]
    detector: PathBuf,
    /// Method, by its key in result files: ebm, iou_net, gaussian, mixture4, …
    #[arg(long, default_value = "ebm")]
    method: String,
    /// Factor of a confidence's configured step lengths. Then none is chosen, and no image is held out.
    #[arg(long, conflicts_with = "val_annotations")]
    step_factor: Option<f64>,
}

impl BranchArgs {
    /// Returns the training that the arguments describe.
    pub fn training(&self) -> Result<BranchTraining> {
        Ok(BranchTraining {
            config: self.common.config(Some(&self.detector))?,
            method: self.method.clone(),
            detector: self.detector.clone(),
            step_factor: self.step_factor,
            options: self.common.options(self.common.run.run.join(format!("{}.safetensors", self.method)))?,
        })
    }
}

/// Arguments of `ebm train refiner`.
#[derive(Args)]
pub struct RefinerArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Weights of the body, trained on ImageNet: a ResNet with its normalisation folded into the convolutions, or
    /// EfficientNet-Lite0 as published with --config refiner_lite0. A refiner of the same network is trained further.
    #[arg(long)]
    body: PathBuf,
    /// COCO result file with a detector's boxes on the validation images. They choose the step lengths with the best
    /// AP, and calibrate intervals and scores, as `ebm calibrate refiner` does. By default moved annotated boxes are
    /// used instead.
    #[arg(long, requires = "val_annotations")]
    results: Option<PathBuf>,
    /// Let f depend on the class of a box.
    #[arg(long)]
    per_class: bool,
    /// Factor of the configured step lengths. Then none is chosen, and no image is held out.
    #[arg(long, conflicts_with_all = ["val_annotations", "results"])]
    step_factor: Option<f64>,
}

impl RefinerArgs {
    /// Returns the training that the arguments describe.
    pub fn training(&self) -> Result<RefinerTraining> {
        let mut config: RefinerConfig = self.common.run.settings("refiner")?;
        self.common.change(&mut config.training);
        check_ranges("of the command line", &config)?;
        Ok(RefinerTraining {
            config,
            body: self.body.clone(),
            results: self.results.clone(),
            per_class: self.per_class,
            step_factor: self.step_factor,
            options: self.common.options(self.common.run.run.join("refiner.safetensors"))?,
        })
    }
}
