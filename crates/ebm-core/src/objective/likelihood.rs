//! Rivals of Eq. 4 that estimate the likelihood or a divergence in other ways: KLD-IS, SNL and ML-MCMC.

use candle_core::Tensor;
use ebm_base::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Objective;
use super::weighted::Candidates;
use crate::math::log_mean_exp;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check, langevin};

settings! {
    /// The Kullback–Leibler divergence from a noisy label `p(y | y_i)` to the model, up to a constant
    /// (Danelljan et al., 2020; KLD-IS in Gustafsson et al., BMVC 2020), both integrals with the same
    /// importance samples:
    ///
    /// `(1/B) Σ_i { log [ (1/M) Σ_m exp f_im / q_im ] − (1/M) Σ_m w_im f_im }`,
    /// `w_im = p(y_im | y_i) / q(y_im | y_i)`.
    ///
    /// The weights have mean 1 only in expectation, so that f's level, which does not matter, receives a
    /// gradient of mean 0 and a small variance; [`normalize_weights`](Self::normalize_weights) removes it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct KullbackLeibler<P, L> {
        /// q.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// `p(y | y_i)`, how far a label may be off.
        pub label: L,
        /// Divides the weights by their mean, for an exact invariance to f's level at the price of a bias of
        /// order 1/M. The published loss does not.
        #[serde(default)]
        pub normalize_weights: bool,
    }
}

impl<P: Proposal, L: Proposal> Objective for KullbackLeibler<P, L> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let log_label = self.label.log_prob(&candidates.samples, &y.detach())?.detach();
        check::dims("the result of Proposal::log_prob", &log_label, "(B, M)", candidates.log_q.dims())?;
        let log_w = (log_label - &candidates.log_q)?;
        let w = if self.normalize_weights {
            log_w.broadcast_sub(&log_mean_exp(&log_w, 1)?.unsqueeze(1)?)?.exp()?
        } else {
            log_w.exp()?
        };
        let f = checked_score(model, features, &candidates.samples)?;
        let log_z = log_mean_exp(&(&f - &candidates.log_q)?, 1)?;
        // Where the label has no weight, f = −∞ is right, and its product with 0 must not be NaN.
        let weighed = w.gt(0.0)?.where_cond(&(&w * f)?, &w.zeros_like()?)?;
        Ok((log_z - weighed.mean(1)?)?.mean_all()?)
    }
}

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

settings! {
    /// Maximum likelihood with samples of the model itself (ML-MCMC-L in Gustafsson et al., BMVC 2020): M
    /// chains of L unadjusted Langevin steps from the target, through which no gradient flows:
    ///
    /// `(1/B) Σ_i { (1/M) Σ_m f(x_i, y_im) − f(x_i, y_i) }`.
    ///
    /// Its gradient is that of the likelihood if the chains have converged; its value means nothing. Short
    /// chains have the right fixed point too, up to the dynamics' error of order λ² (a Gaussian of variance v
    /// is learned with about v − λ²/4), but do not see what is further away than they go.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LangevinNll {
        /// M, the number of chains for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// L, the number of steps of a chain.
        pub steps: usize where 1..=10_000,
        /// λ in `y ← y + (λ²/2) ∇f + λ ε`.
        pub step_size: f64 where 1e-9..=1e3,
    }
}

impl Objective for LangevinNll {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let (batch, dim) = check::targets(y)?;
        check::at_least_one("num_samples", self.num_samples)?;
        let start = y.detach().unsqueeze(1)?;
        let chains = start.broadcast_as((batch, self.num_samples, dim))?.contiguous()?;
        let samples = langevin(model, features, &chains, self.steps, self.step_size, rng)?;
        let f = checked_score(model, features, &Tensor::cat(&[&start, &samples], 1)?)?;
        let difference = f.narrow(1, 1, self.num_samples)?.broadcast_sub(&f.narrow(1, 0, 1)?)?;
        Ok(difference.mean_all()?)
    }
}
