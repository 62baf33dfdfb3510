//! The tracker of ATOM (Section 4.2). A classifier finds the target, and the box module determines its box.
//!
//! [`TargetTracker::track`] is the state machine.

mod box_density;
mod config;
mod first_frame;
mod refinement;
mod target;

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::patch::{PatchGeometry, PatchSampler};
use ebm_data::sequences::Rect;
use ebm_data::transform::Normalise;

pub use self::box_density::BoxDensity;
pub use self::config::{BoxConfig, TrackerConfig};
use self::first_frame::first_frame;
pub use self::refinement::refine_box;
use self::target::Target;
use crate::backbone::{Backbone, BackboneFeatures};
use crate::box_module::{BoxNetwork, Modulation, TestFeatures};
use crate::classifier::{Classifier, Projected};
use crate::localize::{Interpolation, Location, State, localize};
use crate::method::Refinement;
use crate::saved::DensityConfig;
use crate::{Error, Result};

/// Networks that track any target, with the refinement of boxes.
pub struct Networks<B> {
    /// Backbone, which computes the features of a crop.
    pub backbone: Arc<Backbone>,
    /// Box module, which computes f of a box.
    pub boxes: B,
    /// Refinement of boxes by ascent on f.
    pub refinement: Refinement,
    /// Computation of p(y|x), if f was trained as a density.
    pub density: Option<DensityConfig>,
    /// Device of the networks.
    pub device: Device,
}

/// A tracker of one target.
pub struct TargetTracker<B> {
    networks: Arc<Networks<B>>,
    config: TrackerConfig,
    key: Key,
    /// Size (height, width) of every frame.
    image: [usize; 2],
    frame: usize,
    target: Target,
    modulation: Modulation,
    classifier: Classifier,
    interpolation: Interpolation,
    sampler: PatchSampler,
    planes: Vec<f32>,
    last: Option<LastRefinement>,
}

/// Result of one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked {
    /// Box of the target.
    pub bbox: Rect,
    /// Score of the classifier, about 1 at the target.
    pub score: f64,
    /// f at the start of the last step, averaged over the same boxes as `bbox`. `None` if no box was refined.
    pub f: Option<f64>,
    /// Reliability of the location.
    pub state: State,
    /// Time of each stage.
    pub stages: Stages,
}

/// Wall time of a frame's stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Sampling of the crop.
    pub crop: Duration,
    /// Backbone.
    pub features: Duration,
    /// Scores of the classifier, and localisation.
    pub classifier: Duration,
    /// Convolutions of the box module.
    pub box_features: Duration,
    /// Ascent on f.
    pub refinement: Duration,
    /// Updates of the classifier.
    pub learning: Duration,
}

impl Stages {
    /// Returns the sum of all stages.
    pub fn total(&self) -> Duration {
        self.crop + self.features + self.classifier + self.box_features + self.refinement + self.learning
    }
}

impl std::ops::Add for Stages {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            crop: self.crop + other.crop,
            features: self.features + other.features,
            classifier: self.classifier + other.classifier,
            box_features: self.box_features + other.box_features,
            refinement: self.refinement + other.refinement,
            learning: self.learning + other.learning,
        }
    }
}

/// Crop of a frame with its features.
struct View {
    geometry: PatchGeometry,
    features: BackboneFeatures,
    projected: Projected,
}

/// Crop and features of the last refinement.
struct LastRefinement {
    geometry: PatchGeometry,
    features: TestFeatures,
}

impl<B: BoxNetwork> TargetTracker<B> {
    /// Starts with the target in the box `bbox` of the first frame `image`. All random numbers come from `key`.
    ///
    /// # Errors
    /// [`Error::Input`] for a box without extent or outside the image, [`Error::Config`] for invalid settings; else
    /// when a network refuses.
    pub fn start(
        networks: &Arc<Networks<B>>,
        config: &TrackerConfig,
        image: &Image,
        bbox: Rect,
        key: Key,
    ) -> Result<Self> {
        config.check()?;
        let size = [image.height, image.width];
        let target = Target::new(bbox, size)?;
        let (side, device) = (config.crop, &networks.device);
        let mut sampler = PatchSampler::new(&Normalise::IMAGENET)?;
        let mut rng = key.split("first frame").rng();
        let first = first_frame(&networks.backbone, &mut sampler, image, &target, config, device, &mut rng)?;
        let cells = first.views.dim(2)?;
        let target_cells = config.target_side() * cells as f64 / side as f64;
        let classifier =
            Classifier::new(&config.classifier, &first.views, &first.offsets, target_cells, &mut rng)?;
        let reference_box = box_tensor(first.reference_box, device)?;
        Ok(Self {
            networks: networks.clone(),
            config: config.clone(),
            key,
            image: size,
            frame: 0,
            target,
            modulation: networks.boxes.modulation(&first.reference, &reference_box)?.detach(),
            classifier,
            interpolation: Interpolation::new(cells, side / cells),
            sampler,
            planes: vec![0.0; 3 * side * side],
            last: None,
        })
    }

    /// Finds the target in the next frame.
    ///
    /// # Errors
    /// [`Error::Input`] for a frame of another size than the first; else when a network refuses.
    pub fn track(&mut self, image: &Image) -> Result<Tracked> {
        let found = [image.height, image.width];
        if found != self.image {
            let begun = format!("where the video began with {:?}; a video has one size", self.image);
            let place = format!("frame {} (the first is 0)", self.frame + 1);
            return Err(Error::input(place, format!("it has {found:?} rows and columns {begun}")));
        }
        self.frame += 1;
        let mut stages = Stages::default();

        let view = self.extract_view(image, &mut stages)?;
        let location = timed(&mut stages.classifier, || self.locate(&view))?;
        let mut f = None;
        if location.state != State::NotFound {
            let [dy, dx] = location.displacement;
            let middle = (self.config.crop as f64 - 1.0) / 2.0;
            self.target.center = view.geometry.to_image([middle + dy, middle + dx]);
            self.target.keep_inside(self.image, self.config.inside_ratio);
            if let Some((target, score)) = self.refined_target(&view, &mut stages)? {
                self.target = target;
                f = Some(score);
            }
        }

        let start = Instant::now();
        let hard_negative = location.state == State::HardNegative;
        if matches!(location.state, State::Normal | State::HardNegative) {
            let offset = self.offset_in(&view);
            self.classifier.remember(&view.projected, offset, hard_negative)?;
        }
        if hard_negative || self.classifier.is_due(self.frame) {
            self.classifier.update()?;
        }
        stages.learning = start.elapsed();
        Ok(Tracked { bbox: self.target.rect(), score: location.score, f, state: location.state, stages })
    }

    /// Returns the present box of the target.
    pub fn bbox(&self) -> Rect {
        self.target.rect()
    }

    /// Computes p(y|x) about the target's box from `num_samples` samples, in the last frame in which a box was refined.
    /// Returns `None` before the first refinement, or if f was not trained as a density.
    ///
    /// # Errors
    /// When the box module refuses.
    pub fn density(&self, num_samples: usize) -> Result<Option<BoxDensity>> {
        match &self.networks.density {
            Some(config) => self.density_with(config, num_samples),
            None => Ok(None),
        }
    }

    /// Computes p(y|x) like [`density`](Self::density), with the settings `config`.
    pub(crate) fn density_with(
        &self,
        config: &DensityConfig,
        num_samples: usize,
    ) -> Result<Option<BoxDensity>> {
        let Networks { boxes: network, device, .. } = &*self.networks;
        let Some(LastRefinement { geometry, features }) = &self.last else { return Ok(None) };
        let bbox = box_tensor(self.target.in_patch(geometry), device)?;
        let mut rng = self.key.split("density").index(self.frame as u64).rng();
        let features = features.clone();
        BoxDensity::about(network, features, &bbox, geometry, config, num_samples, &mut rng).map(Some)
    }

    fn extract_view(&mut self, image: &Image, stages: &mut Stages) -> Result<View> {
        let (side, networks) = (self.config.crop, &self.networks);
        let sample = (self.target.side() * self.config.search_factor).round().max(1.0);
        let geometry = PatchGeometry::new(self.target.center, sample, side)?;
        let crop = timed(&mut stages.crop, || {
            self.sampler.sample(image, &geometry, &mut self.planes)?;
            Ok(Tensor::from_slice(&self.planes, (1, 3, side, side), &networks.device)?)
        })?;
        let features = timed(&mut stages.features, || networks.backbone.features(&crop))?;
        let projected = timed(&mut stages.classifier, || self.classifier.project(&features.layer3))?;
        Ok(View { geometry, features, projected })
    }

    fn locate(&self, view: &View) -> Result<Location> {
        let scores = self.classifier.scores(&view.projected)?.squeeze(0)?;
        let cells = scores.dim(0)?;
        let scores: Vec<f32> = scores.flatten_all()?.to_device(&Device::Cpu)?.to_vec1()?;
        let scores = self.interpolation.apply(&scores);
        let size = self.config.crop;
        let origin = ((cells as f64 - 1.0) / 2.0 + self.classifier.shift()) * (size / cells) as f64;
        let target = self.target.size.map(|side| side / view.geometry.scale());
        Ok(localize(&scores, size, origin, target, &self.config.localize))
    }

    /// Refines the target's box. Returns the target and its f, or `None` if no refined box is valid.
    fn refined_target(&mut self, view: &View, stages: &mut Stages) -> Result<Option<(Target, f64)>> {
        let Networks { boxes: network, refinement, device, .. } = &*self.networks;
        let features = timed(&mut stages.box_features, || {
            Ok(network.test_features(&view.features, &self.modulation)?.detach())
        })?;
        self.last = Some(LastRefinement { geometry: view.geometry, features: features.clone() });
        let mut rng = self.key.split("boxes").index(self.frame as u64).rng();
        let start = self.target.in_patch(&view.geometry);
        let refined = timed(&mut stages.refinement, || {
            refine_box(network, features, start, refinement, &self.config.boxes, device, &mut rng)
        })?;
        Ok(refined.map(|(bbox, f)| (Target::of_patch(bbox, &view.geometry), f)))
    }

    /// Returns the position of the target in a view, as (y, x) cells from the centre.
    fn offset_in(&self, view: &View) -> [f64; 2] {
        let stride = self.config.crop as f64 / self.interpolation.cells() as f64;
        let middle = view.geometry.center();
        [0, 1].map(|axis| (self.target.center[axis] - middle[axis]) / view.geometry.scale() / stride)
    }
}

/// Returns a box as a tensor `(1, 4)`.
fn box_tensor(bbox: Rect, device: &Device) -> Result<Tensor> {
    Ok(Tensor::new(&[bbox.map(|number| number as f32)], device)?)
}

/// Calls `run`, and adds its wall time to `total`.
fn timed<T>(total: &mut Duration, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = run();
    *total += start.elapsed();
    result
}
