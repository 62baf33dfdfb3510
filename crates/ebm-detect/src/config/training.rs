//! Training of the detector and of the confidence branch.

use ebm_experiment::config::{Setting, settings};
use serde::{Deserialize, Serialize};

settings! {
    /// An optimiser with its schedule.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TrainingConfig {
        /// Updates.
        pub steps: usize where 1..=1_000_000_000,
        /// Images per update.
        pub batch_size: usize where 1..=65_536 => "images",
        /// `sgd` (momentum 0.9, biases at twice the rate and without decay) or `adam`.
        pub optimizer: OptimizerKind,
        /// Base learning rate.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Weight decay, coupled.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Linear warm-up over so many steps …
        pub warmup_steps: usize where 0..=1_000_000_000,
        /// … from this share of the base rate.
        pub warmup_factor: f64 where 0.0..=1.0,
        /// Steps at which the rate is multiplied by `decay`.
        pub milestones: Vec<usize> where 0..=10_000_000_000 => "steps",
        /// See `milestones`.
        pub decay: f64 where 1e-6..=1.0,
        /// Upper bound of the gradient's norm; 0 for none.
        pub gradient_clip: f64 where 0.0..=1e6,
    }
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// SGD with momentum 0.9.
    Sgd,
    /// Adam.
    Adam,
}

impl Setting for OptimizerKind {}
