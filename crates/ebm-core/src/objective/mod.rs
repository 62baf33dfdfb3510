//! Training objectives: Eq. 4 and its rivals.

mod config;
mod contrastive;
mod likelihood;
mod monte_carlo_nll;
mod quality_regression;
mod score_matching;
mod weighted;

use candle_core::Tensor;
use rand::RngCore;

pub use config::{AnyObjective, AnyProposal};
pub use contrastive::{InfoNce, JointNce, NoiseContrastive, NoiseContrastivePlus};
pub use likelihood::{KullbackLeibler, LangevinNll, SelfNormalized};
pub use monte_carlo_nll::MonteCarloNll;
pub use quality_regression::{QualityRegression, SquaredQualityRegression};
pub use score_matching::{DenoisingScoreMatching, Derivatives, Directions, ScoreMatching};

use crate::model::checked_score;
use crate::{EnergyModel, Result};

/// A model and a batch of B pairs (x_i, y_i) to train it on.
pub struct Batch<'a, M: EnergyModel> {
    /// f.
    pub model: &'a M,
    /// Features of the inputs x_i.
    pub features: &'a M::Features,
    /// Targets y_i, `(B, D)`.
    pub y: &'a Tensor,
}

impl<M: EnergyModel> Batch<'_, M> {
    /// Returns f at the candidates `y`, `(B, M, D)`, after a check of its shape.
    fn score(&self, y: &Tensor) -> Result<Tensor> {
        checked_score(self.model, self.features, y)
    }
}

/// A loss for an energy model.
pub trait Objective {
    /// Returns the scalar loss, the mean over a batch of B inputs with their targets `y`, shape `(B, D)`. The
    /// gradient reaches the model's parameters and the features, but neither the targets nor the samples.
    ///
    /// Scores are not checked: a NaN among them makes the loss NaN. The training loop must check the loss before
    /// the update.
    ///
    /// # Errors
    /// If the batch is empty, a target is not finite, the shapes do not fit, or the model fails.
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        self.batch_loss(&Batch { model, features, y }, rng)
    }

    /// Computes [`loss`](Self::loss).
    ///
    /// # Errors
    /// The errors of [`loss`](Self::loss).
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor>;
}
