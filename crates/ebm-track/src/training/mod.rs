//! Training of the box module on features of pairs of frames.

mod module;
mod own;
mod pool;
mod source;
mod stream;
mod task;

pub use module::ModuleTraining;
pub use own::{TrackerData, TrackerTraining};
pub use pool::{PoolSize, PooledPairs};
pub use source::{PairFeatures, PairSource};
pub use stream::StreamPairs;
pub(crate) use stream::converted;
pub use task::BoxModuleTask;

use candle_core::Var;
use ebm_experiment::config::settings;
use ebm_nn::optim::{Adam, ParamGroup};
use ebm_nn::schedule::{Decay, Schedule};
use ebm_train::Updater;
use serde::{Deserialize, Serialize};

settings! {
    /// Adam with a rate that falls in steps.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct BoxTraining {
        /// Pairs per update.
        pub batch_size: usize where 2..=65_536 => "pairs",
        /// Pairs per epoch.
        pub pairs_per_epoch: usize where 1..=1_000_000_000 => "pairs",
        /// Epochs.
        pub epochs: usize where 1..=1_000_000,
        /// The learning rate of the first epoch.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Epochs between two falls of the learning rate …
        pub decay_epochs: usize where 0..=1_000_000 => "epochs",
        /// … by this factor.
        pub decay: f64 where 1e-6..=1.0,
    }
}

impl BoxTraining {
    /// ATOM's, and the paper's.
    pub fn paper() -> Self {
        Self {
            batch_size: 64,
            pairs_per_epoch: 64_000,
            epochs: 50,
            learning_rate: 1e-3,
            decay_epochs: 15,
            decay: 0.2,
        }
    }

    /// Updates in an epoch, at least one.
    pub fn steps_per_epoch(&self) -> usize {
        self.pairs_per_epoch.checked_div(self.batch_size).unwrap_or(0).max(1)
    }

    /// Updates in all.
    pub fn steps(&self) -> usize {
        self.epochs * self.steps_per_epoch()
    }

    /// The learning rate by step.
    pub fn schedule(&self) -> Schedule {
        let every = (self.decay_epochs * self.steps_per_epoch()) as u64;
        let decay = Decay::Step { every, gamma: self.decay };
        Schedule { base: self.learning_rate, warmup: None, decay }
    }

    /// The optimiser over `params`.
    pub fn updater(&self, params: Vec<(String, Var)>) -> Updater {
        let adam = Adam::new(params, |_| ParamGroup::decay(0.0));
        Updater::new(Box::new(adam), self.schedule(), None)
    }
}
