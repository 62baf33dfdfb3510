//! Trained detector: images in, detections out.

mod scene;
mod two_stages;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use candle_core::Device;

use ebm_data::{Image, coco::CocoDataset, decode::read_image};
use ebm_eval::detections::MAX_COORDINATE;
use ebm_nn::import::WeightBytes;
use ebm_ops::{boxes::area, device::Precision};
use ebm_train::{Class, ModelMetadata};
use rand::RngCore;

pub use self::scene::Scene;
use self::two_stages::{TwoStages, Unrefined};
use crate::box_head::Candidate;
use crate::config::ExperimentConfig;
use crate::corner_density::BoxDensity;
use crate::evaluation::{Evaluation, Found};
use crate::fastest_det::FastestDet;
use crate::refiner::{BoxRefiner, LabelledBox, RefinerOptions};
use crate::weights::{FASTEST_DET, WeightFile, classes};
use crate::{Error, Result};

/// Options of opening a [`Detector`].
#[derive(Clone, Debug)]
pub struct DetectorOptions {
    /// Settings that replace those in the file of the weights; required for files without settings.
    pub config: Option<ExperimentConfig>,
    /// File of a branch that was trained on this detector: a confidence to refine boxes by, or a density that
    /// replaces the regression.
    pub branch: Option<PathBuf>,
    /// File of a refiner from `ebm train refiner`, for boxes of the classes that it was trained on.
    pub refiner: Option<PathBuf>,
    /// Factor of the configured step lengths, in place of the one that validation data chose.
    pub step_factor: Option<f64>,
    /// Least score of the detections that the refiner refines; others keep the detector's boxes.
    pub min_score: f32,
    /// Precision of computation. [`Precision::Bf16`] applies on a GPU to the maps of body and pyramid, and on the
    /// CPU to the products of the fully-connected layers of a confidence or a refiner.
    pub precision: Precision,
    /// Device of the networks.
    pub device: Device,
}

impl Default for DetectorOptions {
    /// Returns options without a branch or refiner, with the settings in the files, on the CPU.
    fn default() -> Self {
        let (config, branch, refiner, step_factor) = (None, None, None, None);
        let (min_score, precision, device) = (0.0, Precision::default(), Device::Cpu);
        Self { config, branch, refiner, step_factor, min_score, precision, device }
    }
}

impl DetectorOptions {
    fn of_refiner(&self) -> RefinerOptions {
        let (step_factor, device, precision) = (self.step_factor, self.device.clone(), self.precision);
        RefinerOptions { step_factor, device, precision, ..RefinerOptions::default() }
    }
}

/// Trained detector, with an optional branch or refiner.
///
/// ```
/// use ebm_detect::Detector;
///
/// let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors");
/// let detector = Detector::open(weights)?;
/// let image = ebm_data::Image::filled(160, 120, [90, 120, 150])?;
/// for found in detector.detect(&image)? {
///     let [x, y, width, height] = found.bbox;
///     println!("{} {:.2} at {x:.0}, {y:.0}, {width:.0} x {height:.0}", found.name(), found.score);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ebm_data::decode::read_upright`] reads an image from a file. A branch from `ebm train branch` refines the
/// boxes:
///
/// ```no_run
/// use ebm_detect::{Detector, DetectorOptions};
///
/// let options = DetectorOptions { branch: Some("runs/mine/ebm.safetensors".into()), ..Default::default() };
/// let detector = Detector::open_with("runs/base/detector.safetensors", &options)?;
/// # Ok::<(), ebm_detect::Error>(())
/// ```
pub struct Detector {
    network: Network,
    /// Refiner of the boxes of the classes that it was trained on.
    refiner: Option<BoxRefiner>,
    /// Least score of the detections that the refiner refines.
    min_score: f32,
    /// Files with metadata.
    files: Vec<(PathBuf, ModelMetadata)>,
}

enum Network {
    TwoStages(Box<TwoStages>),
    FastestDet(Box<FastestDet>),
}

/// Detected object. Boxes are `[x, y, width, height]` in pixels of the image.
#[derive(Clone, Debug)]
pub struct Detection {
    /// Label of the network, from 1.
    pub label: usize,
    /// Class with that label; `None` if the file of the weights names no classes.
    pub class: Option<Class>,
    /// Classification score, 0 to 1.
    pub score: f32,
    /// Box of the detector, before refinement.
    pub before: [f64; 4],
    /// Box after refinement; equal to `before` without refinement.
    pub bbox: [f64; 4],
    /// Density p(y | x) around the box, if it was requested.
    pub density: Option<BoxDensity>,
}

impl Detection {
    /// Returns the name of the class, or else the label.
    pub fn name(&self) -> String {
        self.class.as_ref().map_or_else(|| format!("class {}", self.label), |class| class.name.clone())
    }
}

/// Options of the densities p(y | x) of detections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DensityOptions {
    /// Least score of the detections that get a density.
    pub min_score: f32,
    /// Importance samples per density.
    pub samples: usize,
}

/// Weights of FastestDet with the classes of COCO.
static BUNDLED: &[u8] = include_bytes!("../embedded/fastestdet.safetensors");
/// Weights of the bundled refiner of persons, the file `weights/refiner.safetensors` of the repository. Its body is
/// an EfficientNet-Lite0.
pub static BUNDLED_REFINER: &[u8] = include_bytes!("../embedded/refiner.safetensors");

impl Detector {
    /// Opens the detector in the file `weights`, on the CPU: one that was trained here, or one of a
    /// [`Family`](crate::weights::Family) in its published configuration.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(weights: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(weights, &DetectorOptions::default())
    }

    /// Opens the detector in the file `weights` with `options`.
    ///
    /// # Errors
    /// [`Error::Weights`] or [`Error::Train`] with both values, when the file has another architecture, the branch
    /// was trained on another detector, or neither the file nor `options` have settings.
    pub fn open_with(weights: impl AsRef<Path>, options: &DetectorOptions) -> Result<Self> {
        Self::of(&WeightFile::open(weights.as_ref(), &options.device)?, options)
    }

    /// Opens the bundled FastestDet, with the 80 classes of COCO and its published weights. Unless `options` name
    /// another refiner, the bundled one refines the boxes of persons.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn bundled(options: &DetectorOptions) -> Result<Self> {
        let weights =
            WeightFile::of(&WeightBytes::embedded("the bundled FastestDet", BUNDLED), &options.device)?;
        let mut detector = Self::of(&weights, options)?;
        if detector.refiner.is_none() {
            let bytes = WeightBytes::embedded("the bundled refiner", BUNDLED_REFINER);
            detector.refiner = Some(BoxRefiner::of_bytes(&bytes, &options.of_refiner())?);
        }
        Ok(detector)
    }

    fn of(weights: &WeightFile, options: &DetectorOptions) -> Result<Self> {
        let branch =
            options.branch.as_ref().map(|path| WeightFile::open(path, &options.device)).transpose()?;
        let network = match weights.is_fastest_det() {
            false => Network::TwoStages(Box::new(TwoStages::open(weights, branch.as_ref(), options)?)),
            true if options.config.is_some() || branch.is_some() => {
                let reason =
                    "FastestDet takes neither a configuration of Faster-RCNN nor a branch; give it alone";
                return Err(Error::weights(&weights.path, reason));
            }
            true => Network::FastestDet(Box::new(weights.fastest_det()?)),
        };
        let files = [Some(weights), branch.as_ref()].into_iter().flatten();
        let files = files.filter_map(|file| Some((file.path.clone(), file.metadata.clone()?))).collect();
        let refiner = options.refiner.as_ref();
        let refiner = refiner.map(|path| BoxRefiner::open_with(path, &options.of_refiner())).transpose()?;
        Ok(Self { network, refiner, min_score: options.min_score, files })
    }

    /// Returns the number of labels that annotations must have for an evaluation; `None` if classes are matched by
    /// their ids.
    pub fn labels(&self) -> Option<usize> {
        match &self.network {
            Network::TwoStages(detector) => Some(detector.config.detector.labels()),
            Network::FastestDet(_) => None,
        }
    }

    /// Returns the key of the method that places boxes: the branch's, or else [`ExperimentConfig::DIRECT`] or
    /// [`FASTEST_DET`].
    pub fn method(&self) -> &str {
        match &self.network {
            Network::TwoStages(detector) => detector.method(),
            Network::FastestDet(_) => FASTEST_DET,
        }
    }

    /// Returns the classes that the detector knows, by label; empty if its files name none.
    pub fn classes(&self) -> &[Class] {
        let mut named = self.files.iter().map(|(_, said)| &said.classes[..]);
        named.find(|classes| !classes.is_empty()).unwrap_or_default()
    }

    /// Checks that the classes of `dataset` are those that the detector was trained on. For FastestDet, every
    /// category must have the id and name of one of its classes.
    ///
    /// # Errors
    /// [`Error::Train`] with both names; [`Error::Config`] with the category for FastestDet.
    pub fn check_classes(&self, annotations: &Path, dataset: &CocoDataset) -> Result<()> {
        let name = annotations.display().to_string();
        if matches!(self.network, Network::FastestDet(_)) {
            let known =
                |id, name: &str| self.classes().iter().any(|class| class.id == id && class.name == name);
            let mut categories = dataset.categories.iter();
            let Some(category) = categories.find(|category| !known(category.id, &category.name)) else {
                return Ok(());
            };
            let reason = format!(
                "{:?} (id {}) is none of the {} classes that the detector finds; take annotations with COCO's categories",
                category.name,
                category.id,
                self.classes().len()
            );
            return Err(Error::config(name, reason));
        }
        let classes = classes(dataset);
        for (path, said) in &self.files {
            said.check_classes(path, &name, &classes)?;
        }
        Ok(())
    }

    /// Detects the objects in `image`, and returns them by descending score.
    ///
    /// # Errors
    /// When the networks' outputs are not finite.
    pub fn detect(&self, image: &Image) -> Result<Vec<Detection>> {
        let mut found = self.unrefined(image)?.detections;
        if let Some(refiner) = &self.refiner {
            refiner.refine_found(&mut found, self.min_score, |boxes| refiner.refine(image, boxes))?;
        }
        Ok(found)
    }

    /// Detects the objects in `image` without the refiner.
    fn unrefined(&self, image: &Image) -> Result<Unrefined> {
        let mut unrefined = match &self.network {
            Network::TwoStages(detector) => detector.detect(image)?,
            Network::FastestDet(detector) => {
                let found = detector.detect(image)?;
                let corners = found.iter().map(|found| found.bbox).collect();
                Unrefined { detections: found.iter().map(in_pixels).collect(), corners, features: None }
            }
        };
        for one in &mut unrefined.detections {
            one.class = self.classes().iter().find(|class| class.label == one.label).cloned();
        }
        Ok(unrefined)
    }

    /// Detects the objects in `image`, and estimates p(y | x) of those that `options` select with samples from `rng`.
    /// A box without extent, after an ascent out of the image, gets no density.
    ///
    /// # Errors
    /// As [`detect`](Self::detect) and [`check_density`](Self::check_density).
    pub fn detect_with_density(
        &self,
        image: &Image,
        options: &DensityOptions,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<Detection>> {
        self.check_density()?;
        let DensityOptions { min_score, samples } = *options;
        let Unrefined { mut detections, corners, features } = self.unrefined(image)?;
        if let Some(refiner) = &self.refiner {
            refiner.refine_found(&mut detections, min_score, |boxes| {
                refiner.refine_with_density(image, boxes, samples, rng)
            })?;
        } else if let (Some(energy), Some(features)) = (self.energy(), features) {
            for (found, corners) in detections.iter_mut().zip(corners) {
                if found.score >= min_score && area(&corners, energy.convention) > 0.0 {
                    let given = LabelledBox { bbox: found.bbox, label: found.label };
                    let temperature = energy.temperature();
                    found.density =
                        Some(energy.density_at(&features, given, corners, samples, temperature, rng)?);
                }
            }
        }
        Ok(detections)
    }

    /// Detects the objects in all images of `dataset`, and returns the detections before and after the branch or
    /// refiner in COCO's form. Without a refiner, `workers` threads read images ahead for Faster-RCNN. `progress` gets
    /// the number of images done.
    ///
    /// # Errors
    /// When an image cannot be read, or a network fails.
    pub fn evaluate(
        &self,
        dataset: &Arc<CocoDataset>,
        workers: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Evaluation> {
        if let (Network::TwoStages(detector), None) = (&self.network, &self.refiner) {
            return detector.evaluate(dataset, workers, progress);
        }
        let (mut direct, mut refined) = (Found::default(), Found::default());
        for (done, known) in (1..).zip(&dataset.images) {
            let image = read_image(&known.path)?;
            let start = Instant::now();
            let mut found = self.unrefined(&image)?.detections;
            direct.duration += start.elapsed();
            direct.detections.extend(results(&found, known.id, dataset));
            if let Some(refiner) = &self.refiner {
                let start = Instant::now();
                refiner.refine_found(&mut found, self.min_score, |boxes| refiner.refine(&image, boxes))?;
                refined.duration += start.elapsed();
                refined.detections.extend(results(&found, known.id, dataset));
            }
            progress(done);
        }
        refined.before = Some(direct.detections.clone());
        let placed = self.refiner.iter().map(|_| std::mem::take(&mut refined)).collect();
        Ok(Evaluation { direct, placed, images: dataset.images.len(), ..Evaluation::default() })
    }

    /// Checks that the detector has an energy model, which [`detect_with_density`](Self::detect_with_density) needs.
    ///
    /// # Errors
    /// [`Error::Config`] without one.
    pub fn check_density(&self) -> Result<()> {
        match (&self.refiner, &self.network) {
            (Some(refiner), _) => refiner.check_density(),
            (None, Network::TwoStages(detector)) => detector.check_density(),
            (None, Network::FastestDet(_)) => {
                let reason = "p(y|x) needs an energy model, and FastestDet has none without a refiner";
                Err(Error::config("density", reason))
            }
        }
    }
}

/// Converts a candidate, whose corners are in pixels of the image, to a detection.
fn in_pixels(&Candidate { bbox, label, score }: &Candidate) -> Detection {
    let [x0, y0, x1, y1] = bbox.map(f64::from);
    let bbox = [x0, y0, x1 - x0, y1 - y0];
    Detection { label, class: None, score, before: bbox, bbox, density: None }
}

/// Converts detections in the image `image_id` of `dataset` to COCO's form. Detections of classes that the dataset
/// does not have are left out.
fn results<'a>(
    found: &'a [Detection],
    image_id: u64,
    dataset: &'a CocoDataset,
) -> impl Iterator<Item = ebm_eval::Detection> + 'a {
    found.iter().filter_map(move |found| {
        let category_id = found.class.as_ref()?.id;
        dataset.label(category_id)?;
        let bbox = found.bbox.map(|value| value.clamp(-MAX_COORDINATE, MAX_COORDINATE));
        let score = f64::from(found.score);
        Some(ebm_eval::Detection { image_id, category_id, bbox, score })
    })
}
