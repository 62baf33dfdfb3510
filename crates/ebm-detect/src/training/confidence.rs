//! Training of the confidence branch on frozen features: Eq. 4 for the energy model, the IoU for IoU-Net*.

use std::rc::Rc;

use candle_core::{Tensor, backprop::GradStore};
use ebm_core::{MonteCarloNll, Objective, QualityRegression};
use ebm_nn::{
    boxes::{BBox, paired_iou},
    import::LoadPolicy,
    params::ParamStore,
};
use ebm_seed::Key;
use ebm_train::{BoxError, CheckpointData, StepReport, TrainTask, Updater};

use super::BatchSource;
use crate::{
    config::ConfidenceConfig,
    energy_head::{BoxFeatures, EnergyHead},
    error::{Error, Result},
    faster_rcnn::{FasterRcnn, Objects},
    method::Method,
};

/// The branch under its objective; the detector only provides features.
pub struct ConfidenceTask<S> {
    detector: Rc<FasterRcnn>,
    head: EnergyHead,
    store: ParamStore,
    source: S,
    method: Method,
    config: ConfidenceConfig,
    updater: Updater,
    key: Key,
}

impl<S: BatchSource> ConfidenceTask<S> {
    /// Trains `head`, built from `store`, whose trainable parameters are the branch's alone.
    ///
    /// Batches with maps are taken to hold the pyramid P2 … P6.
    pub fn new(
        detector: Rc<FasterRcnn>,
        head: EnergyHead,
        store: ParamStore,
        source: S,
        (method, config): (Method, &ConfidenceConfig),
        key: Key,
    ) -> Self {
        let updater = config.training.updater(store.trainable());
        Self { detector, head, store, source, method, config: config.clone(), updater, key }
    }

    /// The branch, trained so far.
    pub fn into_head(self) -> EnergyHead {
        self.head
    }

    fn step_loss(&mut self, step: usize) -> Result<Tensor> {
        let batch = self.source.batch(step)?;
        let pyramid = match batch.maps.as_slice() {
            [] => self.detector.features(&batch.images.pixels, false)?,
            levels => levels.to_vec(),
        };
        let features = self.true_boxes(&pyramid, &batch.objects)?;
        self.loss(&features, step)
    }

    /// The paper's training step: the true boxes y_i, their samples, and the objective.
    fn loss(&self, features: &BoxFeatures, step: usize) -> Result<Tensor> {
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let y = features.targets()?.squeeze(1)?;
        let (proposal, num_samples) = (self.config.proposal()?, self.config.samples);
        let loss = match self.method {
            Method::Ebm => {
                MonteCarloNll { proposal, num_samples }.loss(&self.head, features, &y, &mut rng)?
            }
            Method::IouNetStar => {
                let quality =
                    |y: &Tensor, y_i: &Tensor| features.quality(y, y_i).map_err(ebm_core::Error::model);
                QualityRegression { proposal, num_samples, quality }
                    .loss(&self.head, features, &y, &mut rng)?
            }
            Method::Direct => {
                return Err(Error::Config {
                    name: "method".into(),
                    reason: "direct has no confidence branch".into(),
                });
            }
        };
        Ok(loss)
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

impl<S: BatchSource> TrainTask for ConfidenceTask<S> {
    type Update = GradStore;

    fn step(&mut self, step: usize) -> std::result::Result<(StepReport, GradStore), BoxError> {
        let loss = self.step_loss(step)?;
        Ok(self.updater.gradients(&loss, step)?)
    }

    fn apply(&mut self, step: usize, gradients: GradStore) -> std::result::Result<(), BoxError> {
        Ok(self.updater.apply(step, &gradients)?)
    }

    fn state(&self) -> std::result::Result<CheckpointData, BoxError> {
        Ok(CheckpointData { model: self.store.tensors()?, optimizer: self.updater.state()? })
    }

    fn restore(&mut self, data: CheckpointData) -> std::result::Result<(), BoxError> {
        self.store.load(&data.model, LoadPolicy::STRICT)?;
        Ok(self.updater.load_state(&data.optimizer)?)
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
