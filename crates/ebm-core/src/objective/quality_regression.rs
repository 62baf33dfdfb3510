//! Regression of a quality: IoU-Net*, the confidence-based rival of Section 4.1, and ATOM's box module, that of
//! Section 4.2.

use candle_core::Tensor;
use rand::RngCore;

use super::Objective;
use crate::loss::smooth_l1;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check};

/// Where smooth-L1 turns from quadratic to linear.
const BETA: f64 = 1.0;

/// The loss of IoU-Net and IoU-Net* (Section 4.1): f is taught the quality of y, for boxes their overlap with `y_i`.
///
/// It is the mean of `smooth_l1(f(x_i, y) − (2 q(y, y_i) − 1))` over M samples y and, for IoU-Net*, the target `y_i`;
/// `2q − 1` spreads a quality in [0, 1] over [−1, 1]. IoU-Net* has the proposal of
/// [`MonteCarloNll`](super::MonteCarloNll), IoU-Net that of [`IouStratified`](crate::IouStratified).
#[derive(Clone, Debug)]
pub struct QualityRegression<P, Q> {
    /// Where the samples come from, Eq. 5.
    pub proposal: P,
    /// M, the number of samples for each target, at least 1; the target itself is not among them.
    pub num_samples: usize,
    /// Whether the target itself, of quality 1, is trained on too.
    pub with_target: bool,
    /// q: the qualities, `(B, M)` in [0, 1], of candidates `y`, `(B, M, D)`, given the targets `y_i`, `(B, D)`.
    pub quality: Q,
}

/// The loss of ATOM's box module (Section 4.2): the mean of `(f(x_i, y) − (2 q(y, y_i) − 1))²` over M samples y. The
/// target itself is not scored.
#[derive(Clone, Debug)]
pub struct SquaredQualityRegression<P, Q> {
    /// Where the samples come from.
    pub proposal: P,
    /// M, the number of samples for each target, at least 1.
    pub num_samples: usize,
    /// q, as in [`QualityRegression`].
    pub quality: Q,
}

/// The candidates of a regression.
struct Candidates {
    /// `(B, D)`.
    y: Tensor,
    /// `(B, M, D)`.
    samples: Tensor,
}

impl Candidates {
    fn draw<P: Proposal>(
        proposal: &P,
        num_samples: usize,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let (batch, dim) = check::targets(y)?;
        let y = y.detach();
        let samples = proposal.sample(&y, num_samples, rng)?.detach();
        check::dims("the result of Proposal::sample", &samples, "(B, M, D)", &[batch, num_samples, dim])?;
        Ok(Self { y, samples })
    }

    /// `f(x_i, y) − (2 q(y, y_i) − 1)`, with the target's own first where `with_target`.
    fn residuals<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        quality: &impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
        with_target: bool,
    ) -> Result<Tensor> {
        let (candidates, letters) = if with_target {
            (Tensor::cat(&[&self.y.unsqueeze(1)?, &self.samples], 1)?, "(B, 1 + M)")
        } else {
            (self.samples.clone(), "(B, M)")
        };
        let quality = quality(&candidates, &self.y)?.detach();
        check::dims("the result of the quality function", &quality, letters, &candidates.dims()[..2])?;
        let f = checked_score(model, features, &candidates)?;
        Ok((f - quality.affine(2.0, -1.0)?)?)
    }
}

impl<P: Proposal, Q: Fn(&Tensor, &Tensor) -> Result<Tensor>> Objective for QualityRegression<P, Q> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let residuals = candidates.residuals(model, features, &self.quality, self.with_target)?;
        Ok(smooth_l1(&residuals, BETA)?.mean_all()?)
    }
}

impl<P: Proposal, Q: Fn(&Tensor, &Tensor) -> Result<Tensor>> Objective for SquaredQualityRegression<P, Q> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let residuals = candidates.residuals(model, features, &self.quality, false)?;
        Ok(residuals.sqr()?.mean_all()?)
    }
}
