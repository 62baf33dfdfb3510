//! The box module in training.

use candle_core::Tensor;
use candle_core::backprop::GradStore;
use ebm_core::{AnyObjective, EnergyModel, Objective, Proposal};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{BoxError, CheckpointData, RunningStatistics, StepReport, TrainTask, Updater};
use rand::RngCore;

use super::{BoxTraining, PairFeatures, PairSource};
use crate::Result;
use crate::box_module::{BoxModule, BoxNetwork, InTraining, TargetFeatures};

type BuiltObjective = AnyObjective<Box<dyn Proposal>>;

/// A [`BoxModule`] under its objective. The backbone takes no part: it gave the features.
pub struct BoxModuleTask<S> {
    module: BoxModule,
    store: ParamStore,
    source: S,
    objective: BuiltObjective,
    updater: Updater,
    running: RunningStatistics,
    key: Key,
}

/// Gradients, and the running statistics after the step.
pub struct Update {
    gradients: GradStore,
    statistics: Vec<Tensor>,
}

impl<S: PairSource> BoxModuleTask<S> {
    /// Trains the trainable parameters of `store`, from which `module` was built, in f32, by `objective`.
    ///
    /// # Errors
    /// When the objective's proposal is not possible.
    pub fn new(
        module: BoxModule,
        store: ParamStore,
        source: S,
        objective: &AnyObjective,
        training: &BoxTraining,
        key: Key,
    ) -> Result<Self> {
        let objective = objective.build(&mut key.split("pool").rng())?;
        let updater = training.updater(store.trainable());
        let running = RunningStatistics::of(&store);
        Ok(Self { module, store, source, objective, updater, running, key })
    }

    /// The module, trained so far, and its parameters.
    pub fn into_module(self) -> (BoxModule, ParamStore) {
        (self.module, self.store)
    }

    fn compute(&mut self, step: usize) -> Result<(StepReport, Update)> {
        let pairs = self.source.batch(step)?;
        let ((report, gradients), statistics) = self.running.aside(|| self.gradients(&pairs, step))?;
        Ok((report, Update { gradients, statistics }))
    }

    fn gradients(&self, pairs: &PairFeatures, step: usize) -> Result<(StepReport, GradStore)> {
        let network = InTraining(&self.module);
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
        let test = network.test_features(&pairs.test, &modulation)?;
        let features = TargetFeatures::new(test, &pairs.test_boxes)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let loss = loss(&network, &features, &pairs.test_boxes, &self.objective, &mut rng)?;
        Ok(self.updater.gradients(&loss, step)?)
    }
}

/// The loss of an objective on pairs, without training: normalisations by their running statistics.
///
/// # Errors
/// When shapes do not fit or a box has no extent.
pub fn frozen_loss(
    network: &impl BoxNetwork,
    pairs: &PairFeatures,
    objective: &AnyObjective,
    rng: &mut dyn RngCore,
) -> Result<f64> {
    let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
    let test = network.test_features(&pairs.test, &modulation)?.detach();
    let features = TargetFeatures::new(test, &pairs.test_boxes)?;
    let objective = objective.build(rng)?;
    let loss = loss(network, &features, &pairs.test_boxes, &objective, rng)?;
    Ok(loss.to_dtype(candle_core::DType::F64)?.to_scalar()?)
}

/// The loss: the true boxes `(B, 4)`, samples around them, and the objective.
fn loss<M: EnergyModel<Features = TargetFeatures>>(
    model: &M,
    features: &TargetFeatures,
    boxes: &Tensor,
    objective: &BuiltObjective,
    rng: &mut dyn RngCore,
) -> Result<Tensor> {
    let y = features.encode(&boxes.unsqueeze(1)?)?.squeeze(1)?;
    Ok(objective.loss(model, features, &y, rng)?)
}

impl<S: PairSource> TrainTask for BoxModuleTask<S> {
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
