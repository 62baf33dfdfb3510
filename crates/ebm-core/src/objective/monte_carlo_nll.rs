//! Negative log-likelihood by importance sampling (Eq. 4).

use candle_core::Tensor;
use ebm_base::settings_table;
use rand::RngCore;

use super::weighted::Candidates;
use super::{Batch, Objective};
use crate::math::log_mean_exp;
use crate::{EnergyModel, Proposal, Result};

settings_table! {
    /// The paper's loss, Eq. 4 (ML-IS):
    ///
    /// `J = (1/B) Σ_i { log [ (1/M) Σ_m exp f(x_i, y_im) / q(y_im | y_i) ] − f(x_i, y_i) }`,
    /// `y_im ~ q(y | y_i)`.
    ///
    /// The first term estimates `log Z(x_i)`, so J estimates the mean of `−log p(y_i | x_i)`, in nats.
    pub struct MonteCarloNll<P> {
        /// q, Eq. 5.
        pub proposal: P,
        /// M, the number of samples per target, at least 1, without the target itself.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> Objective for MonteCarloNll<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, batch.y, rng)?;
        let scores = candidates.score(batch)?;
        // f(x_i, y_i) is subtracted inside the mean, which gives the same value as Eq. 4.
        Ok(log_mean_exp(&scores.log_weights(&candidates.log_q)?, 1)?.mean_all()?)
    }
}
