//! Faster-RCNN with the branch that was trained on top of it: one form of a [`Detector`](super::Detector).

use std::sync::Arc;

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_core::{GaussianMixture, GradientAscent};
use ebm_data::{
    Image,
    coco::CocoDataset,
    loader::{Loader, LoaderConfig, Sample},
};
use ebm_ops::boxes::{BBox, BoxConvention, area};
use rand::RngCore;

use super::{DensityOptions, DetectorOptions};
use crate::{
    Error, Result,
    box_head::Candidate,
    branch::Branch,
    config::{ExperimentConfig, MapType},
    corner_density::BoxDensity,
    energy_head::BoxFeatures,
    evaluation::{Evaluation, Heads, Refiner, evaluate},
    faster_rcnn::{FasterRcnn, ImageBatch},
    inference::{BoxAscent, Head, PathPoint, RefinedCandidates, climb_path, refine_candidates},
    input::{original_pixel, to_original},
    refiner::LabelledBox,
    weights::{BRANCH, WeightFile, check_detector, stated_configuration},
};

/// A box in pixels of the image, `[x, y, width, height]`, before and after refinement.
pub(super) struct Found {
    pub label: usize,
    pub score: f32,
    pub before: [f64; 4],
    pub bbox: [f64; 4],
}

impl From<&Candidate> for Found {
    /// Of a box whose corners lie in the image's pixels.
    fn from(&Candidate { bbox, label, score }: &Candidate) -> Self {
        let [x0, y0, x1, y1] = bbox.map(f64::from);
        let bbox = [x0, y0, x1 - x0, y1 - y0];
        Self { label, score, before: bbox, bbox }
    }
}

/// Faster-RCNN and what was trained on top of it, if anything.
pub(super) struct TwoStages {
    pub config: ExperimentConfig,
    network: FasterRcnn,
    branch: Option<TrainedBranch>,
    device: Device,
}

/// What was trained on top of the detector.
struct TrainedBranch {
    /// The method's key.
    method: String,
    branch: Branch,
    /// How its boxes climb, where they do.
    ascent: Option<BoxAscent>,
    /// Eq. 5 as the branch was trained with, of an energy model.
    proposal: Option<GaussianMixture>,
}

/// What is known of one image.
pub(super) struct View {
    /// In the network's input.
    refinement: RefinedCandidates,
    /// From the input to the image.
    sample: Sample,
    /// P2 … P6, as pooling reads them.
    pyramid: Vec<Tensor>,
}

impl TwoStages {
    /// The detector in the file `weights`, with the branch in the other one.
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

    /// The key of the method by which boxes are found.
    pub(super) fn method(&self) -> &str {
        self.branch.as_ref().map_or(ExperimentConfig::DIRECT, |branch| &branch.method)
    }

    /// See [`Detector::evaluate`](super::Detector::evaluate).
    pub(super) fn evaluate(
        &self,
        dataset: &Arc<CocoDataset>,
        workers: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Evaluation> {
        let loader = LoaderConfig::eval(self.config.detector.input.transform(), 1).with_workers(workers);
        let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
        evaluate(&self.network, dataset, &loader, &self.heads(), &self.device, progress)
    }

    /// p(y | x) of those that `options` ask for among what was [found](Self::found), each with its place there.
    /// One that climbed out of the image has no size that a density could be measured in, and has none.
    pub(super) fn densities(
        &self,
        view: &View,
        options: &DensityOptions,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<(usize, BoxDensity)>> {
        self.energy()?;
        let (convention, mut found) = (self.config.detector.convention.into(), Vec::new());
        for (place, &Candidate { bbox, label, score }) in view.refinement.after.iter().enumerate() {
            if score >= options.min_score && area(&bbox, convention) > 0.0 {
                found.push((place, self.density_of(view, label, bbox, options.samples, rng)?));
            }
        }
        Ok(found)
    }

    /// p(y | x) about a box of the network's input.
    fn density_of(
        &self,
        view: &View,
        label: usize,
        bbox: BBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let ((head, proposal), config) = (self.energy()?, &self.config.detector);
        let features = self.features(view, label, bbox)?;
        let density = BoxDensity::about(&head, &features, proposal, samples, rng)?;
        Ok(density.in_image(&view.sample, config.convention.into(), config.clip_refined))
    }

    /// What f needs of a box of the network's input.
    fn features(&self, view: &View, label: usize, bbox: BBox) -> Result<BoxFeatures> {
        let convention = self.config.detector.convention.into();
        BoxFeatures::new(&view.pyramid, vec![0], vec![label as u32], &[bbox], convention)
    }

    /// How the branch's boxes climb, if they do.
    pub(super) fn ascent(&self) -> Option<&GradientAscent> {
        self.branch.as_ref()?.ascent.as_ref().map(|climbing| &climbing.ascent)
    }

    /// See [`Detector::climb`](super::Detector::climb).
    pub(super) fn climb(
        &self,
        view: &View,
        given: LabelledBox,
        ascent: &GradientAscent,
    ) -> Result<Vec<PathPoint>> {
        let heads = self.heads();
        let refiner = heads
            .refiners
            .first()
            .ok_or_else(|| Error::config("f of a box", "this detector has no branch to climb with"))?;
        let convention = self.config.detector.convention.into();
        let features = self.features(view, given.label, self.corners(view, given))?;
        let ascent = BoxAscent { ascent: ascent.clone(), ..refiner.ascent };
        climb_path(refiner.head, features, &ascent, |corners| to_original(corners, &view.sample, convention))
    }

    /// See [`Detector::density`](super::Detector::density).
    pub(super) fn density(
        &self,
        view: &View,
        given: LabelledBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        self.density_of(view, given.label, self.corners(view, given), samples, rng)
    }

    /// A box of the image in the network's input.
    fn corners(&self, view: &View, given: LabelledBox) -> BBox {
        let convention: BoxConvention = self.config.detector.convention.into();
        let [across, down] = original_pixel(&view.sample);
        let ([x, y, width, height], end) = (given.bbox, f64::from(convention.offset()));
        [x / across, y / down, (x + width - end) / across, (y + height - end) / down].map(|at| at as f32)
    }

    /// What finds boxes beside Faster-RCNN's regression: the branch, if there is one.
    fn heads(&self) -> Heads<'_> {
        Heads::of(self.branch.iter().map(|trained| (&trained.branch, trained.ascent.as_ref())))
    }

    /// The energy model with Eq. 5 as it was trained with: what has a density p(y | x) of boxes.
    pub(super) fn energy(&self) -> Result<(&Head, &GaussianMixture)> {
        let proposal = self.branch.as_ref().and_then(|branch| branch.proposal.as_ref());
        if let (Some(refiner), Some(proposal)) = (self.heads().refiners.first(), proposal) {
            return Ok((refiner.head, proposal));
        }
        let reason = match &self.branch {
            Some(branch) => {
                format!("p(y|x) is of energy models, and this is a branch of {}", branch.method)
            }
            None => "p(y|x) needs the weights of an energy model beside the detector's".to_owned(),
        };
        Err(Error::config("density", reason))
    }

    /// What the networks see.
    pub(super) fn look(&self, image: &Image) -> Result<View> {
        let config = &self.config.detector;
        let (images, sample) = ImageBatch::of_image(image, &config.input, &self.device)?;
        let pyramid = BoxFeatures::readable(&self.network.features(&images.pixels, false)?)?;
        let scored = self.network.scored(&pyramid, &images)?;
        let heads = self.heads();
        let refinement = match (heads.refiners.first(), heads.parametric.first()) {
            (Some(Refiner { head, ascent }), _) => {
                let candidates = self.network.decode(&scored, None, &images)?;
                let refined = refine_candidates(*head, &pyramid, &candidates, &images.sizes, ascent, config)?;
                refined.into_iter().next().unwrap_or_default()
            }
            (None, density) => {
                let latent = || heads.key.split("latent").rng();
                let offsets = density.map(|head| head.offsets(&scored, &mut latent())).transpose()?;
                let candidates = self.network.decode(&scored, offsets.as_deref(), &images)?;
                let before = candidates.first().map_or(Ok(vec![]), |c| self.network.suppress(c))?;
                RefinedCandidates { after: before.clone(), before }
            }
        };
        Ok(View { refinement, sample, pyramid })
    }

    /// The boxes of a view, best score first.
    pub(super) fn found(&self, view: &View) -> Vec<Found> {
        let convention = self.config.detector.convention.into();
        let corners = |c: &Candidate| to_original(&c.bbox, &view.sample, convention);
        let RefinedCandidates { before, after } = &view.refinement;
        let found = |(before, after): (&Candidate, &Candidate)| Found {
            label: after.label,
            score: after.score,
            before: corners(before),
            bbox: corners(after),
        };
        before.iter().zip(after).map(found).collect()
    }
}

impl TrainedBranch {
    /// The branch in `file`, for the detector in the file `weights` with `config`.
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
        let branch = branch.in_precision(options.precision);
        let factor = options.step_factor.or(said.step_factor).unwrap_or(1.0);
        let climbing = options.config.as_ref().map_or(Ok(row), |given| given.method(&method))?;
        let ascent = climbing.ascent().map(|ascent| ascent.scaled(factor));
        let energy = row.confidence.as_ref().filter(|_| method == ExperimentConfig::ENERGY);
        let proposal = energy.and_then(|branch| branch.objective.gaussian());
        Ok(Self { method, branch, ascent, proposal })
    }
}
