//! What a network is trained to minimise: Eq. 4 and its rivals.

mod config;
mod denoising_score_matching;
mod derivatives;
mod info_nce;
mod joint_nce;
mod kullback_leibler;
mod langevin_nll;
mod monte_carlo_nll;
mod noise_contrastive;
mod noise_contrastive_plus;
mod quality_regression;
mod score_matching;
mod self_normalized;
mod weighted;

use candle_core::Tensor;
use rand::RngCore;

pub use config::{AnyObjective, AnyProposal};
pub use denoising_score_matching::DenoisingScoreMatching;
pub use derivatives::{Derivatives, Directions};
pub use info_nce::InfoNce;
pub use joint_nce::JointNce;
pub use kullback_leibler::KullbackLeibler;
pub use langevin_nll::LangevinNll;
pub use monte_carlo_nll::MonteCarloNll;
pub use noise_contrastive::NoiseContrastive;
pub use noise_contrastive_plus::NoiseContrastivePlus;
pub use quality_regression::{QualityRegression, SquaredQualityRegression};
pub use score_matching::ScoreMatching;
pub use self_normalized::SelfNormalized;

use crate::math::log_sum_exp;
use crate::{EnergyModel, Result};

/// A loss for an energy model.
pub trait Objective {
    /// The scalar loss, the mean over a batch of B inputs with their targets `y`, shape `(B, D)`. Its
    /// gradient reaches the model's parameters and the features, but neither the targets nor the samples.
    ///
    /// Scores are not checked: a NaN among them makes the loss NaN, which whoever trains must look for before
    /// the update.
    ///
    /// # Errors
    /// When the batch is empty, a target is not finite, the shapes do not fit, or the model fails.
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor>;
}

/// The mean over the batch of `−log [ 1 / (1 + Σ_m exp d_im) ]`, where `d`, shape `(B, M)`, is by how much
/// each rival's score exceeds the target's.
fn log_of_rank(d: &Tensor) -> Result<Tensor> {
    let target = d.narrow(1, 0, 1)?.zeros_like()?;
    Ok(log_sum_exp(&Tensor::cat(&[&target, d], 1)?, 1)?.mean_all()?)
}
