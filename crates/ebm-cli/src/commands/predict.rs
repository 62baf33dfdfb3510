//! `ebm predict`: predictions of trained models.

use anyhow::Result;
use clap::{Args, Subcommand};
use ebm_detect::{Detector, DetectorOptions};
use ebm_face::prediction::{AGE, HEAD_POSE};

use super::predict_detection::{self, DetectionArgs};
use super::predict_face::{self, FaceArgs};
use super::predict_table::{self, TableArgs};
use crate::device::DeviceArgs;
use crate::model_path::ModelPath;

/// Tasks that have predictions.
#[derive(Subcommand)]
pub enum Predict {
    /// Boxes in images and videos, before and after refinement, as JSON lines and pictures.
    #[command(after_long_help = predict_detection::LINES)]
    Detection(DetectionArgs),
    /// Ages of faces with their 90 % regions, as JSON lines and pictures.
    Age(FaceArgs),
    /// Poses of heads with their 90 % regions, as JSON lines and pictures.
    HeadPose(FaceArgs),
    /// The targets of a table's rows: mean, median, mode, quantiles and regions, as a table.
    Table(TableArgs),
}

/// Arguments that name a trained detector.
#[derive(Args)]
pub struct ModelArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file, instead of the one in the detector's file.
    #[arg(long, requires = "detector")]
    config: Option<String>,
    /// Weights of the detector: safetensors, or a .pth file of torchvision, maskrcnn-benchmark or FastestDet. By
    /// default FastestDet with COCO's 80 classes, which comes with this program. Every model may also be
    /// hub:OWNER/NAME.
    #[arg(long)]
    detector: Option<ModelPath>,
    /// Weights of a branch of the detector: a confidence that refines boxes, or a density instead of the box
    /// regression.
    #[arg(long, requires = "detector")]
    head: Option<ModelPath>,
    /// Weights of a refiner of `ebm train refiner`, for boxes of the classes that it was trained on. By default,
    /// without --detector, the refiner for persons that comes with this program.
    #[arg(long, conflicts_with = "head")]
    refiner: Option<ModelPath>,
    /// Factor of the configured step lengths, instead of the one chosen in the branch's or refiner's training.
    #[arg(long)]
    step_factor: Option<f64>,
    #[command(flatten)]
    device: DeviceArgs,
}

impl ModelArgs {
    /// Returns the name of the detector's file, for messages.
    pub fn weights_name(&self) -> String {
        let given = |path: &ModelPath| path.given().display().to_string();
        self.detector.as_ref().map_or_else(|| "the detector".into(), given)
    }

    /// Opens the detector with its branch or refiner. Detections with scores below `min_score` are not refined.
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
