//! Training of Faster-RCNN itself.

use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{GradientTask, Group, Learner, Loss};

use super::BatchSource;
use crate::{Error, Result, config::TrainingConfig, faster_rcnn::FasterRcnn};

/// Faster-RCNN under its four losses.
pub struct DetectorTask<S> {
    detector: FasterRcnn,
    learner: Learner,
    source: S,
    key: Key,
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
        Self { detector, learner: Learner::new(store, updater), source, key }
    }

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own.
    /// Every anchor and every proposal counts alike, however many a share has.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// The network's parameters.
    pub fn store(&self) -> &ParamStore {
        self.learner.store()
    }
}

impl<S: BatchSource> GradientTask for DetectorTask<S> {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let batch = self.source.batch(step)?;
        let pyramid = match batch.maps.as_slice() {
            [] => self.detector.features(&batch.images.pixels, true)?,
            stages => self.detector.pyramid(stages)?,
        };
        let mut rng = self.key.split("sample").index(step as u64).rng();
        Ok(self.detector.losses(&pyramid, &batch.images, &batch.objects, &mut rng)?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
