//! The box module in training.

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_nn::params::ParamStore;
use ebm_train::{GradientTask, Group, Learner, Loss};
use rand::RngCore;

use super::{BoxTraining, PairFeatures, PairSource};
use crate::box_module::{BoxModule, BoxNetwork, TargetFeatures};
use crate::{Error, Result};

/// A [`BoxModule`] under its objective. The backbone takes no part: it gave the features.
pub struct BoxModuleTask {
    module: BoxModule,
    learner: Learner,
    source: Box<dyn PairSource>,
    objective: AnyObjective<Box<dyn Proposal>>,
    key: Key,
}

impl BoxModuleTask {
    /// Trains the trainable parameters of `store`, from which `module` was built, in f32, by `objective`.
    ///
    /// # Errors
    /// When the objective's proposal is not possible.
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

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// The mean loss of `batches` without training, normalisations by their running statistics; samples are drawn
    /// from `key`.
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

    /// The loss of `network`, the module as it is or in training: samples around the true boxes, and the objective.
    fn loss_of(&self, network: &BoxModule, pairs: &PairFeatures, rng: &mut dyn RngCore) -> Result<Tensor> {
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
        let test = network.test_features(&pairs.test, &modulation)?;
        let features = TargetFeatures::new(test, &pairs.test_boxes)?;
        let y = features.encode(&pairs.test_boxes.unsqueeze(1)?)?.squeeze(1)?;
        Ok(self.objective.loss(network, &features, &y, rng)?)
    }

    /// The module, trained so far.
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
