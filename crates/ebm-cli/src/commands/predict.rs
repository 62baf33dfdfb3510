//! `ebm predict`.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};
use clap::{Args, Subcommand};
use ebm_core::GradientAscent;
use ebm_data::{
    Image,
    coco::{CocoDataset, LoadOptions, Purpose},
    decode::read_image,
    encode::write_png,
    loader::Sample,
};
use ebm_detect::{
    Backbone, Candidate, FasterRcnn, Head, ImageBatch, Method, Refinement,
    config::ExperimentConfig,
    input::to_original,
    refine_candidates,
    weights::{load_detector, load_head},
};
use serde_json::json;

use super::predict_face::{self, FaceArgs};
use super::predict_tracking::{self, TrackingArgs};
use super::{config_for, create_dir};
use crate::picture::{AFTER, BEFORE, TRUTH, enlarge, outline};

/// What to predict.
#[derive(Subcommand)]
pub enum Predict {
    /// Boxes, before and after refinement, as JSON lines and as pictures.
    Detection {
        /// JPEG or PNG files.
        #[arg(required = true)]
        images: Vec<PathBuf>,
        /// Where pictures go; without it none are drawn.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Draw detections from this score on.
        #[arg(long, default_value_t = 0.5)]
        min_score: f32,
        /// COCO annotations of the images: draw the annotated boxes too.
        #[arg(long, requires = "out")]
        annotations: Option<PathBuf>,
        #[command(flatten)]
        model: ModelArgs,
    },
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
    /// Method of the branch: ebm or iou_net_star; decides the step lengths.
    #[arg(long, default_value = "ebm")]
    method: String,
    /// Factor of the configured step lengths.
    #[arg(long, default_value_t = 1.0)]
    step_factor: f64,
}

/// Detector and branch in memory.
pub struct Model {
    pub config: ExperimentConfig,
    pub detector: FasterRcnn,
    pub backbone: Backbone,
    pub head: Option<Box<Head>>,
    pub ascent: GradientAscent,
}

impl Model {
    /// Reads the weights that the arguments name.
    pub fn load(args: &ModelArgs, device: &Device) -> Result<Self> {
        let path = args
            .detector
            .as_deref()
            .context("--detector is missing: the file with the detector's weights")?;
        let config = config_for(args.config.as_deref(), path)?;
        let detector = load_detector(&config.detector, path, device)?;
        let head = args.head.as_deref().map(|path| load_head(&config.detector, path, device)).transpose()?;
        let head = head.map(|head| head.for_inference()).transpose()?;
        let mut ascent = config
            .confidence(method(&args.method)?)
            .with_context(|| format!("--method {}: it has no confidence branch", args.method))?
            .ascent();
        ascent.step_length.iter_mut().for_each(|length| *length *= args.step_factor);
        let backbone = detector.for_inference()?;
        Ok(Self { config, detector, backbone, head, ascent })
    }

    /// Detections of one image, in its own pixels: `[x, y, width, height]`.
    fn detect(&self, image: &Image, device: &Device) -> Result<(Refinement, Sample)> {
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
        Ok((refinement, sample))
    }
}

/// A method by its name in result files.
pub fn method(name: &str) -> Result<Method> {
    let known = Method::ALL.into_iter().find(|method| method.key() == name);
    known.with_context(|| format!("--method {name}: there are direct, iou_net_star and ebm"))
}

/// Runs the command.
pub fn run(command: Predict) -> Result<()> {
    match command {
        Predict::Detection { images, out, min_score, annotations, model } => {
            detection(&images, out, min_score, annotations, &model)
        }
        Predict::Tracking(args) => predict_tracking::run(&args),
        Predict::Age(args) => predict_face::run(&args, "age"),
        Predict::HeadPose(args) => predict_face::run(&args, "head pose"),
    }
}

fn detection(
    images: &[PathBuf],
    out: Option<PathBuf>,
    min_score: f32,
    annotations: Option<PathBuf>,
    model: &ModelArgs,
) -> Result<()> {
    let device = Device::Cpu;
    let model = Model::load(model, &device)?;
    if let Some(out) = &out {
        create_dir(out)?;
    }
    let mut stdout = std::io::stdout().lock();
    for path in images {
        let image = read_image(path)?;
        let (refinement, sample) = model.detect(&image, &device)?;
        let convention = model.config.detector.convention.into();
        let corners = |c: &Candidate| to_original(&c.bbox, &sample, convention);
        for (before, after) in refinement.before.iter().zip(&refinement.after) {
            let line = json!({
                "image": path, "label": after.label, "score": after.score,
                "bbox": corners(after), "bbox_before": corners(before),
            });
            // A reader that has seen enough closes the pipe: an error, not a panic.
            writeln!(stdout, "{line}").context("standard output")?;
        }
        if let Some(out) = &out {
            let pairs =
                refinement.before.iter().zip(&refinement.after).filter(|(_, after)| after.score >= min_score);
            let found =
                pairs.flat_map(|(before, after)| [(corners(before), BEFORE), (corners(after), AFTER)]);
            let truth = annotations.as_deref().map_or(Ok(vec![]), |file| annotated(file, path))?;
            let boxes = truth.into_iter().map(|bbox| (bbox, TRUTH)).chain(found);
            let name = path.file_stem().unwrap_or_default();
            draw(&image, boxes, &out.join(Path::new(name).with_extension("png")))?;
        }
    }
    Ok(())
}

/// The boxes that `annotations` has for the image, `[x, y, width, height]`.
fn annotated(annotations: &Path, image: &Path) -> Result<Vec<[f64; 4]>> {
    let options = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(annotations, image.parent().unwrap_or(Path::new("")), &options)?;
    let known = dataset.images.iter().find(|known| image.file_name() == Some(known.file_name.as_ref()));
    let known =
        known.with_context(|| format!("{} has no image {}", annotations.display(), image.display()))?;
    let corners = known.objects.iter().map(|object| object.bbox.map(f64::from));
    Ok(corners.map(|[x0, y0, x1, y1]| [x0, y0, x1 - x0, y1 - y0]).collect())
}

/// Small images are enlarged so that moves of less than a pixel can be seen.
fn draw(image: &Image, boxes: impl Iterator<Item = ([f64; 4], [u8; 3])>, path: &Path) -> Result<()> {
    const ROOMY: usize = 640;
    let factor = (ROOMY / image.width.max(image.height)).max(1);
    let mut canvas = enlarge(image, factor);
    for (bbox, colour) in boxes {
        outline(&mut canvas, bbox.map(|value| value * factor as f64), colour, 2);
    }
    write_png(path, &canvas)?;
    Ok(())
}
