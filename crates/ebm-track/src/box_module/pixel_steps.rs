//! ATOM's step: f over `(x, y, w, h)` in pixels.

use candle_core::{D, Tensor};
use ebm_core::EnergyModel;

use super::BoxNetwork;
use super::features::{TestFeatures, corners};
use crate::Result;

/// f over boxes y = `(x, y, w, h)` in pixels. The gradient is multiplied by `(w, h, w, h)` of the box.
///
/// With [`StepRule::Plain`](ebm_core::StepRule::Plain) and λ = 1, a step is ATOM's:
/// `y ← y + ∇f · (w, h, w, h)`. Coordinates relative to the box would give the squares of w and h instead.
pub struct PixelSteps<'a, M>(pub &'a M);

impl<M: BoxNetwork> EnergyModel for PixelSteps<'_, M> {
    type Features = TestFeatures;

    fn score(&self, features: &TestFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        let score = || self.0.corner_scores(features, &corners(y)?);
        score().map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &TestFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let step = || -> Result<(Tensor, Tensor)> {
            let (f, gradient) = self.0.corner_gradients(features, &corners(&y.detach())?)?;
            // x moves both corners, w the second alone.
            let high = gradient.narrow(D::Minus1, 2, 2)?;
            let low = (gradient.narrow(D::Minus1, 0, 2)? + &high)?;
            let size = y.detach().narrow(D::Minus1, 2, 2)?;
            Ok((f, Tensor::cat(&[&(low * &size)?, &(high * &size)?], D::Minus1)?))
        };
        step().map_err(ebm_core::Error::model)
    }
}
