//! `ebm predict`.

use anyhow::Result;
use clap::{Args, Subcommand};
use ebm_detect::{Detector, DetectorOptions};
use ebm_face::prediction::{AGE, HEAD_POSE};

use super::predict_detection::{self, DetectionArgs};
use super::predict_face::{self, FaceArgs};
use super::predict_table::{self, TableArgs};
use crate::device::DeviceArgs;
use crate::model_path::ModelPath;

/// What to predict.
#[derive(Subcommand)]
pub enum Predict {
    /// Boxes, before and after refinement, in images and videos, as JSON lines and as pictures.
    #[command(after_long_help = predict_detection::LINES)]
    Detection(DetectionArgs),
    /// Ages of faces with their 90 % regions, as JSON lines and as pictures.
    Age(FaceArgs),
    /// Poses of heads, the same.
    HeadPose(FaceArgs),
    /// The targets of a table's rows: mean, median, mode, quantiles and regions, as a table.
    Table(TableArgs),
}

/// A trained detector.
#[derive(Args)]
pub struct ModelArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file, in place of the one that the
    /// detector's file holds.
    #[arg(long, requires = "detector")]
    config: Option<String>,
    /// Detector weights: safetensors, or a .pth file of torchvision, maskrcnn-benchmark or FastestDet. Without it, FastestDet with COCO's 80 classes, whose weights are in this program. This and the other
    /// models may be hub:OWNER/NAME.
    #[arg(long)]
    detector: Option<ModelPath>,
    /// Weights of a branch: a confidence, to refine with, or a density in the place of the regression.
    #[arg(long, requires = "detector")]
    head: Option<ModelPath>,
    /// Weights of a refiner, `ebm train refiner`'s, for the boxes of the classes that it was trained on.
    /// Without it and --detector, the one of persons that is in this program.
    #[arg(long, conflicts_with = "head")]
    refiner: Option<ModelPath>,
    /// Factor of the configured step lengths, in place of the one that the branch's or the refiner's training
    /// chose.
    #[arg(long)]
    step_factor: Option<f64>,
    #[command(flatten)]
    device: DeviceArgs,
}

impl ModelArgs {
    /// The detector's file, for messages.
    pub fn weights_name(&self) -> String {
        let given = |path: &ModelPath| path.given().display().to_string();
        self.detector.as_ref().map_or_else(|| "the detector".into(), given)
    }

    /// The detector that the arguments name, with its branch; its refiner is not asked about detections of
    /// less than `min_score`.
    pub fn open(&self, min_score: f32) -> Result<Detector> {
        let file = |path: &Option<ModelPath>| path.as_ref().map(ModelPath::file).transpose();
        let options = DetectorOptions {
            config: self.config.as_deref().map(super::config).transpose()?,
            branch: file(&self.head)?,
            refiner: file(&self.refiner)?,
            step_factor: self.step_factor,
            min_score,
            precision: self.device.precision(),
            device: self.device.open(0)?,
        };
        Ok(match file(&self.detector)? {
            Some(weights) => Detector::open_with(weights, &options)?,
            None => Detector::bundled(&options)?,
        })
    }
}

pub fn run(command: Predict) -> Result<()> {
    match command {
        Predict::Detection(args) => predict_detection::run(&args),
        Predict::Age(args) => predict_face::run(&args, AGE),
        Predict::HeadPose(args) => predict_face::run(&args, HEAD_POSE),
        Predict::Table(args) => predict_table::run(&args),
    }
}
