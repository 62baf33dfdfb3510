//! InfoNCE without density correction.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::weighted::Candidates;
use super::{Objective, log_of_rank};
use crate::{EnergyModel, Proposal, Result, check};

settings! {
    /// The loss of implicit behavioural cloning (Florence et al., 2021): the target against M
    /// counter-examples, with no regard to how frequent those are:
    ///
    /// `−(1/B) Σ_i log [ e^{f(x_i, y_i)/τ} / (e^{f(x_i, y_i)/τ} + Σ_m e^{f(x_i, y_im)/τ}) ]`.
    ///
    /// Where q depends on x alone, `f/τ` converges to `log p(y | x) − log q(y | x)` plus a level for any M,
    /// and so to the density where q is uniform. Around the target, as in Eq. 5, it converges to the density
    /// for M = 1 (conditional NCE; Ceylan and Gutmann, 2018), but for more samples neither to the density nor
    /// to a ratio.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct InfoNce<P> {
        /// q, where counter-examples come from.
        pub proposal: P,
        /// M, the number of counter-examples for each target, at least 1.
        pub num_samples: usize where 1..=65_536,
        /// τ > 0.
        #[serde(default = "one")]
        pub temperature: f64 where 1e-6..=1e6,
    }
}

fn one() -> f64 {
    1.0
}

impl<P: Proposal> Objective for InfoNce<P> {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        check::positive("temperature", self.temperature)?;
        let scores = Candidates::draw(&self.proposal, self.num_samples, y, rng)?.score(model, features)?;
        log_of_rank(&(scores.samples.broadcast_sub(&scores.target)? / self.temperature)?)
    }
}
