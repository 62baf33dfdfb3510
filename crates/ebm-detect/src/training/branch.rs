//! Training of what a method adds, on frozen features: Eq. 4 for the energy model, the IoU for IoU-Net and IoU-Net*, the
//! densities' own likelihoods.

use std::rc::Rc;

use candle_core::Tensor;
use ebm_core::{MonteCarloNll, Objective, Proposal, QualityRegression};
use ebm_nn::{
    boxes::{BBox, paired_iou},
    params::ParamStore,
};
use ebm_seed::Key;
use ebm_train::{GradientTask, Group, Learner, Loss};

use super::BranchSource;
use crate::{
    branch::Branch,
    config::{ExperimentConfig, ProposalConfig},
    energy_head::{BoxFeatures, EnergyHead},
    error::{Error, Result},
    faster_rcnn::{FasterRcnn, Objects},
    foreground::ForegroundPool,
    method::Method,
};

/// A branch under its objective; the detector only provides features.
pub struct BranchTask {
    detector: Rc<FasterRcnn>,
    branch: Branch,
    source: BranchSource,
    method: Method,
    /// What a confidence is trained on: the proposal, M, and whether the true box is trained on with it.
    samples: Option<(Box<dyn Proposal>, usize, bool)>,
    learner: Learner,
    key: Key,
}

impl BranchTask {
    /// Trains `branch`, built from `store`, whose trainable parameters are the branch's alone.
    ///
    /// Batches with maps are taken to hold the pyramid P2 … P6.
    ///
    /// # Errors
    /// When the method is not one that is trained, or its proposal is not possible.
    pub fn new(
        detector: Rc<FasterRcnn>,
        (branch, store): (Branch, ParamStore),
        source: BranchSource,
        (method, config): (Method, &ExperimentConfig),
        key: Key,
    ) -> Result<Self> {
        let training = config.training(method).ok_or_else(|| Error::Config {
            name: method.key().into(),
            reason: "it adds nothing to the detector, so that there is nothing to train".into(),
        })?;
        let samples = match config.confidence(method) {
            Some(c) => {
                let with_target = matches!(c.proposal, ProposalConfig::Gaussian { .. });
                Some((c.proposal.build(key.split("pool"))?, c.samples, with_target))
            }
            None => None,
        };
        let updater = training.updater(store.trainable());
        let learner = Learner::new(store, updater);
        Ok(Self { detector, branch, learner, source, method, samples, key })
    }

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own. Every object counts alike (for a
    /// density every sampled proposal), however many a share has.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// The branch, trained so far.
    pub fn into_branch(self) -> (Branch, ParamStore) {
        (self.branch, self.learner.into_store())
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::Config { name: self.method.key().into(), reason: reason.into() }
    }

    /// The paper's training step: the true boxes y_i, their samples, and the objective.
    fn confidence_loss(
        &self,
        head: &EnergyHead,
        features: &BoxFeatures,
        (proposal, num_samples, with_target): (&dyn Proposal, usize, bool),
        rng: &mut ebm_seed::Rng,
    ) -> Result<Tensor> {
        let y = features.targets()?.squeeze(1)?;
        Ok(if self.method == Method::Ebm {
            MonteCarloNll { proposal, num_samples }.loss(head, features, &y, rng)?
        } else {
            let quality = |y: &Tensor, y_i: &Tensor| features.quality(y, y_i).map_err(ebm_core::Error::model);
            QualityRegression { proposal, num_samples, with_target, quality }.loss(head, features, &y, rng)?
        })
    }

    fn true_boxes(&self, pyramid: &[Tensor], objects: &[Objects]) -> Result<BoxFeatures> {
        let (mut images, mut labels, mut boxes) = (vec![], vec![], Vec::<BBox>::new());
        for (image, (corners, classes)) in (0u32..).zip(objects) {
            images.extend(std::iter::repeat_n(image, corners.len()));
            labels.extend(classes.iter().map(|&class| class as u32));
            boxes.extend(corners);
        }
        BoxFeatures::new(pyramid, images, labels, &boxes, self.detector.config().convention.into())
    }
}

impl GradientTask for BranchTask {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let rng = |name: &str| self.key.split(name).index(step as u64).rng();
        let batch = match (&mut self.source, &self.branch) {
            (BranchSource::Images(source), _) => source.batch(step)?,
            (BranchSource::Foreground(source), Branch::Density(head)) => {
                let sample = source.sample(step, &mut rng("sample"))?;
                return Ok(Loss::mean_over(sample.sample_size, head.loss(&sample, &mut rng("latent"))?));
            }
            (BranchSource::Foreground(_), Branch::Confidence(_)) => {
                return Err(self.refuse("a confidence is trained on features, not on proposals"));
            }
        };
        let pyramid = match batch.maps.as_slice() {
            [] => self.detector.features(&batch.images.pixels, false)?,
            levels => levels.to_vec(),
        };
        match (&self.branch, &self.samples) {
            (Branch::Confidence(head), Some((proposal, num_samples, with_target))) => {
                let features = self.true_boxes(&pyramid, &batch.objects)?;
                let objective = (&**proposal, *num_samples, *with_target);
                let loss = self.confidence_loss(head, &features, objective, &mut rng("proposal"))?;
                Ok(Loss::mean_over(batch.objects.iter().map(|(boxes, _)| boxes.len()).sum(), loss))
            }
            (Branch::Density(head), _) => {
                let pools = self.detector.foreground(&pyramid, &batch.images, &batch.objects)?;
                let pools: Vec<&ForegroundPool> = pools.iter().collect();
                let sample = ForegroundPool::sample(&pools, &mut rng("sample"))?;
                Ok(Loss::mean_over(sample.sample_size, head.loss(&sample, &mut rng("latent"))?))
            }
            (Branch::Confidence(_), None) => Err(self.refuse("a confidence is trained with a proposal")),
        }
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

impl BoxFeatures {
    /// IoU of `y (B, M, 4)` with `y_i (B, 4)`, as continuous areas in either convention; `(B, M)`.
    fn quality(&self, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        let corners = self.continuous_corners(y)?;
        let target = self.continuous_corners(&y_i.unsqueeze(1)?)?.squeeze(1)?;
        Ok(paired_iou(&corners, &target)?)
    }
}
