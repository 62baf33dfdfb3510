//! A network in training.

use candle_core::DType;
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use ebm_train::{GradientTask, Group, Learner, Loss};

use super::{Batch, BatchSource};
use crate::config::TrainingConfig;
use crate::network::Network;
use crate::{Error, Result};

/// A [`Network`] in training, with its optimiser and its batches.
pub struct FaceTask<S> {
    network: Network,
    learner: Learner,
    source: S,
    key: Key,
}

impl<S: BatchSource> FaceTask<S> {
    /// Prepares the training of the trainable parameters of `store`, from which `network` was built.
    pub fn new(network: Network, store: ParamStore, source: S, config: &TrainingConfig, key: Key) -> Self {
        let updater = config.updater(store.trainable(), source.count());
        Self { network, learner: Learner::new(store, updater), source, key }
    }

    /// Makes this task one of the processes of `group`, with its share of each batch and its own random draws.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// Returns the mean loss over the images of `batches`, without training. Samples are drawn from `key`.
    ///
    /// # Errors
    /// As [`Network::loss`].
    pub fn validation_loss(&self, batches: &[Batch], key: Key) -> Result<f64> {
        let (mut sum, mut count) = (0.0, 0.0);
        for (number, batch) in (0u64..).zip(batches) {
            let images = batch.y.dim(0)? as f64;
            let loss = self.network.loss(&batch.x, &batch.y, false, &mut key.index(number).rng())?.detach();
            sum += images * loss.to_dtype(DType::F64)?.to_scalar::<f64>()?;
            count += images;
        }
        Ok(sum / count)
    }

    /// Returns the network in its present state, and its parameters.
    pub fn into_network(self) -> (Network, ParamStore) {
        (self.network, self.learner.into_store())
    }
}

impl<S: BatchSource> GradientTask for FaceTask<S> {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let batch = self.source.batch(step)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        Ok(self.network.loss(&batch.x, &batch.y, true, &mut rng)?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
