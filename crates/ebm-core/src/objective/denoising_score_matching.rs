//! DSM: denoising score matching.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{Derivatives, Directions, Objective};
use crate::{EnergyModel, GaussianMixture, Proposal, Result, check};

settings! {
    /// Denoising score matching (Vincent, 2011; DSM in Gustafsson et al., BMVC 2020):
    ///
    /// `(1/(B M)) Σ_im ‖∇_y f(x_i, y_im) + (y_im − y_i)/σ²‖²`, `y_im = y_i + σ ε`.
    ///
    /// f converges to the logarithm of the density after Gaussian noise of standard deviation σ.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct DenoisingScoreMatching {
        /// σ > 0, in the units of y.
        pub sigma: f64 where 1e-6..=1e4,
        /// M, the number of samples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// How derivatives are found.
        pub derivatives: Derivatives,
        /// Along which directions.
        pub directions: Directions,
    }
}

impl Objective for DenoisingScoreMatching {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        check::positive("sigma", self.sigma)?;
        let (_, dim) = check::targets(y)?;
        let y = y.detach();
        let noisy = GaussianMixture::isotropic(&[self.sigma], dim)?.sample(&y, self.num_samples, rng)?;
        let pull = (noisy.broadcast_sub(&y.unsqueeze(1)?)? / (self.sigma * self.sigma))?;
        let (directions, weight) = self.directions.tensors(&noisy, rng)?;
        let terms = directions.iter().map(|direction| {
            let first = self.derivatives.first(model, features, &noisy, direction)?;
            Ok((first + (&pull * direction)?.sum(2)?)?.sqr()?.mean_all()?)
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok((Tensor::stack(&terms, 0)?.sum_all()? * weight)?)
    }
}
