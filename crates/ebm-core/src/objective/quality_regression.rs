//! Regression of a quality: IoU-Net*, the confidence-based rival of Section 4.1, and ATOM's box module, that
//! of Section 4.2.

use candle_core::Tensor;
use ebm_base::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Objective;
use crate::loss::smooth_l1;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check};

/// Where smooth-L1 turns from quadratic to linear.
const BETA: f64 = 1.0;

settings! {
    /// The loss of IoU-Net and IoU-Net* (Section 4.1): f is taught the quality of y, for boxes their overlap
    /// with `y_i`.
    ///
    /// It is the mean of `smooth_l1(f(x_i, y) − (2 q(y, y_i) − 1))` over M samples y and, for IoU-Net*, the
    /// target `y_i`; `2q − 1` spreads a quality in [0, 1] over [−1, 1]. IoU-Net* has the proposal of
    /// [`MonteCarloNll`](super::MonteCarloNll), IoU-Net that of [`IouStratified`](crate::IouStratified). q is
    /// the network's own, [`EnergyModel::quality`].
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct QualityRegression<P> {
        /// Where the samples come from, Eq. 5.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1; the target itself is not among them.
        pub num_samples: usize where 1..=65_536,
        /// Whether the target itself, of quality 1, is trained on too.
        pub with_target: bool,
    }
}

settings! {
    /// The loss of ATOM's box module (Section 4.2): the mean of `(f(x_i, y) − (2 q(y, y_i) − 1))²` over M
    /// samples y. The target itself is not scored.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct SquaredQualityRegression<P> {
        /// Where the samples come from.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
    }
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
        with_target: bool,
    ) -> Result<Tensor> {
        let (candidates, letters) = if with_target {
            (Tensor::cat(&[&self.y.unsqueeze(1)?, &self.samples], 1)?, "(B, 1 + M)")
        } else {
            (self.samples.clone(), "(B, M)")
        };
        let quality = model.quality(features, &candidates, &self.y)?.detach();
        check::dims("the result of EnergyModel::quality", &quality, letters, &candidates.dims()[..2])?;
        let f = checked_score(model, features, &candidates)?;
        Ok((f - quality.affine(2.0, -1.0)?)?)
    }
}

impl<P: Proposal> Objective for QualityRegression<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let residuals = candidates.residuals(model, features, self.with_target)?;
        Ok(smooth_l1(&residuals, BETA)?.mean_all()?)
    }
}

impl<P: Proposal> Objective for SquaredQualityRegression<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let residuals = candidates.residuals(model, features, false)?;
        Ok(residuals.sqr()?.mean_all()?)
    }
}
