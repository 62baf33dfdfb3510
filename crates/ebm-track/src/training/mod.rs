//! Training of the box module on features of pairs of frames.

mod module;
mod pool;
mod stream;
mod task;
mod tracker_training;

pub(crate) use module::ModuleTraining;
pub(crate) use pool::{PoolSize, PooledPairs};
pub use stream::StreamPairs;
pub(crate) use stream::converted;
pub use task::BoxModuleTask;
pub use tracker_training::{TrackerData, TrackerTraining};

use candle_core::{Tensor, Var};
use ebm_experiment::config::settings_table;
use ebm_nn::schedule::{Decay, Schedule};
use ebm_ops::optim::{Adam, ParamGroup};
use ebm_train::Updater;

use crate::{BackboneFeatures, Result};

/// Features of B pairs of crops with one target each, computed by the backbone.
#[derive(Clone, Debug)]
pub struct PairFeatures {
    /// Features of the reference crops.
    pub reference: BackboneFeatures,
    /// Features of the test crops.
    pub test: BackboneFeatures,
    /// Boxes of the targets in the reference crops, `(B, 4)`: x, y, w, h in pixels of the crop.
    pub reference_boxes: Tensor,
    /// Boxes of the targets in the test crops, `(B, 4)`: x, y, w, h in pixels of the crop.
    pub test_boxes: Tensor,
}

/// A sequence of batches. The batch of a step depends on that step alone.
pub trait PairSource {
    /// Returns the batch of `step`.
    ///
    /// # Errors
    /// When an image cannot be read, or its features cannot be computed.
    fn batch(&mut self, step: usize) -> Result<PairFeatures>;
}

settings_table! {
    /// Adam with a learning rate that falls in steps.
    pub struct BoxTraining {
        /// Pairs per update.
        pub batch_size: usize where 2..=65_536 => "pairs",
        /// Pairs per epoch.
        pub pairs_per_epoch: usize where 1..=1_000_000_000 => "pairs",
        /// Number of epochs.
        pub epochs: usize where 1..=1_000_000,
        /// Learning rate of the first epoch.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Epochs between two falls of the learning rate.
        pub decay_epochs: usize where 0..=1_000_000 => "epochs",
        /// Factor by which the learning rate falls.
        pub decay: f64 where 1e-6..=1.0,
    }
}

impl BoxTraining {
    /// Returns the number of updates in an epoch, at least one.
    pub fn steps_per_epoch(&self) -> usize {
        self.pairs_per_epoch.checked_div(self.batch_size).unwrap_or(0).max(1)
    }

    /// Returns the total number of updates.
    pub fn steps(&self) -> usize {
        self.epochs * self.steps_per_epoch()
    }

    /// Returns the schedule of the learning rate, by step.
    pub fn schedule(&self) -> Schedule {
        let every = (self.decay_epochs * self.steps_per_epoch()) as u64;
        let decay = Decay::Step { every, gamma: self.decay };
        Schedule { base: self.learning_rate, warmup: None, decay }
    }

    /// Returns the optimiser of `params`.
    pub fn updater(&self, params: Vec<(String, Var)>) -> Updater {
        let adam = Adam::new(params, |_| ParamGroup::decay(0.0));
        Updater::new(Box::new(adam), self.schedule(), None)
    }
}
