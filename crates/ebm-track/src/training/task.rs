//! The box module in training.

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::{AnyObjective, EnergyModel, Objective, Proposal};
use ebm_nn::params::ParamStore;
use ebm_train::{GradientTask, Group, Learner, Loss};
use rand::RngCore;

use super::{BoxTraining, PairFeatures, PairSource};
use crate::box_module::{BoxModule, BoxNetwork, InTraining, TargetFeatures};
use crate::{Error, Result};

type BuiltObjective = AnyObjective<Box<dyn Proposal>>;

/// A [`BoxModule`] under its objective. The backbone takes no part: it gave the features.
pub struct BoxModuleTask {
    module: BoxModule,
    learner: Learner,
    source: Box<dyn PairSource>,
    objective: BuiltObjective,
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
            let modulation = self.module.modulation(&pairs.reference, &pairs.reference_boxes)?;
            let test = self.module.test_features(&pairs.test, &modulation)?.detach();
            let features = TargetFeatures::new(test, &pairs.test_boxes)?;
            let mut rng = key.index(number).rng();
            let loss = loss(&self.module, &features, &pairs.test_boxes, &self.objective, &mut rng)?;
            sum += loss.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        }
        Ok(sum / batches.len() as f64)
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
        let network = InTraining(&self.module);
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
        let test = network.test_features(&pairs.test, &modulation)?;
        let features = TargetFeatures::new(test, &pairs.test_boxes)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let loss = loss(&network, &features, &pairs.test_boxes, &self.objective, &mut rng)?;
        Ok(loss.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
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
