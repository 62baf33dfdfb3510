//! NCE: the true target against noise.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::weighted::Candidates;
use super::{Objective, log_of_rank};
use crate::{EnergyModel, Proposal, Result, check};

settings! {
    /// Ranking noise contrastive estimation (NCE in Gustafsson et al., BMVC 2020): which of the target and M
    /// samples is the target?
    ///
    /// `−(1/B) Σ_i log [ e^{s_i0} / Σ_{m=0..M} e^{s_im} ]`, `s_im = f(x_i, y_im) − log q(y_im | y_i)`,
    /// `y_i0 = y_i`.
    ///
    /// Where q depends on x alone, f converges to `log p(y | x)` plus a level for any M (Ma and Collins, 2018). Around
    /// the target, as in Eq. 5, it does so as M → ∞; for small M it is too narrow.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct NoiseContrastive<P> {
        /// q.
        pub proposal: P,
        /// M, the number of samples for each target, at least 1; the target itself is not among them.
        pub num_samples: usize where 1..=65_536,
    }
}

impl<P: Proposal> Objective for NoiseContrastive<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let candidates = Candidates::draw(&self.proposal, self.num_samples, y, rng)?;
        let log_q_target = self.proposal.log_prob(&y.detach().unsqueeze(1)?, &y.detach())?.detach();
        check::dims("the result of Proposal::log_prob", &log_q_target, "(B, 1)", &[y.dim(0)?, 1])?;
        let scores = candidates.score(model, features)?;
        log_of_rank(&scores.log_weights(&candidates.log_q)?.broadcast_add(&log_q_target)?)
    }
}
