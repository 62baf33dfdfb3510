//! One draw of noise for a whole batch.

use candle_core::{DType, Tensor};
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{GaussianMixture, Proposal};
use crate::{Result, check};

/// Eq. 5 with the same M offsets `y_im − y_i` for every target of a batch, as the published code draws them.
///
/// Each target still has M samples of the mixture, so every loss keeps its expectation; samples of different
/// targets are no longer independent. B times fewer numbers are drawn and densities evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedOffsets(pub GaussianMixture);

settings!(SharedOffsets as GaussianMixture);

impl Proposal for SharedOffsets {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        Ok(self.sample_with_log_prob(center, num_samples, rng)?.0)
    }

    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        self.0.log_prob(y, center)
    }

    fn sample_with_log_prob(
        &self,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        let (batch, dim) = check::dims2("the proposal's centre", center)?;
        let origin = Tensor::zeros((1, dim), DType::F64, center.device())?.to_dtype(center.dtype())?;
        let (offsets, log_q) = self.0.sample_with_log_prob(&origin, num_samples, rng)?;
        Ok((offsets.broadcast_add(&center.unsqueeze(1)?)?, log_q.broadcast_as((batch, num_samples))?))
    }
}
