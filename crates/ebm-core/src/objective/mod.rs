//! What a network is trained to minimise: Eq. 4 and its rival.

mod monte_carlo_nll;
mod quality_regression;

use candle_core::Tensor;
use rand::RngCore;

pub use monte_carlo_nll::MonteCarloNll;
pub use quality_regression::QualityRegression;

use crate::{EnergyModel, Proposal, Result, check};

/// A loss for an energy model.
pub trait Objective {
    /// The scalar loss, the mean over a batch of B inputs with their targets `y`, shape `(B, D)`. Its gradient
    /// reaches the model's parameters and the features, but neither the targets nor the samples.
    ///
    /// # Errors
    /// When the batch is empty, a target is not finite, the shapes do not fit, or the model fails.
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor>;
}

/// The M samples `(B, M, D)` of `q(y | y_i)`, and the same with the target before them as column 0,
/// `(B, 1 + M, D)`: one forward pass serves both terms of a loss.
fn samples_after_target(
    proposal: &impl Proposal,
    num_samples: usize,
    y: &Tensor,
    rng: &mut dyn RngCore,
) -> Result<(Tensor, Tensor)> {
    let (batch, dim) = check::dims2("the target y", y)?;
    check::finite("the target y", y)?;
    let samples = proposal.sample(y, num_samples, rng)?.detach();
    check::dims("the result of Proposal::sample", &samples, "(B, M, D)", &[batch, num_samples, dim])?;
    let candidates = Tensor::cat(&[&y.unsqueeze(1)?, &samples], 1)?;
    Ok((samples, candidates))
}
