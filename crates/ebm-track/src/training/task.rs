//! A box module in training.

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_nn::params::ParamStore;
use ebm_train::{GradientTask, Group, Learner, Loss};
use rand::RngCore;

use super::{BoxTraining, PairFeatures, PairSource};
use crate::box_module::{BoxModule, BoxNetwork, TargetFeatures};
use crate::{Error, Result};

/// A [`BoxModule`] in training, with its objective and optimiser. The backbone is frozen and not part of it.
pub struct BoxModuleTask {
    module: BoxModule,
    learner: Learner,
    source: Box<dyn PairSource>,
    objective: AnyObjective<Box<dyn Proposal>>,
    key: Key,
}

impl BoxModuleTask {
    /// Prepares the training by `objective` of the trainable parameters of `store`, from which `module` was built in f32.
    ///
    /// # Errors
    /// When the proposal of the objective is invalid.
    pub fn new(
        module: BoxModule,
        store: ParamStore,
        source: Box<dyn PairSource>,
        objective: &AnyObjective,
        training: &BoxTraining,
        key: Key,
    ) -> Result<Self> {
        let objective = objective.build(&mut key.split("pool").rng())?;
        let updater = training.updater(store.trainable());
        Ok(Self { module, learner: Learner::new(store, updater), source, objective, key })
    }

    /// Makes this task one of the processes of `group`, with its share of each batch and its own random draws.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// Returns the mean loss of `batches` without training. Normalisations use their running statistics, and samples
    /// are drawn from `key`.
    ///
    /// # Errors
    /// When shapes do not fit or a box has no extent.
    pub fn validation_loss(&self, batches: &[PairFeatures], key: Key) -> Result<f64> {
        let mut sum = 0.0;
        for (number, pairs) in (0u64..).zip(batches) {
            let loss = self.loss_of(&self.module, pairs, &mut key.index(number).rng())?.detach();
            sum += loss.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        }
        Ok(sum / batches.len() as f64)
    }

    /// Returns the loss of `network`, in training or not, for `pairs`. The objective samples around the true boxes.
    fn loss_of(&self, network: &BoxModule, pairs: &PairFeatures, rng: &mut dyn RngCore) -> Result<Tensor> {
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
        let test = network.test_features(&pairs.test, &modulation)?;
        let features = TargetFeatures::new(test, &pairs.test_boxes)?;
        let y = features.encode(&pairs.test_boxes.unsqueeze(1)?)?.squeeze(1)?;
        Ok(self.objective.loss(network, &features, &y, rng)?)
    }

    /// Returns the module in its present state.
    pub fn module(&self) -> &BoxModule {
        &self.module
    }
}

impl GradientTask for BoxModuleTask {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let pairs = self.source.batch(step)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        Ok(self.loss_of(&self.module.in_training(), &pairs, &mut rng)?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
