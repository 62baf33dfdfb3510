//! Faster-RCNN with an optional branch, for a [`Detector`](super::Detector).

use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_core::AnyObjective;
use ebm_data::Image;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_ops::boxes::BBox;

use super::{Detection, DetectorOptions};
use crate::box_energy::{BoxEnergy, ImageFeatures};
use crate::box_head::Candidate;
use crate::branch::Branch;
use crate::config::{ExperimentConfig, MapType};
use crate::energy_head::{BoxFeatures, EnergyHead};
use crate::evaluation::{Evaluation, Placement, evaluate};
use crate::faster_rcnn::{FasterRcnn, ImageBatch};
use crate::input::to_original;
use crate::parametric_head::ParametricHead;
use crate::weights::{BRANCH, WeightFile, check_detector, stated_configuration};
use crate::{Error, Result};

/// Faster-RCNN with an optional branch.
pub(super) struct TwoStages {
    pub config: ExperimentConfig,
    network: FasterRcnn,
    branch: Option<TrainedBranch>,
    device: Device,
}

/// Branch that was trained on the detector.
struct TrainedBranch {
    /// Key of the method.
    method: String,
    /// Density that replaces the regression.
    density: Option<ParametricHead>,
    /// Confidence f that boxes are refined by.
    energy: Option<BoxEnergy>,
}

/// Detections of the detector's own networks in an image, before a refiner.
pub(super) struct Unrefined {
    /// Detections by descending score.
    pub detections: Vec<Detection>,
    /// Corners of the detections in the network's input.
    pub corners: Vec<BBox>,
    /// Features of the image for f; `None` for FastestDet.
    pub features: Option<ImageFeatures>,
}

impl TwoStages {
    /// Opens the detector in the file `weights`, with the branch in the file `branch`.
    pub(super) fn open(
        weights: &WeightFile,
        branch: Option<&WeightFile>,
        options: &DetectorOptions,
    ) -> Result<Self> {
        let mut config = options.config.clone().map_or_else(|| weights.configuration(), Ok)?;
        let is_cpu = options.device.is_cpu();
        config.detector.backbone.maps = if is_cpu { MapType::F32 } else { options.precision.into() };
        let network = weights.detector(&config.detector)?;
        let open = |file| TrainedBranch::open(file, weights, &config, options);
        let branch = branch.map(open).transpose()?;
        Ok(Self { config, network, branch, device: options.device.clone() })
    }

    /// Returns the key of the method that places boxes.
    pub(super) fn method(&self) -> &str {
        self.branch.as_ref().map_or(ExperimentConfig::DIRECT, |branch| &branch.method)
    }

    /// Returns f of boxes; `None` if the branch has none or does not refine boxes.
    pub(super) fn energy(&self) -> Option<&BoxEnergy> {
        self.branch.as_ref()?.energy.as_ref()
    }

    /// Checks that the branch is an energy model, which densities need.
    pub(super) fn check_density(&self) -> Result<()> {
        if self.energy().is_some_and(|energy| energy.proposal.is_some()) {
            return Ok(());
        }
        let reason = match &self.branch {
            Some(branch) => {
                format!("p(y|x) needs an energy model, and this is a branch of {}", branch.method)
            }
            None => "p(y|x) needs the weights of an energy model beside the detector's".to_owned(),
        };
        Err(Error::config("density", reason))
    }

    /// Returns the branch's method of placing boxes; `None` for Faster-RCNN's regression.
    fn placement(&self) -> Option<Placement<'_>> {
        let TrainedBranch { density, energy, .. } = self.branch.as_ref()?;
        match (density, energy) {
            (Some(head), _) => Some(Placement::Density(head)),
            (None, Some(energy)) => Some(Placement::Confidence(&energy.head, energy.ascent.clone())),
            (None, None) => None,
        }
    }

    /// Detects the objects in all images of `dataset`; see [`Detector::evaluate`](super::Detector::evaluate).
    pub(super) fn evaluate(
        &self,
        dataset: &Arc<CocoDataset>,
        workers: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Evaluation> {
        let loader = LoaderConfig::eval(self.config.detector.input.transform(), 1).with_workers(workers);
        let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
        let placements: Vec<_> = self.placement().into_iter().collect();
        evaluate(&self.network, dataset, &loader, &placements, &self.device, progress)
    }

    /// Detects the objects in `image`, and returns them with the image's features.
    pub(super) fn detect(&self, image: &Image) -> Result<Unrefined> {
        let (network, config) = (&self.network, &self.config.detector);
        let (images, sample) = ImageBatch::of_image(image, &config.input, &self.device)?;
        let pyramid = BoxFeatures::readable(&network.features(&images.pixels, false)?)?;
        let scored = network.scored(&pyramid, &images)?;
        let (placement, mut rng) = (self.placement(), Key::new(0).split("latent").rng());
        let candidates = match &placement {
            Some(Placement::Density(_)) => vec![],
            _ => network.decode(&scored, None, &images)?,
        };
        let placed =
            Placement::boxes(placement.as_ref(), network, &pyramid, &scored, &candidates, &images, &mut rng)?;
        let boxes = placed.into_iter().next().unwrap_or_default();
        let in_image = |corners: &BBox| to_original(corners, &sample, config.convention);
        let detection = |(before, after): (&Candidate, &Candidate)| {
            let (label, score, density) = (after.label, after.score, None);
            let (before, bbox) = (in_image(&before.bbox), in_image(&after.bbox));
            Detection { label, class: None, score, before, bbox, density }
        };
        Ok(Unrefined {
            detections: boxes.before.iter().zip(&boxes.after).map(detection).collect(),
            corners: boxes.after.iter().map(|after| after.bbox).collect(),
            features: Some(ImageFeatures { sample, pyramid }),
        })
    }
}

impl TrainedBranch {
    /// Opens the branch in `file`, for the detector in the file `weights` with `config`.
    fn open(
        file: &WeightFile,
        weights: &WeightFile,
        config: &ExperimentConfig,
        options: &DetectorOptions,
    ) -> Result<Self> {
        let path = &file.path;
        let said = file.require(&[BRANCH])?;
        check_detector(said, path, config, &weights.digest()?)?;
        let (trained, method) = (stated_configuration(said, path)?, said.method.clone());
        let row = trained.method(&method).map_err(|error| Error::weights(path, error))?;
        let branch = Branch::load(row.density.as_ref(), &config.detector, file)?;
        let factor = options.step_factor.or(said.step_factor).unwrap_or(1.0);
        let climbing = options.config.as_ref().map_or(Ok(row), |given| given.method(&method))?;
        let ascent = climbing.ascent().map(|ascent| ascent.scaled(factor));
        let objective = row.confidence.as_ref().map(|branch| &branch.objective);
        let proposal =
            objective.filter(|_| method == ExperimentConfig::ENERGY).and_then(AnyObjective::gaussian);
        let energy = |head: EnergyHead, ascent| BoxEnergy {
            head: head.in_precision(options.precision),
            ascent,
            proposal,
            convention: config.detector.convention,
            clips: false,
            clips_edges: config.detector.clip_refined,
            calibration: None,
        };
        let (density, energy) = match branch {
            Branch::Density(head) => (Some(head), None),
            Branch::Confidence(head) => (None, ascent.map(|ascent| energy(head, ascent))),
        };
        Ok(Self { method, density, energy })
    }
}
