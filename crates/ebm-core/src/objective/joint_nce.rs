//! NCE with a proposal that learns from the model.

use candle_core::Tensor;
use rand::RngCore;

use super::weighted::Candidates;
use super::{Objective, log_of_rank};
use crate::math::log_mean_exp;
use crate::parametric::GaussianMixtureDensity;
use crate::{EnergyModel, Result};

/// The joint training of an energy model and its proposal (Gustafsson et al., AISTATS 2022): NCE with samples
/// of a mixture density network `q(y | x; φ)`, and for the network
///
/// `(1/B) Σ_i log [ (1/M) Σ_m exp f(x_i, y_im) / q(y_im | x_i; φ) ]`,
///
/// samples and f held constant, whose gradient in φ is that of `KL(p_θ ‖ q_φ)`. Neither part's gradient
/// reaches the other's parameters; compute φ's outputs from detached features of x to keep those to the
/// model.
#[derive(Clone, Debug)]
pub struct JointNce<'a> {
    /// q of this batch, with the history of its parameters.
    pub proposal: &'a GaussianMixtureDensity,
    /// M, the number of samples for each target, at least 1.
    pub num_samples: usize,
}

impl Objective for JointNce<'_> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let constant = self.proposal.detach();
        let candidates = Candidates::draw(&constant, self.num_samples, y, rng)?;
        let log_q_target = constant.log_prob(&y.detach().unsqueeze(1)?)?;
        let scores = candidates.score(model, features)?;
        let d = scores.log_weights(&candidates.log_q)?.broadcast_add(&log_q_target)?;

        let log_q = self.proposal.log_prob(&candidates.samples)?;
        let divergence = log_mean_exp(&(scores.samples.detach() - log_q)?, 1)?.mean_all()?;
        Ok((log_of_rank(&d)? + divergence)?)
    }
}
