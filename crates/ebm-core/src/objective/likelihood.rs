//! Rivals of Eq. 4 with other estimates of the likelihood or of a divergence: KLD-IS, SNL and ML-MCMC.

use candle_core::Tensor;
use ebm_base::settings_table;
use rand::RngCore;

use super::weighted::Candidates;
use super::{Batch, Objective};
use crate::math::log_mean_exp;
use crate::{EnergyModel, Proposal, Result, check, langevin};

settings_table! {
    /// Kullback–Leibler divergence from a noisy label `p(y | y_i)` to the model, up to a constant (Danelljan et
    /// al., 2020; KLD-IS in Gustafsson et al., BMVC 2020). Both integrals use the same importance samples:
    ///
    /// `(1/B) Σ_i { log [ (1/M) Σ_m exp f_im / q_im ] − (1/M) Σ_m w_im f_im }`,
    /// `w_im = p(y_im | y_i) / q(y_im | y_i)`.
    ///
    /// The weights have mean 1 only in expectation. A constant offset of f, which does not change p, therefore
    /// gets a gradient of mean 0 and a small variance. [`normalize_weights`](Self::normalize_weights) removes it.
    pub struct KullbackLeibler<P, L> {
        /// q.
        pub proposal: P,
        /// M, the number of samples per target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// `p(y | y_i)`, the distribution of the noisy label.
        pub label: L,
        /// Whether to divide the weights by their mean. The loss is then exactly invariant to a constant offset
        /// of f, with a bias of order 1/M. The published loss does not divide.
        #[serde(default)]
        pub normalize_weights: bool,
    }
}

impl<P: Proposal, L: Proposal> Objective for KullbackLeibler<P, L> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, batch.y, rng)?;
        let log_label = self.label.log_prob(&candidates.samples, &batch.y.detach())?.detach();
        check::dims("the result of Proposal::log_prob", &log_label, "(B, M)", candidates.log_q.dims())?;
        let log_w = (log_label - &candidates.log_q)?;
        let w = if self.normalize_weights {
            log_w.broadcast_sub(&log_mean_exp(&log_w, 1)?.unsqueeze(1)?)?.exp()?
        } else {
            log_w.exp()?
        };
        let f = batch.score(&candidates.samples)?;
        let log_z = log_mean_exp(&(&f - &candidates.log_q)?, 1)?;
        // Where the weight is 0, f may be −∞, and the product must not be NaN.
        let weighed = w.gt(0.0)?.where_cond(&(&w * f)?, &w.zeros_like()?)?;
        Ok((log_z - weighed.mean(1)?)?.mean_all()?)
    }
}

settings_table! {
    /// Self-normalised likelihood (SNL, arXiv 2503.07021): the negative of a lower bound of the log-likelihood,
    /// which is tight if `b(x) = log Z(x)`:
    ///
    /// `(1/B) Σ_i { b(x_i) − f(x_i, y_i) + (1/M) Σ_m exp(f(x_i, y_im) − b(x_i)) / q(y_im | y_i) − 1 }`.
    ///
    /// Its gradient has no bias for any M, in contrast to the logarithm of a mean in Eq. 4. After training `b`,
    /// which [`EnergyModel::log_normalizer`] computes, estimates log Z. The exponential overflows if `b` is far
    /// below log Z, so initialise `b` too high rather than too low.
    pub struct SelfNormalized<P> {
        /// q.
        pub proposal: P,
        /// M, the number of samples per target, at least 1.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> Objective for SelfNormalized<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, batch.y, rng)?;
        let b = batch.model.log_normalizer(batch.features)?;
        check::dims("the result of EnergyModel::log_normalizer", &b, "(B)", &[batch.y.dim(0)?])?;
        let scores = candidates.score(batch)?;
        let log_ratio = (scores.target.squeeze(1)? - b)?; // log p(y_i | x_i) if b = log Z
        let log_weights = log_mean_exp(&scores.log_weights(&candidates.log_q)?, 1)?;
        let mass = (log_weights + &log_ratio)?.exp()?; // the integral of the density, 1 if b = log Z
        Ok(((mass - log_ratio)? - 1.0)?.mean_all()?)
    }
}

settings_table! {
    /// Maximum likelihood with samples of the model itself (ML-MCMC-L in Gustafsson et al., BMVC 2020): M chains
    /// of L unadjusted Langevin steps start at the target, and no gradient flows through them:
    ///
    /// `(1/B) Σ_i { (1/M) Σ_m f(x_i, y_im) − f(x_i, y_i) }`.
    ///
    /// The gradient equals the gradient of the likelihood if the chains have converged; the value of the loss has
    /// no meaning. Short chains have the right fixed point too, up to an error of order λ² (a Gaussian of
    /// variance v is learned with about v − λ²/4), but the loss ignores f beyond their reach.
    pub struct LangevinNll {
        /// M, the number of chains per target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// L, the number of steps of a chain.
        pub steps: usize where 1..=10_000,
        /// λ in `y ← y + (λ²/2) ∇f + λ ε`.
        pub step_size: f64 where 1e-9..=1e3,
    }
}

impl Objective for LangevinNll {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let (inputs, dim) = check::targets(batch.y)?;
        check::at_least_one("num_samples", self.num_samples)?;
        let start = batch.y.detach().unsqueeze(1)?;
        let chains = start.broadcast_as((inputs, self.num_samples, dim))?.contiguous()?;
        let samples = langevin(batch.model, batch.features, &chains, self.steps, self.step_size, rng)?;
        let f = batch.score(&Tensor::cat(&[&start, &samples], 1)?)?;
        let difference = f.narrow(1, 1, self.num_samples)?.broadcast_sub(&f.narrow(1, 0, 1)?)?;
        Ok(difference.mean_all()?)
    }
}
