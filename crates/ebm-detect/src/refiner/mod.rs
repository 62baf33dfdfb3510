//! Tighter boxes for any detector: a network of its own sees the image, and the boxes climb its f.
//!
//! [`BoxRefiner`] is the way in. It is trained on annotated images alone ([`RefinerTask`](crate::training::RefinerTask)): samples
//! come from Eq. 5 around true boxes, and nothing of the detector is needed whose boxes it refines.

mod calibration;
mod clip;
mod fit;
mod network;
mod onnx;
mod seen;

use std::path::Path;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_core::{GaussianMixture, GradientAscent, Tempered};
use ebm_data::Image;
use ebm_nn::{
    import::{LoadPolicy, WeightBytes},
    params::ParamStore,
};
use ebm_ops::{
    boxes::{BBox, BoxConvention},
    device::Precision,
};
use ebm_train::Class;
use rand::RngCore;

use crate::{
    Error, Result,
    config::{RefinerConfig, Settings},
    corner_density::BoxDensity,
    energy_head::{BoxFeatures, Coordinates},
    inference::{BoxAscent, Climbed, climb},
    input::{original_pixel, to_original},
    weights::{REFINER, WeightFile},
};

pub use calibration::{Calibration, CalibrationOptions, Rescoring};
use clip::clipped;
pub use fit::{RefinedResults, RefinerFit, jittered};
pub use network::RefinerNetwork;
pub use seen::Seen;

/// What a [`BoxRefiner`] is opened with beside its file.
#[derive(Clone, Debug)]
pub struct RefinerOptions {
    /// The factor of the configured step lengths, in place of the one that validation data chose.
    pub step_factor: Option<f64>,
    /// Whether refined boxes and the intervals of their edges end at the image's edges, as annotations do.
    pub clip: bool,
    /// Where the network computes.
    pub device: Device,
    /// Of the head on the CPU.
    pub precision: Precision,
}

impl Default for RefinerOptions {
    /// What the file says, clipped, f32 on the CPU.
    fn default() -> Self {
        Self { step_factor: None, clip: true, device: Device::Cpu, precision: Precision::default() }
    }
}

/// A box to refine: `[x, y, width, height]` in pixels of the image, and its label, which a refiner that tells
/// classes apart needs ([`BoxRefiner::label`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelledBox {
    /// The box.
    pub bbox: [f64; 4],
    /// The network's label; any, where it knows no classes.
    pub label: usize,
}

impl From<[f64; 4]> for LabelledBox {
    /// For a refiner without classes.
    fn from(bbox: [f64; 4]) -> Self {
        Self { bbox, label: 0 }
    }
}

/// A box after refinement. Boxes are `[x, y, width, height]` in pixels of the image.
#[derive(Clone, Debug)]
pub struct RefinedBox {
    /// The box as it was given.
    pub before: [f64; 4],
    /// The box after refinement.
    pub bbox: [f64; 4],
    /// f of the box as it was given, clipped where boxes are.
    pub f_before: f32,
    /// f of the refined box, before it was clipped.
    pub f: f32,
    /// p(y | x) about the refined box, where it was asked for.
    pub density: Option<BoxDensity>,
}

/// A trained refiner of boxes.
///
/// ```no_run
/// use ebm_detect::{BoxRefiner, LabelledBox};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let refiner = BoxRefiner::open("refiner.safetensors")?;
/// let image = ebm_data::decode::read_upright("photo.jpg".as_ref())?;
/// for refined in refiner.refine(&image, &[LabelledBox::from([30.0, 40.0, 120.0, 200.0])])? {
///     println!("{:?} -> {:?}, f {:.2}", refined.before, refined.bbox, refined.f);
/// }
/// # Ok(())
/// # }
/// ```
pub struct BoxRefiner {
    config: RefinerConfig,
    network: RefinerNetwork,
    ascent: GradientAscent,
    classes: Vec<Class>,
    calibration: Option<Calibration>,
    options: RefinerOptions,
}

impl BoxRefiner {
    /// The refiner in the file `path`, on the CPU; its boxes end at the image's edges.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &RefinerOptions::default())
    }

    /// The refiner in the file `path`, which `ebm train refiner` wrote.
    ///
    /// # Errors
    /// [`Error::Train`] for a file of something else; [`Error::Weights`] where its tensors are not those that
    /// its configuration tells of.
    pub fn open_with(path: impl AsRef<Path>, options: &RefinerOptions) -> Result<Self> {
        Self::of(WeightFile::open(path.as_ref(), &options.device)?, options)
    }

    /// The refiner in a file's bytes.
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
        let store = ParamStore::new(Key::new(0));
        store.freeze(|_| true);
        let network = RefinerNetwork::new(&config.network, &store.var_builder(DType::F32, &options.device))?;
        let report = store.load(&file.tensors, LoadPolicy::Lenient)?;
        if !report.is_exact() {
            return Err(refuse(format!("its tensors are not those of its configuration: {report}")));
        }
        let network = network.in_precision(options.precision);
        let factor = options.step_factor.or(said.step_factor).unwrap_or(1.0);
        let ascent = scaled(&config.ascent, factor);
        let calibration = Some(said.calibration).filter(|text| !text.is_empty());
        let calibration = calibration.map(|text| toml::from_str(&text)).transpose();
        let calibration = calibration.map_err(|error| refuse(format!("its calibration: {error}")))?;
        Ok(Self { config, network, ascent, classes: said.classes, calibration, options: options.clone() })
    }

    /// The settings.
    pub fn config(&self) -> &RefinerConfig {
        &self.config
    }

    /// The classes whose boxes it was trained on.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// What validation images taught about it beside the step length; none where it was trained without a
    /// detector's results.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// The label of boxes of this category of the annotations; none where the refiner tells classes apart and
    /// does not know this one.
    pub fn label(&self, category_id: u64) -> Option<usize> {
        if self.config.network.is_class_agnostic() {
            return Some(0);
        }
        self.classes.iter().find(|class| class.id == category_id).map(|class| class.label)
    }

    /// Refines `boxes` of `image`; entry i of the result is entry i of them. The image is looked at once for
    /// all boxes.
    ///
    /// # Errors
    /// When a box has no extent, its label is not the network's, or f is not finite.
    pub fn refine(&self, image: &Image, boxes: &[LabelledBox]) -> Result<Vec<RefinedBox>> {
        if boxes.is_empty() {
            return Ok(vec![]);
        }
        self.refine_seen(&self.look(image)?, boxes)
    }

    /// The same with p(y | x) about each refined box from so many importance samples, drawn with `rng`.
    ///
    /// # Errors
    /// As [`refine`](Self::refine); [`Error::Config`] where the objective's samples do not come from Eq. 5.
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
        let seen = self.look(image)?;
        let (mut refined, corners) = self.refined(&seen, boxes, &self.ascent)?;
        for ((refined, given), corners) in refined.iter_mut().zip(boxes).zip(corners) {
            let density = self.tempered(&seen, *given, corners, samples, self.temperature(), rng)?;
            refined.density = Some(self.calibrated(density, refined.bbox));
        }
        Ok(refined)
    }

    /// What p(y | x) is tempered by.
    fn temperature(&self) -> f64 {
        self.calibration.map_or(1.0, |calibration| calibration.temperature)
    }

    /// The density about the refined box `bbox` with what a calibration knows of its edges.
    fn calibrated(&self, density: BoxDensity, bbox: [f64; 4]) -> BoxDensity {
        match self.calibration.map(|calibration| calibration.edges_of(bbox)) {
            Some(edges) => density.calibrated(edges),
            None => density,
        }
    }

    /// p(y | x) of this temperature about a refined box, whose `corners` are those in the network's input.
    fn tempered(
        &self,
        seen: &Seen,
        given: LabelledBox,
        corners: BBox,
        samples: usize,
        temperature: f64,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let features = self.features(seen, &[given], &[corners])?;
        let head = Tempered::new(self.network.head(), temperature)?;
        let density = BoxDensity::about(&head, &features, &self.proposal()?, samples, rng)?;
        Ok(density.in_image(&seen.sample, CONVENTION, self.options.clip))
    }

    /// Refuses [`refine_with_density`](Self::refine_with_density) before anything is computed where there is
    /// no density.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn check_density(&self) -> Result<()> {
        self.proposal().map(|_| ())
    }

    /// Eq. 5 as f was trained with: where it is known.
    fn proposal(&self) -> Result<GaussianMixture> {
        self.config.objective.gaussian().ok_or_else(|| {
            Error::config(
                "density",
                "p(y|x) is drawn from Eq. 5, and this refiner's objective has other samples",
            )
        })
    }

    /// The refined boxes, of which there is one at least, and their corners in the network's input.
    pub(crate) fn refined(
        &self,
        seen: &Seen,
        boxes: &[LabelledBox],
        ascent: &GradientAscent,
    ) -> Result<(Vec<RefinedBox>, Vec<BBox>)> {
        let factors = original_pixel(&seen.sample);
        let (height, width) = seen.sample.original;
        let clip = self.options.clip.then_some([width as f64, height as f64]);
        let inside = |bbox: [f64; 4]| clip.map_or(bbox, |size| clipped(bbox, size).unwrap_or(bbox));
        // What is clipped in the end begins so.
        let corners: Vec<BBox> = boxes.iter().map(|given| to_input(&inside(given.bbox), factors)).collect();
        let features = self.features(seen, boxes, &corners)?;
        let ascent = BoxAscent { ascent: ascent.clone(), coordinates: Coordinates::Relative };
        let Climbed { boxes: climbed, f_before, f } = climb(self.network.head(), features, &ascent)?;
        if let Some(f) = f_before.iter().chain(&f).find(|f| !f.is_finite()) {
            return Err(Error::input("refiner", format!("f of a box is {f}")));
        }
        let refined = boxes.iter().zip(&climbed).zip(f_before.into_iter().zip(f));
        let refined = refined.map(|((given, corners), (f_before, f))| {
            let (before, bbox) = (given.bbox, to_original(corners, &seen.sample, CONVENTION));
            let bbox = clip.map_or(bbox, |size| clipped(bbox, size).unwrap_or(inside(before)));
            RefinedBox { before, bbox, f_before, f, density: None }
        });
        Ok((refined.collect(), climbed))
    }

    /// What f needs of boxes, whose `corners` are those in the network's input.
    fn features(&self, seen: &Seen, boxes: &[LabelledBox], corners: &[BBox]) -> Result<BoxFeatures> {
        let agnostic = self.config.network.is_class_agnostic();
        let labels = boxes.iter().map(|given| if agnostic { 0 } else { given.label as u32 }).collect();
        BoxFeatures::new(&seen.pyramid, vec![0; boxes.len()], labels, corners, CONVENTION)
    }
}

/// A refiner's boxes have exclusive ends, as COCO's.
pub(crate) const CONVENTION: BoxConvention = BoxConvention::HalfOpen;

/// The same ascent with all step lengths multiplied by `factor`.
fn scaled(ascent: &GradientAscent, factor: f64) -> GradientAscent {
    let step_length = ascent.step_length.iter().map(|length| length * factor).collect();
    GradientAscent { step_length, ..ascent.clone() }
}

/// A box `[x, y, width, height]` of the image as corners in the network's input, of whose pixels each is
/// `factors` of the image's.
fn to_input(&[x, y, width, height]: &[f64; 4], [across, down]: [f64; 2]) -> BBox {
    [x / across, y / down, (x + width) / across, (y + height) / down].map(|corner| corner as f32)
}
