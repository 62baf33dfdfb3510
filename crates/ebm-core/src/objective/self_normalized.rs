//! SNL: the self-normalised bound of the likelihood.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Objective;
use super::weighted::Candidates;
use crate::math::log_mean_exp;
use crate::{EnergyModel, Proposal, Result, check};

settings! {
    /// The self-normalised likelihood (SNL, arXiv 2503.07021): a lower bound of the log-likelihood, tight
    /// where `b(x) = log Z(x)`, negated:
    ///
    /// `(1/B) Σ_i { b(x_i) − f(x_i, y_i) + (1/M) Σ_m exp(f(x_i, y_im) − b(x_i)) / q(y_im | y_i) − 1 }`.
    ///
    /// Unlike the logarithm of a mean in Eq. 4 its gradient has no bias for any M, and `b`, which
    /// [`EnergyModel::log_normalizer`] computes, is left as an estimate of log Z. Its exponential is not
    /// tamed: a `b` far below log Z overflows, so start it high rather than low.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct SelfNormalized<P> {
        /// q.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> Objective for SelfNormalized<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let b = model.log_normalizer(features)?;
        check::dims("the result of EnergyModel::log_normalizer", &b, "(B)", &[y.dim(0)?])?;
        let scores = candidates.score(model, features)?;
        let log_ratio = (scores.target.squeeze(1)? - b)?; // log p(y_i | x_i), as far as b is right
        let log_weights = log_mean_exp(&scores.log_weights(&candidates.log_q)?, 1)?;
        let mass = (log_weights + &log_ratio)?.exp()?; // the integral of the density, 1 where b is right
        Ok(((mass - log_ratio)? - 1.0)?.mean_all()?)
    }
}
