//! Training of the detector and of the confidence branch.

use ebm_core::{GaussianMixture, GradientAscent, IouStratified, Proposal, StepRule};
use ebm_seed::Key;
use serde::{Deserialize, Serialize};

use crate::{
    energy_head::Coordinates,
    error::{Error, Result},
    inference::BoxAscent,
};

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

/// The confidence branch: its proposal, its training and its refinement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceConfig {
    /// Where the boxes that are trained on come from.
    pub proposal: ProposalConfig,
    /// M of Eq. 4, without the true box.
    pub samples: usize,
    /// In which coordinates the boxes climb.
    pub coordinates: Coordinates,
    /// T of Algorithm S1.
    pub steps_per_ascent: usize,
    /// λ of Algorithm S1 for position and for size; for edges, of the upper left and of the lower right corner.
    pub step_length: [f64; 2],
    /// η of Algorithm S1.
    pub step_decay: f64,
    /// Training of the branch alone.
    pub training: TrainingConfig,
}

/// A proposal by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProposalConfig {
    /// Eq. 5.
    Gaussian {
        /// σ_l, the same for all four coordinates.
        sigmas: Vec<f64>,
    },
    /// IoU-Net's: boxes spread evenly over their overlap with the true box.
    IouStratified {
        /// How many boxes they are drawn from.
        pool: usize,
    },
}

impl ProposalConfig {
    /// Eq. 5, which has a density.
    ///
    /// # Errors
    /// For IoU-Net's, which has none, and for standard deviations that are not positive.
    pub fn gaussian(&self) -> Result<GaussianMixture> {
        match self {
            Self::Gaussian { sigmas } => Ok(GaussianMixture::isotropic(sigmas, 4)?),
            Self::IouStratified { .. } => Err(Error::Config {
                name: "proposal".into(),
                reason: "IoU-Net's proposal has no density; give sigmas".into(),
            }),
        }
    }

    /// The distribution; `key` decides what IoU-Net's pool holds.
    pub fn build(&self, key: Key) -> Result<Box<dyn Proposal>> {
        Ok(match self {
            Self::Gaussian { .. } => Box::new(self.gaussian()?),
            Self::IouStratified { pool } => Box::new(IouStratified::new(*pool, &mut key.rng())?),
        })
    }
}

impl ConfidenceConfig {
    /// Algorithm S1.
    pub fn ascent(&self) -> BoxAscent {
        let [position, size] = self.step_length;
        let ascent = GradientAscent {
            steps: self.steps_per_ascent,
            step_length: vec![position, position, size, size],
            decay: self.step_decay,
            rule: StepRule::Backtracking,
        };
        BoxAscent { ascent, coordinates: self.coordinates }
    }
}
