//! An objective by name.

use candle_core::Tensor;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    DenoisingScoreMatching, InfoNce, KullbackLeibler, LangevinNll, MonteCarloNll, NoiseContrastive,
    NoiseContrastivePlus, Objective, ScoreMatching, SelfNormalized,
};
use crate::{EnergyModel, GaussianMixture, Proposal, Result, SharedOffsets, Uniform};

/// A proposal as it stands in a configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnyProposal {
    /// Eq. 5.
    Gaussian(GaussianMixture),
    /// Eq. 5 with offsets that a batch shares.
    SharedGaussian(SharedOffsets),
    /// A box.
    Uniform(Uniform),
}

impl AnyProposal {
    fn inner(&self) -> &dyn Proposal {
        match self {
            Self::Gaussian(proposal) => proposal,
            Self::SharedGaussian(proposal) => proposal,
            Self::Uniform(proposal) => proposal,
        }
    }
}

impl Proposal for AnyProposal {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        self.inner().sample(center, num_samples, rng)
    }

    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        self.inner().log_prob(y, center)
    }

    fn sample_with_log_prob(
        &self,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        self.inner().sample_with_log_prob(center, num_samples, rng)
    }
}

/// An objective as it stands in a configuration file, `kind` being its short name in the literature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnyObjective {
    /// Eq. 4.
    MlIs(MonteCarloNll<AnyProposal>),
    /// [`KullbackLeibler`].
    KldIs(KullbackLeibler<AnyProposal, GaussianMixture>),
    /// [`NoiseContrastive`].
    Nce(NoiseContrastive<AnyProposal>),
    /// [`NoiseContrastivePlus`].
    NcePlus(NoiseContrastivePlus),
    /// [`LangevinNll`].
    MlMcmc(LangevinNll),
    /// [`ScoreMatching`].
    Sm(ScoreMatching),
    /// [`DenoisingScoreMatching`].
    Dsm(DenoisingScoreMatching),
    /// [`InfoNce`].
    InfoNce(InfoNce<AnyProposal>),
    /// [`SelfNormalized`].
    Snl(SelfNormalized<AnyProposal>),
}

impl Objective for AnyObjective {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        match self {
            Self::MlIs(objective) => objective.loss(model, features, y, rng),
            Self::KldIs(objective) => objective.loss(model, features, y, rng),
            Self::Nce(objective) => objective.loss(model, features, y, rng),
            Self::NcePlus(objective) => objective.loss(model, features, y, rng),
            Self::MlMcmc(objective) => objective.loss(model, features, y, rng),
            Self::Sm(objective) => objective.loss(model, features, y, rng),
            Self::Dsm(objective) => objective.loss(model, features, y, rng),
            Self::InfoNce(objective) => objective.loss(model, features, y, rng),
            Self::Snl(objective) => objective.loss(model, features, y, rng),
        }
    }
}
