//! A network in training.

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use ebm_nn::import::LoadPolicy;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{BoxError, CheckpointData, StepReport, TrainTask, Updater};

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
    /// Running statistics: a step moves them, and only an applied step may.
    buffers: Vec<Var>,
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
        let is_buffer = |name: &String| name.ends_with(".running_mean") || name.ends_with(".running_var");
        let names = store.names();
        let buffers =
            names.iter().filter(|name| is_buffer(name)).filter_map(|name| store.var(name)).collect();
        Self { network, buffers, store, source, updater, key }
    }

    /// The network, trained so far, and its parameters.
    pub fn into_network(self) -> (Network, ParamStore) {
        (self.network, self.store)
    }

    fn statistics(&self) -> Result<Vec<Tensor>> {
        self.buffers.iter().map(|buffer| Ok(buffer.as_detached_tensor().copy()?)).collect()
    }

    fn set_statistics(&self, values: &[Tensor]) -> Result<()> {
        for (buffer, value) in self.buffers.iter().zip(values) {
            buffer.set(value)?;
        }
        Ok(())
    }

    fn compute(&mut self, step: usize) -> Result<(StepReport, Update)> {
        let batch = self.source.batch(step)?;
        let before = self.statistics()?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let loss = self.network.loss(&batch.x, &batch.y, &mut rng)?;
        let (report, gradients) = self.updater.gradients(&loss, step)?;
        let statistics = self.statistics()?;
        self.set_statistics(&before)?;
        Ok((report, Update { gradients, statistics }))
    }
}

impl<S: BatchSource> TrainTask for FaceTask<S> {
    type Update = Update;

    fn step(&mut self, step: usize) -> std::result::Result<(StepReport, Update), BoxError> {
        Ok(self.compute(step)?)
    }

    fn apply(&mut self, step: usize, update: Update) -> std::result::Result<(), BoxError> {
        self.set_statistics(&update.statistics)?;
        Ok(self.updater.apply(step, &update.gradients)?)
    }

    fn state(&self) -> std::result::Result<CheckpointData, BoxError> {
        Ok(CheckpointData { model: self.store.tensors()?, optimizer: self.updater.state()? })
    }

    fn restore(&mut self, data: CheckpointData) -> std::result::Result<(), BoxError> {
        self.store.load(&data.model, LoadPolicy::STRICT)?;
        Ok(self.updater.load_state(&data.optimizer)?)
    }
}
