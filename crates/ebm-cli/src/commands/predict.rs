//! `ebm predict`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use clap::{Args, Subcommand};
use ebm_core::GaussianMixture;
use ebm_data::{Image, coco::CocoDataset, loader::Sample};
use ebm_detect::{
    BoxAscent, Branch, Candidate, FasterRcnn, Head, ImageBatch, Method, Refinement,
    config::ExperimentConfig,
    refine_candidates,
    weights::{Provenance, check_classes, digest, load_detector, read},
};
use ebm_seed::Key;

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
    /// Weights of a branch: a confidence, to refine with, or a density in the place of the regression.
    #[arg(long, requires = "detector")]
    head: Option<PathBuf>,
    /// Method of the branch, by key: ebm, iou_net, gaussian, mixture4, …; the branch says it itself, and another is refused.
    #[arg(long, value_parser = method, requires = "head")]
    method: Option<Method>,
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
    pub head: Option<TrainedBranch>,
    files: Vec<PathBuf>,
}

/// What was trained on top of the detector.
pub struct TrainedBranch {
    pub method: Method,
    pub branch: Branch,
    /// How its boxes climb, where they do.
    pub ascent: Option<BoxAscent>,
    /// Eq. 5 as the branch was trained with, of an energy model.
    proposal: Option<GaussianMixture>,
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
        let head = args.head.as_deref().map(|head| TrainedBranch::load(args, head, path, &config, device));
        let files = args.detector.iter().chain(&args.head).cloned().collect();
        Ok(Self { config, detector, head: head.transpose()?, files })
    }

    /// Refuses annotations of other categories than the model was trained to find, where its files say.
    pub fn check_classes(&self, annotations: &Path, dataset: &CocoDataset) -> Result<()> {
        for file in &self.files {
            check_classes(file, annotations, dataset)?;
        }
        Ok(())
    }

    /// The energy model with Eq. 5 as it was trained with: what has a density p(y|x) of boxes.
    pub fn energy(&self) -> Result<(&Head, &GaussianMixture)> {
        let head = self.head.as_ref().context("--density needs --head: the weights of an energy model")?;
        match (&head.branch, &head.proposal) {
            (Branch::Confidence(f), Some(proposal)) => Ok((f as &Head, proposal)),
            _ => bail!("--density is of energy models, and this head is a branch of {}", head.method.key()),
        }
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
        let pyramid = self.detector.features(&images.pixels, false)?;
        let scored = self.detector.scored(&pyramid, &images)?;
        let unmoved = |candidates: &[Vec<Candidate>]| -> Result<Refinement> {
            let before = candidates.first().map_or(Ok(vec![]), |c| self.detector.suppress(c))?;
            Ok(Refinement { after: before.clone(), before })
        };
        let refinement = match self.head.as_ref().map(|head| (&head.branch, &head.ascent)) {
            Some((Branch::Confidence(head), Some(ascent))) => {
                let candidates = self.detector.decode(&scored, None, &images)?;
                refine_candidates(head, &pyramid, &candidates, ascent, &self.config.detector)?
                    .pop()
                    .unwrap_or_default()
            }
            Some((Branch::Density(head), _)) => {
                let offsets = head.offsets(&scored, &mut Key::new(0).split("latent").rng())?;
                unmoved(&self.detector.decode(&scored, Some(&offsets), &images)?)?
            }
            _ => unmoved(&self.detector.decode(&scored, None, &images)?)?,
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

impl TrainedBranch {
    /// The branch at `path` for the detector at `detector`, or what does not fit.
    fn load(
        args: &ModelArgs,
        path: &Path,
        detector: &Path,
        config: &ExperimentConfig,
        device: &Device,
    ) -> Result<Self> {
        let said = Provenance::read(path)?;
        let file = path.display();
        let method = match (args.method, &said) {
            (Some(given), Some(said)) if given != said.method => {
                bail!("{file} is a branch of {}, not of --method {}", said.method.key(), given.key())
            }
            (_, Some(said)) => said.method,
            (Some(given), None) => given,
            (None, None) => bail!("{file} does not say of which method it is; give --method"),
        };
        if let Some(said) = &said {
            said.check_detector(path, &config.detector, &digest(&read(detector, device)?)?)?;
        }
        let branch = Branch::load(method, &config.detector, path, device)?;
        let ascent = config.confidence(method).map(|branch| branch.ascent().scaled(args.step_factor));
        let trained = said.and_then(|said| said.confidence).or_else(|| config.confidence(method).cloned());
        let energy = trained.filter(|_| method == Method::Ebm);
        let proposal = energy.map(|branch| branch.proposal.gaussian()).transpose()?;
        Ok(Self { method, branch, ascent, proposal })
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
