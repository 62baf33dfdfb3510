//! A proposal that a network makes of x.

use candle_core::Tensor;
use rand::RngCore;

use super::Proposal;
use crate::Result;
use crate::parametric::GaussianMixtureDensity;

/// `q(y | x)` of a mixture density network (Gustafsson et al., AISTATS 2022), one density for each input of
/// the batch; the target does not matter, so that it serves where none is known. Training it:
/// [`JointNce`](crate::JointNce).
impl Proposal for GaussianMixtureDensity {
    fn sample(&self, _center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        GaussianMixtureDensity::sample(self, num_samples, rng)
    }

    fn log_prob(&self, y: &Tensor, _center: &Tensor) -> Result<Tensor> {
        GaussianMixtureDensity::log_prob(self, y)
    }
}
