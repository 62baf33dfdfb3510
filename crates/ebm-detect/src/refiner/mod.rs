//! Refinement of any detector's boxes: a separate network computes f, and boxes are refined by gradient ascent on it.
//!
//! [`BoxRefiner`] is the main type. [`RefinerTask`](crate::training::RefinerTask) trains it on annotated images alone:
//! samples come from Eq. 5 around true boxes, and the detector is not needed.

mod calibration;
mod fit;
mod likelihood;
mod network;

use std::path::Path;

use candle_core::{DType, Device};
use ebm_data::Image;
use ebm_nn::import::WeightBytes;
use ebm_nn::onnx::{Graph, Length, Part};
use ebm_nn::params::ParamStore;
use ebm_ops::{boxes::BoxConvention, device::Precision};
use ebm_train::Class;
use rand::RngCore;

use crate::box_energy::{BoxEnergy, ImageFeatures};
use crate::config::{RefinerConfig, Settings};
use crate::corner_density::BoxDensity;
use crate::detector::Detection;
use crate::energy_head::{BoxFeatures, Coordinates};
use crate::faster_rcnn::ImageBatch;
use crate::inference::BoxAscent;
use crate::weights::{REFINER, WeightFile};
use crate::{Error, Result};

pub use calibration::{Calibration, CalibrationOptions, Rescoring};
pub use fit::{RefinedResults, RefinerFit, jittered};
pub use network::RefinerNetwork;

/// Options of opening a [`BoxRefiner`].
#[derive(Clone, Debug)]
pub struct RefinerOptions {
    /// Factor of the configured step lengths, in place of the one that validation data chose.
    pub step_factor: Option<f64>,
    /// Whether refined boxes and the intervals of their edges are clipped to the image, as annotations are.
    pub clip: bool,
    /// Device of the network.
    pub device: Device,
    /// Precision of the head on the CPU.
    pub precision: Precision,
}

impl Default for RefinerOptions {
    /// Returns options with the step lengths in the file, clipping, and f32 on the CPU.
    fn default() -> Self {
        Self { step_factor: None, clip: true, device: Device::Cpu, precision: Precision::default() }
    }
}

/// Box to refine, with its label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelledBox {
    /// Box `[x, y, width, height]` in pixels of the image.
    pub bbox: [f64; 4],
    /// Label of the network ([`BoxRefiner::label`]); a class-agnostic network ignores it.
    pub label: usize,
}

impl From<[f64; 4]> for LabelledBox {
    /// Creates a box for a class-agnostic refiner.
    fn from(bbox: [f64; 4]) -> Self {
        Self { bbox, label: 0 }
    }
}

/// Refined box. Boxes are `[x, y, width, height]` in pixels of the image.
#[derive(Clone, Debug)]
pub struct RefinedBox {
    /// Box before refinement, as given.
    pub before: [f64; 4],
    /// Box after refinement.
    pub bbox: [f64; 4],
    /// f of the given box, clipped if refined boxes are clipped.
    pub f_before: f32,
    /// f of the refined box before clipping.
    pub f: f32,
    /// Density p(y | x) around the refined box, if it was requested.
    pub density: Option<BoxDensity>,
}

/// Trained refiner of boxes.
///
/// ```no_run
/// use ebm_detect::{BoxRefiner, LabelledBox};
///
/// let refiner = BoxRefiner::open("refiner.safetensors")?;
/// let image = ebm_data::decode::read_upright("photo.jpg".as_ref())?;
/// for refined in refiner.refine(&image, &[LabelledBox::from([30.0, 40.0, 120.0, 200.0])])? {
///     println!("{:?} -> {:?}, f {:.2}", refined.before, refined.bbox, refined.f);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BoxRefiner {
    config: RefinerConfig,
    network: RefinerNetwork,
    energy: BoxEnergy,
    classes: Vec<Class>,
    device: Device,
}

impl BoxRefiner {
    /// Opens the refiner in the file `path`, on the CPU; refined boxes are clipped to the image.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &RefinerOptions::default())
    }

    /// Opens the refiner in the file `path`, which `ebm train refiner` wrote, with `options`.
    ///
    /// # Errors
    /// [`Error::Train`] if the file is not a refiner's; [`Error::Weights`] if its tensors do not fit its
    /// configuration.
    pub fn open_with(path: impl AsRef<Path>, options: &RefinerOptions) -> Result<Self> {
        Self::of(WeightFile::open(path.as_ref(), &options.device)?, options)
    }

    /// Opens the refiner in the `bytes` of a file.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn of_bytes(bytes: &WeightBytes<'_>, options: &RefinerOptions) -> Result<Self> {
        Self::of(WeightFile::of(bytes, &options.device)?, options)
    }

    fn of(file: WeightFile, options: &RefinerOptions) -> Result<Self> {
        let refuse = |reason: String| Error::weights(&file.path, reason);
        let said = file.require(&[REFINER])?.clone();
        let config = RefinerConfig::parse("its configuration", &said.config);
        let config = config.map_err(|error| refuse(error.to_string()))?;
        let build = |store: &ParamStore| {
            RefinerNetwork::new(&config.network, &store.var_builder(DType::F32, &options.device))
        };
        let (network, _) = ParamStore::build(&file.tensors, build)
            .map_err(|reason| refuse(format!("its tensors are not those of its configuration: {reason}")))?;
        let calibration = Some(said.calibration).filter(|text| !text.is_empty());
        let calibration = calibration.map(|text| toml::from_str(&text)).transpose();
        let calibration: Option<Calibration> =
            calibration.map_err(|error| refuse(format!("its calibration: {error}")))?;
        if calibration.is_some_and(|calibration| !calibration.is_possible()) {
            return Err(refuse("its calibration has a number beyond its range".to_owned()));
        }
        let ascent = BoxAscent { ascent: config.ascent.clone(), coordinates: Coordinates::Relative };
        let energy = BoxEnergy {
            head: network.head().clone().in_precision(options.precision),
            ascent: ascent.scaled(options.step_factor.or(said.step_factor).unwrap_or(1.0)),
            proposal: config.objective.density_proposal(),
            convention: CONVENTION,
            clips: options.clip,
            clips_edges: options.clip,
            calibration,
        };
        Ok(Self { config, network, energy, classes: said.classes, device: options.device.clone() })
    }

    /// Returns the settings.
    pub fn config(&self) -> &RefinerConfig {
        &self.config
    }

    /// Returns the classes whose boxes the refiner was trained on.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Returns the calibration; `None` if the refiner was trained without a detector's results.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.energy.calibration.as_ref()
    }

    /// Returns the label of boxes of an annotated category; `None` if a class-specific refiner does not know it.
    pub fn label(&self, category_id: u64) -> Option<usize> {
        if self.config.network.is_class_agnostic() {
            return Some(0);
        }
        self.classes.iter().find(|class| class.id == category_id).map(|class| class.label)
    }

    /// Returns the label of the category of this name, or else id; `None` if the refiner was not trained on it.
    pub fn label_of(&self, id: u64, name: Option<&str>) -> Option<usize> {
        let is_known = |known: &&Class| name.map_or(known.id == id, |name| known.name == name);
        self.classes.iter().find(is_known).and_then(|class| self.label(class.id))
    }

    /// Refines, with `refine`, the detections of known classes with a score of at least `min_score`.
    pub(crate) fn refine_found(
        &self,
        found: &mut [Detection],
        min_score: f32,
        refine: impl FnOnce(&[LabelledBox]) -> Result<Vec<RefinedBox>>,
    ) -> Result<()> {
        let given = |(place, one): (usize, &Detection)| {
            let [_, _, width, height] = one.bbox;
            let class = one.class.as_ref()?;
            let label = self.label_of(class.id, Some(&class.name))?;
            let is_refinable = one.score >= min_score && width > 0.0 && height > 0.0;
            is_refinable.then_some((place, LabelledBox { bbox: one.bbox, label }))
        };
        let (places, boxes): (Vec<usize>, Vec<LabelledBox>) =
            found.iter().enumerate().filter_map(given).unzip();
        if boxes.is_empty() {
            return Ok(());
        }
        for (place, refined) in places.into_iter().zip(refine(&boxes)?) {
            found[place].bbox = refined.bbox;
            found[place].density = refined.density;
        }
        Ok(())
    }

    /// Computes the features of an image for the [energy](Self::energy) of boxes in it.
    ///
    /// # Errors
    /// When the network fails.
    pub fn features(&self, image: &Image) -> Result<ImageFeatures> {
        let (images, sample) = ImageBatch::of_image(image, &self.config.input, &self.device)?;
        let pyramid = self.network.pyramid(&self.network.maps(&images.pixels)?)?;
        Ok(ImageFeatures { sample, pyramid: BoxFeatures::readable(&pyramid)? })
    }

    /// Returns f of boxes, for an image with known features.
    pub fn energy(&self) -> &BoxEnergy {
        &self.energy
    }

    /// Refines `boxes` of `image`; entry i of the result is the refined `boxes[i]`. The features of the image are
    /// computed once for all boxes.
    ///
    /// # Errors
    /// When a box has no extent, its label is not the network's, or f is not finite.
    pub fn refine(&self, image: &Image, boxes: &[LabelledBox]) -> Result<Vec<RefinedBox>> {
        if boxes.is_empty() {
            return Ok(vec![]);
        }
        Ok(self.energy.refined(&self.features(image)?, boxes, &self.energy.ascent)?.0)
    }

    /// Refines `boxes` of `image`, and estimates p(y | x) around each refined box from `samples` importance samples
    /// drawn with `rng`.
    ///
    /// # Errors
    /// As [`refine`](Self::refine) and [`check_density`](Self::check_density).
    pub fn refine_with_density(
        &self,
        image: &Image,
        boxes: &[LabelledBox],
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<RefinedBox>> {
        self.check_density()?;
        if boxes.is_empty() {
            return Ok(vec![]);
        }
        let (features, temperature) = (self.features(image)?, self.energy.temperature());
        let (mut refined, corners) = self.energy.refined(&features, boxes, &self.energy.ascent)?;
        for ((refined, given), corners) in refined.iter_mut().zip(boxes).zip(corners) {
            let given = LabelledBox { bbox: refined.bbox, ..*given };
            refined.density =
                Some(self.energy.density_at(&features, given, corners, samples, temperature, rng)?);
        }
        Ok(refined)
    }

    /// Checks that f has a density, which [`refine_with_density`](Self::refine_with_density) needs.
    ///
    /// # Errors
    /// [`Error::Config`] if the objective does not draw its samples from Eq. 5.
    pub fn check_density(&self) -> Result<()> {
        self.energy.proposal().map(|_| ())
    }

    /// Converts the network to two ONNX files. The first takes `pixels` (1, 3, H, W), normalised and padded as its
    /// metadata say, and outputs `level_0`, `level_1`, …. The second takes these and `boxes` (R, 4), (x0, y0, x1, y1)
    /// in pixels of the input with exclusive ends, and outputs `f` (R, K) for the K classes of the network. Gradient
    /// ascent is left to the caller, because ONNX has no gradients.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn onnx(&self) -> Result<Vec<Part>> {
        let config = &self.config;
        let text = |toml: std::result::Result<String, toml::ser::Error>| {
            toml.map_err(|error| Error::config("refiner", error))
        };
        let metadata = [
            ("task", crate::weights::REFINER.to_owned()),
            ("input", text(toml::to_string(&config.input))?),
            ("ascent", text(toml::to_string(self.energy.ascent()))?),
            ("classes", self.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ")),
        ];
        let channels = config.network.channels;
        let sides: Vec<[String; 2]> = (0..config.network.strides.len())
            .map(|level| ["height", "width"].map(|side| format!("{side}_{level}")))
            .collect();
        let mut features = Graph::new("features");
        let any = [Length::Fixed(1), Length::Fixed(3), Length::Any("height"), Length::Any("width")];
        let pixels = features.input("pixels", &any);
        let levels = self.network.pyramid_onnx(&mut features, &pixels)?;
        let mut head = Graph::new("head");
        let mut given = Vec::new();
        for ((level, value), sides) in levels.iter().enumerate().zip(&sides) {
            let (name, [height, width]) = (format!("level_{level}"), sides);
            let shape = [Length::Fixed(1), Length::Fixed(channels), Length::Any(height), Length::Any(width)];
            given.push(features.hand_on(&mut head, &name, value, &shape));
        }
        let boxes = head.input("boxes", &[Length::Any("boxes"), Length::Fixed(4)]);
        let f = self.network.head().onnx(&mut head, &given, &boxes)?;
        head.output("f", &f, &[Length::Any("boxes"), Length::Fixed(config.network.num_classes)]);
        Ok(vec![features.finish(&metadata)?, head.finish(&metadata)?])
    }
}

/// Box convention of refiners: exclusive ends, as in COCO.
pub(crate) const CONVENTION: BoxConvention = BoxConvention::HalfOpen;
