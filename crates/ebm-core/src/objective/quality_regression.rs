//! IoU-Net*: regression of a quality, the confidence-based rival of Section 4.1.

use candle_core::Tensor;
use rand::RngCore;

use super::Objective;
use crate::loss::smooth_l1;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check};

/// Where smooth-L1 turns from quadratic to linear.
const BETA: f64 = 1.0;

/// The loss of IoU-Net* (Section 4.1): f is taught the quality of y, for boxes their overlap with `y_i`.
///
/// It is the mean of `smooth_l1(f(x_i, y) − (2 q(y, y_i) − 1))` over the target `y_i` and its M samples y from the
/// same proposal as in [`MonteCarloNll`](super::MonteCarloNll); `2q − 1` spreads a quality in [0, 1] over [−1, 1].
#[derive(Clone, Debug)]
pub struct QualityRegression<P, Q> {
    /// Where the samples come from, Eq. 5.
    pub proposal: P,
    /// M, the number of samples for each target, at least 1; the target itself is not among them.
    pub num_samples: usize,
    /// q: the qualities, `(B, M)` in [0, 1], of candidates `y`, `(B, M, D)`, given the targets `y_i`, `(B, D)`.
    pub quality: Q,
}

impl<P: Proposal, Q: Fn(&Tensor, &Tensor) -> Result<Tensor>> Objective for QualityRegression<P, Q> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let (batch, dim) = check::targets(y)?;
        let y = y.detach();
        let samples = self.proposal.sample(&y, self.num_samples, rng)?.detach();
        check::dims(
            "the result of Proposal::sample",
            &samples,
            "(B, M, D)",
            &[batch, self.num_samples, dim],
        )?;
        let candidates = Tensor::cat(&[&y.unsqueeze(1)?, &samples], 1)?;
        let quality = (self.quality)(&candidates, &y)?.detach();
        check::dims("the result of the quality function", &quality, "(B, 1 + M)", &candidates.dims()[..2])?;

        let f = checked_score(model, features, &candidates)?;
        Ok(smooth_l1(&(f - quality.affine(2.0, -1.0)?)?, BETA)?.mean_all()?)
    }
}
