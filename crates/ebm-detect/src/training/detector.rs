//! Training of Faster-RCNN itself.

use candle_core::{Tensor, backprop::GradStore};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{BoxError, CheckpointData, Group, RunningStatistics, StepReport, TrainTask, Updater};

use super::BatchSource;
use crate::{
    config::TrainingConfig,
    error::Result,
    faster_rcnn::{DetectorLosses, FasterRcnn},
    feature_cache::CachedBatch,
};

/// Faster-RCNN under its four losses.
pub struct DetectorTask<S> {
    detector: FasterRcnn,
    running: RunningStatistics,
    store: ParamStore,
    source: S,
    updater: Updater,
    key: Key,
}

/// Gradients, and the running statistics after the step.
pub struct Update {
    gradients: GradStore,
    statistics: Vec<Tensor>,
}

impl<S: BatchSource> DetectorTask<S> {
    /// Trains the trainable parameters of `store`, which `detector` was built from.
    ///
    /// Batches with maps are taken to hold the stages C2 … C5 of a frozen body.
    pub fn new(
        detector: FasterRcnn,
        store: ParamStore,
        source: S,
        config: &TrainingConfig,
        key: Key,
    ) -> Self {
        let updater = config.updater(store.trainable());
        let running = RunningStatistics::of(&store);
        Self { detector, running, store, source, updater, key }
    }

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own. Every anchor and every proposal
    /// counts alike, however many a share has.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        let (updater, running) = (self.updater.over(group), self.running.over(group));
        Self { updater, running, key: group.key(self.key), ..self }
    }

    /// The network, trained so far.
    pub fn into_detector(self) -> FasterRcnn {
        self.detector
    }

    fn compute(&mut self, step: usize) -> Result<(StepReport, Update)> {
        let batch = self.source.batch(step)?;
        let gradients = || -> Result<_> {
            let losses = self.losses(&batch, step)?;
            let weights = self.updater.weights(losses.terms)?;
            let losses = losses.weighted(weights)?;
            Ok(self.updater.gradients_with(&losses.total()?, &losses.named(), step)?)
        };
        let ((report, gradients), statistics) = self.running.aside(gradients)?;
        Ok((report, Update { gradients, statistics }))
    }

    fn losses(&self, batch: &CachedBatch, step: usize) -> Result<DetectorLosses> {
        let pyramid = match batch.maps.as_slice() {
            [] => self.detector.features(&batch.images.pixels, true)?,
            stages => self.detector.pyramid(stages)?,
        };
        let mut rng = self.key.split("sample").index(step as u64).rng();
        self.detector.losses(&pyramid, &batch.images, &batch.objects, &mut rng)
    }
}

impl<S: BatchSource> TrainTask for DetectorTask<S> {
    type Update = Update;

    fn step(&mut self, step: usize) -> std::result::Result<(StepReport, Update), BoxError> {
        Ok(self.compute(step)?)
    }

    fn apply(&mut self, step: usize, update: Update) -> std::result::Result<(), BoxError> {
        self.running.set(&update.statistics)?;
        Ok(self.updater.apply(step, &update.gradients)?)
    }

    fn state(&self) -> std::result::Result<CheckpointData, BoxError> {
        Ok(self.updater.checkpoint(&self.store)?)
    }

    fn restore(&mut self, data: CheckpointData) -> std::result::Result<(), BoxError> {
        Ok(self.updater.restore(&self.store, &data)?)
    }
}
