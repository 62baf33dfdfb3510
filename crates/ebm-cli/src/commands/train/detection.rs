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
    /// Weights of the body (a ResNet by torchvision's names, or EfficientNet-Lite0 as published, which the
    /// configuration says); it is frozen then.
    #[arg(long)]
    body: Option<PathBuf>,
    /// Take what --body has of the body, and draw and train the rest; else every name must be there.
    #[arg(long, requires = "body", conflicts_with = "cache")]
    partial_body: bool,
}

impl DetectorArgs {
    /// The training that they ask for.
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
    /// The method, by the key that result files use: ebm, iou_net, gaussian, mixture4, …
    #[arg(long, default_value = "ebm")]
    method: String,
    /// The factor of a confidence's configured step lengths; then none is chosen, and no image held out.
    #[arg(long, conflicts_with = "val_annotations")]
    step_factor: Option<f64>,
}

impl BranchArgs {
    /// The training that they ask for.
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
    /// Weights of the body, trained on ImageNet: a ResNet's, its normalisation folded into the convolutions, or with
    /// --config refiner_lite0 those of EfficientNet-Lite0 as they are published. Or a refiner of the same
    /// network, whose training goes on from there.
    #[arg(long)]
    body: PathBuf,
    /// A detector's boxes on the validation images, as a COCO result file: the step lengths with the best AP
    /// of these are chosen, and intervals and scores calibrated by them, as `ebm calibrate refiner` does. Without it
    /// moved annotated boxes stand in for them.
    #[arg(long, requires = "val_annotations")]
    results: Option<PathBuf>,
    /// Tell the classes apart: f of a box is then of its class.
    #[arg(long)]
    per_class: bool,
    /// The factor of the configured step lengths; then none is chosen, and no image held out.
    #[arg(long, conflicts_with_all = ["val_annotations", "results"])]
    step_factor: Option<f64>,
}

impl RefinerArgs {
    /// The training that they ask for.
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
