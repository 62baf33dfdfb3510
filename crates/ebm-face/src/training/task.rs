//! A network in training.

use candle_core::Tensor;
use candle_core::backprop::GradStore;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{BoxError, CheckpointData, RunningStatistics, StepReport, TrainTask, Updater};

use super::BatchSource;
use crate::Result;
use crate::config::TrainingConfig;
use crate::network::Network;

/// A [`Network`] under its loss.
pub struct FaceTask<S> {
    network: Network,
    store: ParamStore,
    source: S,
    updater: Updater,
    running: RunningStatistics,
    key: Key,
}

/// Gradients, and the running statistics after the step.
pub struct Update {
    gradients: GradStore,
    statistics: Vec<Tensor>,
}

impl<S: BatchSource> FaceTask<S> {
    /// Trains the trainable parameters of `store`, from which `network` was built.
    pub fn new(network: Network, store: ParamStore, source: S, config: &TrainingConfig, key: Key) -> Self {
        let updater = config.updater(store.trainable(), source.len());
        let running = RunningStatistics::of(&store);
        Self { network, running, store, source, updater, key }
    }

    /// The network, trained so far, and its parameters.
    pub fn into_network(self) -> (Network, ParamStore) {
        (self.network, self.store)
    }

    fn compute(&mut self, step: usize) -> Result<(StepReport, Update)> {
        let batch = self.source.batch(step)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let gradients = || -> Result<_> {
            let loss = self.network.loss(&batch.x, &batch.y, &mut rng)?;
            Ok(self.updater.gradients(&loss, step)?)
        };
        let ((report, gradients), statistics) = self.running.aside(gradients)?;
        Ok((report, Update { gradients, statistics }))
    }
}

impl<S: BatchSource> TrainTask for FaceTask<S> {
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
