//! Training of detectors, of branches on a detector's frozen features, and of refiners.

mod branch;
mod detector;
mod options;
mod refiner;
mod source;

pub use branch::{BranchLoss, BranchSetup, BranchTask, BranchTraining};
pub use detector::{DetectorLoss, DetectorTask, DetectorTraining};
pub use ebm_experiment::{Run, Session, train};
pub use ebm_train::{Group, Progress, RunSpec};
pub(crate) use options::Batches;
pub use options::{ImageFiles, TrainingData, TrainingOptions};
pub use refiner::{RefinerLoss, RefinerTask, RefinerTraining};
pub use source::BatchSource;
pub(crate) use source::{CachedSource, MirroredMaps, StreamSource};

use candle_core::{Tensor, Var};
use ebm_base::Key;
use ebm_nn::schedule::{Decay, Schedule, Warmup};
use ebm_ops::optim::{Adam, Optimizer, ParamGroup, Sgd};
use ebm_train::{GradientTask, Learner, Loss, Updater};

use crate::config::{OptimizerKind, TrainingConfig};
use crate::feature_cache::CachedBatch;
use crate::{Error, Result};

const MOMENTUM: f64 = 0.9;

impl TrainingConfig {
    /// Returns the schedule of the learning rate.
    pub fn schedule(&self) -> Schedule {
        let milestones = self.milestones.iter().map(|&step| step as u64).collect();
        Schedule {
            base: self.learning_rate,
            warmup: Some(Warmup { steps: self.warmup_steps as u64, factor: self.warmup_factor }),
            decay: Decay::MultiStep { milestones, gamma: self.decay },
        }
    }

    /// Compresses or stretches the schedule to `steps` updates.
    pub fn set_steps(&mut self, steps: usize) {
        let before = self.steps.max(1);
        self.milestones.iter_mut().for_each(|milestone| *milestone = *milestone * steps / before);
        self.warmup_steps = self.warmup_steps.min(steps / 10);
        self.steps = steps;
    }

    /// Creates the configured optimiser of `params`.
    pub fn updater(&self, params: Vec<(String, Var)>) -> Updater {
        self.updater_by(params, |_| 1.0)
    }

    /// Creates the configured optimiser of `params`, with each parameter's learning rate multiplied by `factor` of its
    /// name.
    pub fn updater_by(&self, params: Vec<(String, Var)>, factor: impl Fn(&str) -> f64) -> Updater {
        let double_bias = ParamGroup::double_bias(self.weight_decay);
        let group = |name: &str| {
            let group = match self.optimizer {
                OptimizerKind::Sgd => double_bias(name),
                OptimizerKind::Adam => ParamGroup::decay(self.weight_decay),
            };
            ParamGroup { lr_multiplier: group.lr_multiplier * factor(name), ..group }
        };
        let optimizer: Box<dyn Optimizer> = match self.optimizer {
            OptimizerKind::Sgd => Box::new(Sgd::new(params, MOMENTUM, group)),
            OptimizerKind::Adam => Box::new(Adam::new(params, group)),
        };
        let max_norm = (self.gradient_clip > 0.0).then_some(self.gradient_clip);
        Updater::new(optimizer, self.schedule(), max_norm)
    }
}

/// Loss of a network that is trained on batches of a source.
pub trait StepLoss {
    /// Computes the loss of `step`, with random numbers derived from `key`.
    ///
    /// # Errors
    /// When an image cannot be read or an operation fails.
    fn at(&self, step: usize, source: &mut dyn BatchSource, key: Key) -> Result<Loss>;
}

/// Network in training.
pub struct Task<L> {
    /// Network with its loss.
    loss: L,
    source: Box<dyn BatchSource>,
    learner: Learner,
    key: Key,
}

impl<L> Task<L> {
    /// Returns the task of one process of `group`, with a share of each batch and its own random numbers. All terms of a
    /// loss (objects, anchors, proposals) have the same weight, even if the shares have different numbers of them.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }
}

impl<L: StepLoss> GradientTask for Task<L> {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        self.loss.at(step, self.source.as_mut(), self.key)
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

/// Computes the mean loss over all terms of the batches that hold an object. `loss` returns the mean loss of a batch
/// with its number of terms; batch i uses `key.index(i)`. Returns NaN without terms.
fn mean_loss(
    batches: impl Iterator<Item = Result<CachedBatch>>,
    key: Key,
    loss: impl Fn(&CachedBatch, Key) -> Result<(Tensor, usize)>,
) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for (number, batch) in (0u64..).zip(batches) {
        let batch = batch?;
        if batch.objects.iter().all(|of_image| of_image.boxes.is_empty()) {
            continue;
        }
        let (loss, terms) = loss(&batch, key.index(number))?;
        sum += terms as f64 * f64::from(loss.to_scalar::<f32>()?);
        count += terms;
    }
    Ok(sum / count as f64)
}
