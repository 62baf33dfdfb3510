//! KLD-IS: a label with noise in place of a point.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Objective;
use super::weighted::Candidates;
use crate::math::log_mean_exp;
use crate::model::checked_score;
use crate::{EnergyModel, Proposal, Result, check};

settings! {
    /// The Kullback–Leibler divergence from a noisy label `p(y | y_i)` to the model, up to a constant
    /// (Danelljan et al., 2020; KLD-IS in Gustafsson et al., BMVC 2020), both integrals with the same
    /// importance samples:
    ///
    /// `(1/B) Σ_i { log [ (1/M) Σ_m exp f_im / q_im ] − (1/M) Σ_m w_im f_im }`,
    /// `w_im = p(y_im | y_i) / q(y_im | y_i)`.
    ///
    /// The weights have mean 1 only in expectation, so that f's level, which does not matter, receives a
    /// gradient of mean 0 and a small variance; [`normalize_weights`](Self::normalize_weights) removes it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct KullbackLeibler<P, L> {
        /// q.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// `p(y | y_i)`, how far a label may be off.
        pub label: L,
        /// Divides the weights by their mean, for an exact invariance to f's level at the price of a bias of
        /// order 1/M. The published loss does not.
        #[serde(default)]
        pub normalize_weights: bool,
    }
}

impl<P: Proposal, L: Proposal> Objective for KullbackLeibler<P, L> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let log_label = self.label.log_prob(&candidates.samples, &y.detach())?.detach();
        check::dims("the result of Proposal::log_prob", &log_label, "(B, M)", candidates.log_q.dims())?;
        let log_w = (log_label - &candidates.log_q)?;
        let w = if self.normalize_weights {
            log_w.broadcast_sub(&log_mean_exp(&log_w, 1)?.unsqueeze(1)?)?.exp()?
        } else {
            log_w.exp()?
        };
        let f = checked_score(model, features, &candidates.samples)?;
        let log_z = log_mean_exp(&(&f - &candidates.log_q)?, 1)?;
        // Where the label has no weight, f = −∞ is right, and its product with 0 must not be NaN.
        let weighed = w.gt(0.0)?.where_cond(&(&w * f)?, &w.zeros_like()?)?;
        Ok((log_z - weighed.mean(1)?)?.mean_all()?)
    }
}
