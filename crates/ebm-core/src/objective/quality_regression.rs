//! Regression of a quality: the losses of IoU-Net*, the confidence-based rival of Section 4.1, and of ATOM's box
//! module in Section 4.2.

use candle_core::Tensor;
use ebm_base::settings_table;
use rand::RngCore;

use super::{Batch, Objective};
use crate::loss::smooth_l1;
use crate::{EnergyModel, Proposal, Result, check};

/// Boundary between the quadratic and the linear part of smooth-L1.
const BETA: f64 = 1.0;

settings_table! {
    /// Loss of IoU-Net and IoU-Net* (Section 4.1): f learns the quality of y, which for boxes is the IoU with
    /// `y_i`.
    ///
    /// The loss is the mean of `smooth_l1(f(x_i, y) − (2 q(y, y_i) − 1))` over M samples y and, for IoU-Net*, the
    /// target `y_i`. `2q − 1` maps a quality in [0, 1] to [−1, 1]. The quality q is [`EnergyModel::quality`].
    /// IoU-Net* has the proposal of [`MonteCarloNll`](super::MonteCarloNll), and IoU-Net has
    /// [`IouStratified`](crate::IouStratified).
    pub struct QualityRegression<P> {
        /// Distribution of the samples, Eq. 5.
        pub proposal: P,
        /// M, the number of samples per target, at least 1, without the target itself.
        pub num_samples: usize where 1..=65_536,
        /// Whether to train on the target itself too, with the quality 1.
        pub with_target: bool,
    }

    /// Loss of ATOM's box module (Section 4.2): the mean of `(f(x_i, y) − (2 q(y, y_i) − 1))²` over M samples y.
    /// The target itself is not scored.
    pub struct SquaredQualityRegression<P> {
        /// Distribution of the samples.
        pub proposal: P,
        /// M, the number of samples per target, at least 1.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> QualityRegression<P> {
    /// Returns `f(x_i, y) − (2 q(y, y_i) − 1)`; the column of the target is the first if it is trained on.
    fn residuals<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let (inputs, dim) = check::targets(batch.y)?;
        let (y, count) = (batch.y.detach(), self.num_samples);
        let samples = self.proposal.sample(&y, count, rng)?.detach();
        check::dims("the result of Proposal::sample", &samples, "(B, M, D)", &[inputs, count, dim])?;
        let (candidates, letters) = if self.with_target {
            (Tensor::cat(&[&y.unsqueeze(1)?, &samples], 1)?, "(B, 1 + M)")
        } else {
            (samples, "(B, M)")
        };
        let quality = batch.model.quality(batch.features, &candidates, &y)?.detach();
        check::dims("the result of EnergyModel::quality", &quality, letters, &candidates.dims()[..2])?;
        Ok((batch.score(&candidates)? - quality.affine(2.0, -1.0)?)?)
    }
}

impl<P: Proposal> Objective for QualityRegression<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        Ok(smooth_l1(&self.residuals(batch, rng)?, BETA)?.mean_all()?)
    }
}

impl<P: Proposal> Objective for SquaredQualityRegression<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        let Self { proposal, num_samples } = self;
        let regression = QualityRegression { proposal, num_samples: *num_samples, with_target: false };
        Ok(regression.residuals(batch, rng)?.sqr()?.mean_all()?)
    }
}
