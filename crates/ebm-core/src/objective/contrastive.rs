//! Noise contrastive estimation: classification of the target among candidates.

use candle_core::Tensor;
use ebm_base::settings_table;
use rand::RngCore;

use super::weighted::Candidates;
use super::{Batch, Objective};
use crate::math::{log_mean_exp, log_sum_exp};
use crate::parametric::GaussianMixtureDensity;
use crate::{EnergyModel, GaussianMixture, Proposal, Result, check};

settings_table! {
    /// Ranking noise contrastive estimation (NCE in Gustafsson et al., BMVC 2020): f classifies which of the
    /// target and M samples is the target.
    ///
    /// `−(1/B) Σ_i log [ e^{s_i0} / Σ_{m=0..M} e^{s_im} ]`, `s_im = f(x_i, y_im) − log q(y_im | y_i)`,
    /// `y_i0 = y_i`.
    ///
    /// If q depends on x alone, f converges to `log p(y | x)` plus a constant for every M (Ma and Collins, 2018).
    /// If q is centred at the target, as in Eq. 5, f does so as M → ∞ and is too narrow for small M.
    pub struct NoiseContrastive<P> {
        /// q.
        pub proposal: P,
        /// M, the number of samples per target, at least 1, without the target itself.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> Objective for NoiseContrastive<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, batch.y, rng)?;
        let log_q_target =
            self.proposal.log_prob(&batch.y.detach().unsqueeze(1)?, &batch.y.detach())?.detach();
        check::dims("the result of Proposal::log_prob", &log_q_target, "(B, 1)", &[batch.y.dim(0)?, 1])?;
        let scores = candidates.score(batch)?;
        ranking_loss(&scores.log_weights(&candidates.log_q)?.broadcast_add(&log_q_target)?)
    }
}

settings_table! {
    /// NCE+ (Gustafsson et al., BMVC 2020): [`NoiseContrastive`](crate::NoiseContrastive) with a noisy target,
    /// `y_i0 = y_i + ν`, `ν ~ (1/L) Σ_l N(0, β² σ_l²)`, which models inaccurate labels.
    ///
    /// As M → ∞, f converges to the logarithm of the density of `y_i + ν`, which is p convolved with the noise.
    ///
    /// As in the published code, `q(y_i0 | y_i)` is the density of the proposal and not of the narrower noise.
    /// Each target has its own ν; the published code shares one ν in a batch of 1-D targets.
    pub struct NoiseContrastivePlus {
        /// q with its σ_l, which also scale the noise.
        pub proposal: GaussianMixture,
        /// M, the number of samples per target, at least 1, without the noisy target.
        pub num_samples: usize where 1..=65_536,
        /// β > 0.
        pub beta: f64 where 1e-3..=1e3,
    }
}

impl Objective for NoiseContrastivePlus {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        check::positive("beta", self.beta)?;
        check::targets(batch.y)?;
        let y = batch.y.detach();
        let moved = self.proposal.scaled(self.beta)?.sample(&y, 1, rng)?;
        let samples = self.proposal.sample(&y, self.num_samples, rng)?;
        let all = Tensor::cat(&[&moved, &samples], 1)?;
        let s = (batch.score(&all)? - self.proposal.log_prob(&all, &y)?)?;
        ranking_loss(&s.narrow(1, 1, self.num_samples)?.broadcast_sub(&s.narrow(1, 0, 1)?)?)
    }
}

/// Joint training of an energy model and its proposal (Gustafsson et al., AISTATS 2022). The model is trained by
/// NCE with samples of a mixture density network `q(y | x; φ)`, and the network by
///
/// `(1/B) Σ_i log [ (1/M) Σ_m exp f(x_i, y_im) / q(y_im | x_i; φ) ]`,
///
/// with samples and f held constant. The gradient of this term in φ is the gradient of `KL(p_θ ‖ q_φ)`. The
/// gradient of neither term reaches the other's parameters. Detach the features of x before the network computes
/// its outputs, if φ's gradient must not reach the features.
#[derive(Clone, Debug)]
pub struct JointNce<'a> {
    /// q of this batch, with the graph of its parameters.
    pub proposal: &'a GaussianMixtureDensity,
    /// M, the number of samples per target, at least 1.
    pub num_samples: usize,
}

impl Objective for JointNce<'_> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let constant = self.proposal.detach();
        let candidates = Candidates::draw(&constant, self.num_samples, batch.y, rng)?;
        let log_q_target = constant.log_prob(&batch.y.detach().unsqueeze(1)?)?;
        let scores = candidates.score(batch)?;
        let d = scores.log_weights(&candidates.log_q)?.broadcast_add(&log_q_target)?;

        let log_q = self.proposal.log_prob(&candidates.samples)?;
        let divergence = log_mean_exp(&(scores.samples.detach() - log_q)?, 1)?.mean_all()?;
        Ok((ranking_loss(&d)? + divergence)?)
    }
}

settings_table! {
    /// Loss of implicit behavioural cloning (Florence et al., 2021): f classifies the target among M
    /// counter-examples without a correction for their density:
    ///
    /// `−(1/B) Σ_i log [ e^{f(x_i, y_i)/τ} / (e^{f(x_i, y_i)/τ} + Σ_m e^{f(x_i, y_im)/τ}) ]`.
    ///
    /// If q depends on x alone, `f/τ` converges to `log p(y | x) − log q(y | x)` plus a constant for every M; for
    /// a uniform q this is the log-density. If q is centred at the target, as in Eq. 5, `f/τ` converges to the
    /// log-density for M = 1 (conditional NCE; Ceylan and Gutmann, 2018). For more samples it converges neither
    /// to the density nor to a ratio.
    pub struct InfoNce<P> {
        /// q, the distribution of the counter-examples.
        pub proposal: P,
        /// M, the number of counter-examples per target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// τ > 0.
        #[serde(default = "one")]
        pub temperature: f64 where 1e-6..=1e6,
    }
}

fn one() -> f64 {
    1.0
}

impl<P: Proposal> Objective for InfoNce<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        check::positive("temperature", self.temperature)?;
        let scores = Candidates::draw(&self.proposal, self.num_samples, batch.y, rng)?.score(batch)?;
        ranking_loss(&(scores.samples.broadcast_sub(&scores.target)? / self.temperature)?)
    }
}

/// Returns the mean over the batch of `−log [ 1 / (1 + Σ_m exp d_im) ]`, where `d`, shape `(B, M)`, is the score
/// of each rival minus the score of the target.
fn ranking_loss(d: &Tensor) -> Result<Tensor> {
    let target = d.narrow(1, 0, 1)?.zeros_like()?;
    Ok(log_sum_exp(&Tensor::cat(&[&target, d], 1)?, 1)?.mean_all()?)
}
