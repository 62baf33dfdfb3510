//! Target and importance samples with their scores and weights, for several objectives.

use candle_core::Tensor;
use rand::RngCore;

use super::Batch;
use crate::{EnergyModel, Proposal, Result, check};

/// Samples `(B, M, D)` of `q(y | y_i)`, and `all`, `(B, 1 + M, D)`, with the target before them as column 0. A
/// single forward pass serves both terms of a loss.
pub(super) struct Candidates {
    pub(super) samples: Tensor,
    pub(super) all: Tensor,
    /// `log q(y_im | y_i)`, `(B, M)`.
    pub(super) log_q: Tensor,
}

/// Scores of [`Candidates`].
pub(super) struct Scores {
    /// `f(x_i, y_i)`, `(B, 1)`.
    pub(super) target: Tensor,
    /// `f(x_i, y_im)`, `(B, M)`.
    pub(super) samples: Tensor,
}

impl Candidates {
    pub(super) fn draw(
        proposal: &impl Proposal,
        num_samples: usize,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let (batch, dim) = check::targets(y)?;
        let y = y.detach();
        let (samples, log_q) = proposal.sample_with_log_prob(&y, num_samples, rng)?;
        let (samples, log_q) = (samples.detach(), log_q.detach());
        check::dims("the result of Proposal::sample", &samples, "(B, M, D)", &[batch, num_samples, dim])?;
        check::dims("the result of Proposal::log_prob", &log_q, "(B, M)", &[batch, num_samples])?;
        let all = Tensor::cat(&[&y.unsqueeze(1)?, &samples], 1)?;
        Ok(Self { samples, all, log_q })
    }

    pub(super) fn score<M: EnergyModel>(&self, batch: &Batch<'_, M>) -> Result<Scores> {
        let f = batch.score(&self.all)?;
        Ok(Scores { target: f.narrow(1, 0, 1)?, samples: f.narrow(1, 1, self.log_q.dim(1)?)? })
    }
}

impl Scores {
    /// Returns the logarithms of the importance weights relative to the target,
    /// `f(x_i, y_im) − f(x_i, y_i) − log q(y_im | y_i)`, `(B, M)`. The arbitrary offset of f cancels here before
    /// it can cost precision.
    pub(super) fn log_weights(&self, log_q: &Tensor) -> Result<Tensor> {
        Ok((self.samples.broadcast_sub(&self.target)? - log_q)?)
    }
}
