//! Eq. 4: the negative log-likelihood by importance sampling.

use candle_core::Tensor;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{Objective, samples_after_target};
use crate::math::log_mean_exp;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check};

/// Eq. 4, the paper's loss:
///
/// `J = (1/B) Σ_i { log [ (1/M) Σ_m exp f(x_i, y_im) / q(y_im | y_i) ] − f(x_i, y_i) }`, `y_im ~ q(y | y_i)`.
///
/// The first term estimates `log Z(x_i)`, so J estimates the mean of `−log p(y_i | x_i)`, in nats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonteCarloNll<P> {
    /// q, Eq. 5.
    pub proposal: P,
    /// M, the number of samples for each target, at least 1; the target itself is not among them.
    pub num_samples: usize,
}

impl<P: Proposal> Objective for MonteCarloNll<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let y = y.detach();
        let (samples, candidates) = samples_after_target(&self.proposal, self.num_samples, &y, rng)?;
        let log_q = self.proposal.log_prob(&samples, &y)?.detach();
        check::dims("the result of Proposal::log_prob", &log_q, "(B, M)", &samples.dims()[..2])?;

        let f = checked_score(model, features, &candidates)?;
        let f_target = f.narrow(1, 0, 1)?;
        let f_samples = f.narrow(1, 1, self.num_samples)?;

        // f(x_i, y_i) is subtracted inside the mean: the same number, but f's level, which is arbitrary,
        // cancels before it can cost precision.
        let log_weights = (f_samples.broadcast_sub(&f_target)? - log_q)?;
        Ok(log_mean_exp(&log_weights, 1)?.mean_all()?)
    }
}
