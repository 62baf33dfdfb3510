//! Training of the detector and, on its frozen features, of what a method adds.

mod branch;
mod detector;
mod mirrored;
mod refiner;
mod source;

pub use branch::BranchTask;
pub use detector::DetectorTask;
pub use mirrored::{MapOrder, MirroredMaps, each_image};
pub use refiner::{RefinerSource, RefinerTask};
pub use source::{BatchSource, BranchSource, CachedSource, ForegroundSource, StreamSource};

use candle_core::Var;
use ebm_nn::{
    optim::{Adam, Optimizer, ParamGroup, Sgd},
    schedule::{Decay, Schedule, Warmup},
};
use ebm_train::Updater;

use crate::config::{OptimizerKind, TrainingConfig};

const MOMENTUM: f64 = 0.9;

impl TrainingConfig {
    /// The learning rate by step.
    pub fn schedule(&self) -> Schedule {
        let milestones = self.milestones.iter().map(|&step| step as u64).collect();
        Schedule {
            base: self.learning_rate,
            warmup: Some(Warmup { steps: self.warmup_steps as u64, factor: self.warmup_factor }),
            decay: Decay::MultiStep { milestones, gamma: self.decay },
        }
    }

    /// The same schedule compressed or stretched to `steps` updates.
    pub fn set_steps(&mut self, steps: usize) {
        let before = self.steps.max(1);
        self.milestones.iter_mut().for_each(|milestone| *milestone = *milestone * steps / before);
        self.warmup_steps = self.warmup_steps.min(steps / 10);
        self.steps = steps;
    }

    /// The configured optimiser over `params`.
    pub fn updater(&self, params: Vec<(String, Var)>) -> Updater {
        self.updater_by(params, |_| 1.0)
    }

    /// The same with the learning rate of each parameter multiplied by what `factor` says of its name.
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
