//! A network in training.

use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{GradientTask, Learner, Loss};

use super::BatchSource;
use crate::config::TrainingConfig;
use crate::network::Network;
use crate::{Error, Result};

/// A [`Network`] under its loss.
pub struct FaceTask<S> {
    network: Network,
    learner: Learner,
    source: S,
    key: Key,
}

impl<S: BatchSource> FaceTask<S> {
    /// Trains the trainable parameters of `store`, from which `network` was built.
    pub fn new(network: Network, store: ParamStore, source: S, config: &TrainingConfig, key: Key) -> Self {
        let updater = config.updater(store.trainable(), source.len());
        Self { network, learner: Learner::new(store, updater), source, key }
    }

    /// The network, trained so far, and its parameters.
    pub fn into_network(self) -> (Network, ParamStore) {
        (self.network, self.learner.into_store())
    }
}

impl<S: BatchSource> GradientTask for FaceTask<S> {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let batch = self.source.batch(step)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        Ok(self.network.loss(&batch.x, &batch.y, &mut rng)?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
