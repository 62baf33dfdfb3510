//! NCE+: noise contrastive estimation with a noisy target.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{Objective, log_of_rank};
use crate::model::checked_score;
use crate::{EnergyModel, GaussianMixture, Proposal, Result, check};

settings! {
    /// NCE+ (Gustafsson et al., BMVC 2020): [`NoiseContrastive`](crate::NoiseContrastive) with the target
    /// moved by noise, `y_i0 = y_i + ν`, `ν ~ (1/L) Σ_l N(0, β² σ_l²)`, which allows for labels that are not
    /// exact.
    ///
    /// As M → ∞, f converges to the logarithm of the density of `y_i + ν`, that is of p after the noise ν.
    ///
    /// `q(y_i0 | y_i)` is the density of the proposal itself, not of the narrower noise, as in the published
    /// code. Each target has its own ν, where that code shares one in a batch of 1-D targets.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct NoiseContrastivePlus {
        /// q with its σ_l.
        pub proposal: GaussianMixture,
        /// M, the number of samples for each target, at least 1; the moved target is not among them.
        pub num_samples: usize where 1..=65_536,
        /// β > 0.
        pub beta: f64 where 1e-3..=1e3,
    }
}

impl Objective for NoiseContrastivePlus {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        check::positive("beta", self.beta)?;
        check::targets(y)?;
        let y = y.detach();
        let moved = self.proposal.scaled(self.beta)?.sample(&y, 1, rng)?;
        let samples = self.proposal.sample(&y, self.num_samples, rng)?;
        let all = Tensor::cat(&[&moved, &samples], 1)?;
        let s = (checked_score(model, features, &all)? - self.proposal.log_prob(&all, &y)?)?;
        log_of_rank(&s.narrow(1, 1, self.num_samples)?.broadcast_sub(&s.narrow(1, 0, 1)?)?)
    }
}
