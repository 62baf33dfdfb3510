//! ML-MCMC: the likelihood's gradient with samples of a short Langevin chain.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Objective;
use crate::model::checked_score;
use crate::{EnergyModel, Result, check, langevin};

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
