//! Objectives and proposals of configuration files.

use candle_core::Tensor;
use ebm_base::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    Batch, DenoisingScoreMatching, InfoNce, KullbackLeibler, LangevinNll, MonteCarloNll, NoiseContrastive,
    NoiseContrastivePlus, Objective, QualityRegression, ScoreMatching, SelfNormalized,
    SquaredQualityRegression,
};
use crate::{
    EnergyModel, GaussianMixture, IouStratified, PerturbedBoxes, Proposal, Result, SharedOffsets, Uniform,
};

settings! {
    /// A proposal as a configuration file states it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    pub enum AnyProposal {
        /// Eq. 5.
        Gaussian(GaussianMixture),
        /// Eq. 5 with offsets that a batch shares.
        SharedGaussian(SharedOffsets),
        /// The uniform distribution on a box.
        Uniform(Uniform),
        /// IoU-Net's proposal, [`IouStratified`], which has no density.
        IouStratified {
            /// Number of jitters in the pool that samples are drawn from.
            pool: usize where 1..=1_000_000,
        },
        /// ATOM's proposal, [`PerturbedBoxes`], which has no density.
        PerturbedBoxes,
    }
}

impl AnyProposal {
    /// Builds the distribution; `rng` draws the pool of [`IouStratified`].
    ///
    /// # Errors
    /// If the pool is empty.
    pub fn build(&self, rng: &mut dyn RngCore) -> Result<Box<dyn Proposal>> {
        Ok(match self.clone() {
            Self::Gaussian(proposal) => Box::new(proposal),
            Self::SharedGaussian(proposal) => Box::new(proposal),
            Self::Uniform(proposal) => Box::new(proposal),
            Self::IouStratified { pool } => Box::new(IouStratified::new(pool, rng)?),
            Self::PerturbedBoxes => Box::new(PerturbedBoxes),
        })
    }
}

settings! {
    /// An objective as a configuration file states it, with its short name in the literature as `kind`.
    /// [`build`](Self::build) returns the objective that trains a network.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    pub enum AnyObjective<P = AnyProposal> {
        /// Eq. 4.
        MlIs(MonteCarloNll<P>),
        /// [`KullbackLeibler`].
        KldIs(KullbackLeibler<P, GaussianMixture>),
        /// [`NoiseContrastive`].
        Nce(NoiseContrastive<P>),
        /// [`NoiseContrastivePlus`].
        NcePlus(NoiseContrastivePlus),
        /// [`LangevinNll`].
        MlMcmc(LangevinNll),
        /// [`ScoreMatching`].
        Sm(ScoreMatching),
        /// [`DenoisingScoreMatching`].
        Dsm(DenoisingScoreMatching),
        /// [`InfoNce`].
        InfoNce(InfoNce<P>),
        /// [`SelfNormalized`].
        Snl(SelfNormalized<P>),
        /// [`QualityRegression`]: IoU-Net, IoU-Net*.
        Quality(QualityRegression<P>),
        /// [`SquaredQualityRegression`]: ATOM.
        SquaredQuality(SquaredQualityRegression<P>),
    }
}

impl AnyObjective {
    /// Builds the objective with its proposal; `rng` draws the pool of [`IouStratified`].
    ///
    /// # Errors
    /// The errors of [`AnyProposal::build`].
    pub fn build(&self, rng: &mut dyn RngCore) -> Result<AnyObjective<Box<dyn Proposal>>> {
        let mut built = |proposal: AnyProposal| proposal.build(rng);
        Ok(match self.clone() {
            Self::MlIs(MonteCarloNll { proposal, num_samples }) => {
                AnyObjective::MlIs(MonteCarloNll { proposal: built(proposal)?, num_samples })
            }
            Self::KldIs(KullbackLeibler { proposal, num_samples, label, normalize_weights }) => {
                let proposal = built(proposal)?;
                AnyObjective::KldIs(KullbackLeibler { proposal, num_samples, label, normalize_weights })
            }
            Self::Nce(NoiseContrastive { proposal, num_samples }) => {
                AnyObjective::Nce(NoiseContrastive { proposal: built(proposal)?, num_samples })
            }
            Self::NcePlus(objective) => AnyObjective::NcePlus(objective),
            Self::MlMcmc(objective) => AnyObjective::MlMcmc(objective),
            Self::Sm(objective) => AnyObjective::Sm(objective),
            Self::Dsm(objective) => AnyObjective::Dsm(objective),
            Self::InfoNce(InfoNce { proposal, num_samples, temperature }) => {
                AnyObjective::InfoNce(InfoNce { proposal: built(proposal)?, num_samples, temperature })
            }
            Self::Snl(SelfNormalized { proposal, num_samples }) => {
                AnyObjective::Snl(SelfNormalized { proposal: built(proposal)?, num_samples })
            }
            Self::Quality(QualityRegression { proposal, num_samples, with_target }) => {
                let proposal = built(proposal)?;
                AnyObjective::Quality(QualityRegression { proposal, num_samples, with_target })
            }
            Self::SquaredQuality(SquaredQualityRegression { proposal, num_samples }) => {
                let proposal = built(proposal)?;
                AnyObjective::SquaredQuality(SquaredQualityRegression { proposal, num_samples })
            }
        })
    }

    /// Returns the mixture of Eq. 5 that the samples are drawn from, or `None` for samples from elsewhere.
    pub fn gaussian(&self) -> Option<GaussianMixture> {
        match self.clone().proposal_mut() {
            Some(AnyProposal::Gaussian(proposal) | AnyProposal::SharedGaussian(SharedOffsets(proposal))) => {
                Some(proposal.clone())
            }
            _ => None,
        }
    }

    /// Returns [`gaussian`](Self::gaussian) if the objective trains exp f as a density of y. Regression of a quality does not.
    pub fn density_proposal(&self) -> Option<GaussianMixture> {
        match self {
            Self::Quality(_) | Self::SquaredQuality(_) => None,
            objective => objective.gaussian(),
        }
    }

    /// Replaces the proposal by `mixture`. An objective without a proposal stays unchanged.
    #[must_use]
    pub fn with_gaussian(mut self, mixture: GaussianMixture) -> Self {
        if let Some(proposal) = self.proposal_mut() {
            *proposal = AnyProposal::Gaussian(mixture);
        }
        self
    }

    fn proposal_mut(&mut self) -> Option<&mut AnyProposal> {
        match self {
            Self::MlIs(objective) => Some(&mut objective.proposal),
            Self::KldIs(objective) => Some(&mut objective.proposal),
            Self::Nce(objective) => Some(&mut objective.proposal),
            Self::InfoNce(objective) => Some(&mut objective.proposal),
            Self::Snl(objective) => Some(&mut objective.proposal),
            Self::Quality(objective) => Some(&mut objective.proposal),
            Self::SquaredQuality(objective) => Some(&mut objective.proposal),
            Self::NcePlus(_) | Self::MlMcmc(_) | Self::Sm(_) | Self::Dsm(_) => None,
        }
    }
}

impl<P: Proposal> Objective for AnyObjective<P> {
    fn batch_loss<M: EnergyModel>(&self, batch: &Batch<'_, M>, rng: &mut dyn RngCore) -> Result<Tensor> {
        match self {
            Self::MlIs(objective) => objective.batch_loss(batch, rng),
            Self::KldIs(objective) => objective.batch_loss(batch, rng),
            Self::Nce(objective) => objective.batch_loss(batch, rng),
            Self::NcePlus(objective) => objective.batch_loss(batch, rng),
            Self::MlMcmc(objective) => objective.batch_loss(batch, rng),
            Self::Sm(objective) => objective.batch_loss(batch, rng),
            Self::Dsm(objective) => objective.batch_loss(batch, rng),
            Self::InfoNce(objective) => objective.batch_loss(batch, rng),
            Self::Snl(objective) => objective.batch_loss(batch, rng),
            Self::Quality(objective) => objective.batch_loss(batch, rng),
            Self::SquaredQuality(objective) => objective.batch_loss(batch, rng),
        }
    }
}
