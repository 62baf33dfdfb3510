//! Training of the detector and of the confidence branch.

use serde::{Deserialize, Serialize};

/// An optimiser with its schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingConfig {
    /// Updates.
    pub steps: usize,
    /// Images per update.
    pub batch_size: usize,
    /// `sgd` (momentum 0.9, biases at twice the rate and without decay) or `adam`.
    pub optimizer: OptimizerKind,
    /// Base learning rate.
    pub learning_rate: f64,
    /// Weight decay, coupled.
    pub weight_decay: f64,
    /// Linear warm-up over so many steps …
    pub warmup_steps: usize,
    /// … from this share of the base rate.
    pub warmup_factor: f64,
    /// Steps at which the rate is multiplied by `decay`.
    pub milestones: Vec<usize>,
    /// See `milestones`.
    pub decay: f64,
    /// Upper bound of the gradient's norm; 0 for none.
    pub gradient_clip: f64,
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
