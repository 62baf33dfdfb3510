//! `ebm predict`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};
use clap::{Args, Subcommand};
use ebm_core::GaussianMixture;
use ebm_data::{Image, loader::Sample};
use ebm_detect::{
    Backbone, BoxAscent, FasterRcnn, Head, ImageBatch, Method, Refinement,
    config::ExperimentConfig,
    refine_candidates,
    weights::{load_detector, load_head},
};

use super::config_for;
use super::predict_detection::{self, DetectionArgs};
use super::predict_face::{self, FaceArgs};
use super::predict_tracking::{self, TrackingArgs};
use crate::device::DeviceArgs;

/// What to predict.
#[derive(Subcommand)]
pub enum Predict {
    /// Boxes, before and after refinement, as JSON lines and as pictures.
    Detection(DetectionArgs),
    /// One target through a video: its boxes, and pictures.
    Tracking(TrackingArgs),
    /// Ages of faces with their 90 % regions, as JSON lines and as pictures.
    Age(FaceArgs),
    /// Poses of heads, the same.
    HeadPose(FaceArgs),
}

/// A trained model.
#[derive(Args)]
pub struct ModelArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file; without it the detector's weights decide, or
    /// it is mini where they do not tell.
    #[arg(long)]
    config: Option<String>,
    /// Detector weights: safetensors, or a .pth or .pkl file of torchvision, maskrcnn-benchmark or Detectron.
    #[arg(long)]
    detector: Option<PathBuf>,
    /// Weights of a confidence branch, to refine with.
    #[arg(long, requires = "detector")]
    head: Option<PathBuf>,
    /// Method of the branch: ebm, iou_net_star or iou_net; decides how the boxes climb.
    #[arg(long, default_value = "ebm", value_parser = method)]
    method: Method,
    /// Factor of the configured step lengths.
    #[arg(long, default_value_t = 1.0)]
    step_factor: f64,
    #[command(flatten)]
    device: DeviceArgs,
}

impl ModelArgs {
    /// The device to compute on.
    pub fn device(&self) -> Result<Device> {
        self.device.open()
    }

    /// The detector's file, for messages.
    pub fn weights_name(&self) -> String {
        self.detector.as_deref().map_or_else(|| "the detector".into(), |path| path.display().to_string())
    }
}

/// Detector and branch in memory.
pub struct Model {
    pub config: ExperimentConfig,
    pub detector: FasterRcnn,
    pub backbone: Backbone,
    pub head: Option<Box<Head>>,
    pub ascent: BoxAscent,
    /// Eq. 5 as the branch was trained with.
    pub proposal: GaussianMixture,
}

/// What is known of one image.
pub struct Detected {
    /// In the network's input.
    pub refinement: Refinement,
    /// From the input to the image.
    pub sample: Sample,
    /// Its features, P2 … P6.
    pub pyramid: Vec<Tensor>,
}

impl Model {
    /// Reads the weights that the arguments name.
    pub fn load(args: &ModelArgs, device: &Device) -> Result<Self> {
        let path = args
            .detector
            .as_deref()
            .context("--detector is missing: the file with the detector's weights")?;
        let mut config = config_for(args.config.as_deref(), path)?;
        config.detector.backbone.maps = args.device.maps();
        let detector = load_detector(&config.detector, path, device)?;
        let head = args.head.as_deref().map(|path| load_head(&config.detector, path, device)).transpose()?;
        let head = head.map(|head| head.for_inference()).transpose()?;
        let proposal = config.ebm.proposal.gaussian()?;
        let ascent = config
            .confidence(args.method)
            .with_context(|| format!("--method {}: it has no confidence branch", args.method.key()))?
            .ascent()
            .scaled(args.step_factor);
        let backbone = detector.for_inference()?;
        Ok(Self { config, detector, backbone, head, ascent, proposal })
    }

    /// Detections of one image.
    pub fn detect(&self, image: &Image, device: &Device) -> Result<Detected> {
        let transform = self.config.detector.input.transform();
        let (planes, (height, width)) = transform.apply(image);
        let (h, w) = ebm_data::transform::padded_size([(height, width)]);
        let mut padded = vec![0f32; 3 * h * w];
        for (row, source) in planes.chunks_exact(width).enumerate() {
            let at = (row / height * h + row % height) * w;
            padded[at..at + width].copy_from_slice(source);
        }
        let images = ImageBatch {
            pixels: Tensor::from_vec(padded, (1, 3, h, w), device)?,
            sizes: vec![(height, width)],
        };
        let pyramid = self.backbone.features(&images.pixels)?;
        let candidates = self.detector.candidates(&pyramid, &images)?;
        let refinement = match &self.head {
            Some(head) => {
                refine_candidates(head.as_ref(), &pyramid, &candidates, &self.ascent, &self.config.detector)?
                    .pop()
                    .unwrap_or_default()
            }
            None => {
                let before = candidates.first().map_or(Ok(vec![]), |c| self.detector.suppress(c))?;
                Refinement { after: before.clone(), before }
            }
        };
        let sample = Sample {
            image_id: 0,
            index: 0,
            height,
            width,
            original: (image.height, image.width),
            boxes: vec![],
            labels: vec![],
            flipped: false,
        };
        Ok(Detected { refinement, sample, pyramid })
    }
}

/// What the pictures of these images are called, without an ending: the file's name where no other image has it, else
/// the whole path, so that none overwrites another's.
pub fn picture_names(images: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = |path: &PathBuf| {
        let parts = path.components().filter_map(|part| match part {
            std::path::Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            std::path::Component::ParentDir => Some("..".to_owned()),
            _ => None,
        });
        parts.collect::<Vec<_>>().join("_")
    };
    let alone = |path: &&PathBuf| images.iter().filter(|other| stem(other) == stem(path)).count() == 1;
    images.iter().map(|path| if alone(&path) { stem(path) } else { whole(path) }).collect()
}

/// A method by its name in result files.
pub fn method(name: &str) -> Result<Method> {
    Method::from_key(name).with_context(|| {
        let known: Vec<&str> = Method::ALL.iter().map(|method| method.key()).collect();
        format!("no method is called {name}; there are {}", known.join(", "))
    })
}

/// Runs the command.
pub fn run(command: Predict) -> Result<()> {
    match command {
        Predict::Detection(args) => predict_detection::run(&args),
        Predict::Tracking(args) => predict_tracking::run(&args),
        Predict::Age(args) => predict_face::run(&args, "age"),
        Predict::HeadPose(args) => predict_face::run(&args, "head pose"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_picture_has_the_name_of_another() {
        let names = |paths: &[&str]| picture_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/x.jpg", "b/y.jpg"]), ["x", "y"]);
        assert_eq!(names(&["d1/x.jpg", "d2/x.jpg", "/d2/z.png"]), ["d1_x.jpg", "d2_x.jpg", "z"]);
        assert_eq!(names(&["x.jpg", "x.png"]), ["x.jpg", "x.png"]);
    }
}
