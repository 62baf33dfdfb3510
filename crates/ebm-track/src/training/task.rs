//! The box module in training.

use candle_core::Tensor;
use ebm_core::{EnergyModel, MonteCarloNll, Objective, SquaredQualityRegression, TargetSpace};
use ebm_nn::boxes::paired_iou;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{GradientTask, Learner, Loss};
use rand::RngCore;

use super::{BoxTraining, PairFeatures, PairSource};
use crate::box_module::{BoxModule, BoxNetwork, InTraining, TargetFeatures};
use crate::method::{Method, MethodSettings};
use crate::{Error, Result};

/// A [`BoxModule`] under a method's loss. The backbone takes no part: it gave the features.
pub struct BoxModuleTask<S> {
    module: BoxModule,
    learner: Learner,
    source: S,
    method: Method,
    settings: MethodSettings,
    key: Key,
}

impl<S: PairSource> BoxModuleTask<S> {
    /// Trains the trainable parameters of `store`, from which `module` was built, in f32.
    pub fn new(
        module: BoxModule,
        store: ParamStore,
        source: S,
        (method, settings): (Method, &MethodSettings),
        training: &BoxTraining,
        key: Key,
    ) -> Self {
        let updater = training.updater(store.trainable());
        let learner = Learner::new(store, updater);
        Self { module, learner, source, method, settings: settings.clone(), key }
    }

    /// The module, trained so far, and its parameters.
    pub fn into_module(self) -> (BoxModule, ParamStore) {
        (self.module, self.learner.into_store())
    }
}

impl<S: PairSource> GradientTask for BoxModuleTask<S> {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let pairs = self.source.batch(step)?;
        let network = InTraining(&self.module);
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
        let test = network.test_features(&pairs.test, &modulation)?;
        let features = TargetFeatures::new(test, &pairs.test_boxes)?;
        let mut rng = self.key.split("proposal").index(step as u64).rng();
        let loss = loss(&network, &features, &pairs.test_boxes, (self.method, &self.settings), &mut rng)?;
        Ok(loss.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

/// The loss of a method on pairs, without training: normalisations by their running statistics.
///
/// # Errors
/// When shapes do not fit or a box has no extent.
pub fn frozen_loss(
    network: &impl BoxNetwork,
    pairs: &PairFeatures,
    (method, settings): (Method, &MethodSettings),
    rng: &mut dyn RngCore,
) -> Result<f64> {
    let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?;
    let test = network.test_features(&pairs.test, &modulation)?.detach();
    let features = TargetFeatures::new(test, &pairs.test_boxes)?;
    let loss = loss(network, &features, &pairs.test_boxes, (method, settings), rng)?;
    Ok(loss.to_dtype(candle_core::DType::F64)?.to_scalar()?)
}

/// The loss of a method: the true boxes `(B, 4)`, samples around them, and the objective.
fn loss<M: EnergyModel<Features = TargetFeatures>>(
    model: &M,
    features: &TargetFeatures,
    boxes: &Tensor,
    (method, settings): (Method, &MethodSettings),
    rng: &mut dyn RngCore,
) -> Result<Tensor> {
    let y = features.encode(&boxes.unsqueeze(1)?)?.squeeze(1)?;
    let (proposal, num_samples) = (settings.proposal.build()?, settings.samples);
    Ok(match method {
        Method::Ebm => MonteCarloNll { proposal, num_samples }.loss(model, features, &y, rng)?,
        Method::Atom | Method::AtomStar => {
            let quality = |y: &Tensor, y_i: &Tensor| overlap(features, y, y_i);
            SquaredQualityRegression { proposal, num_samples, quality }.loss(model, features, &y, rng)?
        }
    })
}

/// The IoU, `(B, M)`, of the boxes `y (B, M, 4)` with `y_i (B, 4)`.
fn overlap(features: &TargetFeatures, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
    let space = features.space();
    let target = space.decode(&y_i.unsqueeze(1)?)?.squeeze(1)?;
    paired_iou(&space.decode(y)?, &target).map_err(ebm_core::Error::model)
}
