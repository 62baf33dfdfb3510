//! Several networks as one density.

use candle_core::Tensor;
use ebm_core::EnergyModel;
use ebm_core::math::log_mean_exp;
use ebm_core::rand::RngCore;

use super::{EnergyFeatures, Network};
use crate::Result;

/// K networks: `p(y | x) = (1/K) Σ_k p_k(y | x)`, a mixture of their densities. Each is normalised by itself, so that f of
/// the whole is log p.
#[derive(Clone, Debug)]
pub struct Ensemble(pub Vec<Network>);

/// What a network sees of inputs x.
#[derive(Clone, Debug)]
pub enum MemberFeatures {
    /// Of an energy model.
    Energy {
        /// What f needs.
        features: EnergyFeatures,
        /// log Z, (B, 1).
        log_z: Tensor,
    },
    /// The parameters of a baseline's density, (B, P).
    Outputs(Tensor),
}

impl Ensemble {
    /// What its networks see of x (B, F); see [`Network::features`].
    ///
    /// # Errors
    /// Those of [`Network::features`].
    pub fn features(
        &self,
        x: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<MemberFeatures>> {
        self.0.iter().map(|network| network.features(x, num_samples, rng)).collect()
    }

    /// Of a baseline's `features` those of one row.
    ///
    /// # Errors
    /// For a row that is not there, and for an energy model.
    pub fn row(&self, features: &[MemberFeatures], row: usize) -> Result<Vec<MemberFeatures>> {
        let of = |features: &MemberFeatures| match features {
            MemberFeatures::Outputs(outputs) => Ok(MemberFeatures::Outputs(outputs.narrow(0, row, 1)?)),
            MemberFeatures::Energy { .. } => {
                Err(candle_core::Error::Msg("only a baseline's features have rows".to_owned()).into())
            }
        };
        features.iter().map(of).collect()
    }

    /// The mean of the [`location`](Network::location)s, (B, D).
    ///
    /// # Errors
    /// Those of [`Network::location`].
    pub fn location(&self, features: &[MemberFeatures]) -> Result<Tensor> {
        let each = self.0.iter().zip(features).map(|(network, features)| network.location(features));
        Ok(Tensor::stack(&each.collect::<ebm_core::Result<Vec<_>>>()?, 2)?.mean(2)?)
    }
}

/// f is log p. `Features` are those of the networks, in their order.
impl EnergyModel for Ensemble {
    type Features = Vec<MemberFeatures>;

    fn score(&self, features: &Self::Features, y: &Tensor) -> ebm_core::Result<Tensor> {
        let each = self.0.iter().zip(features).map(|(network, features)| {
            network.log_prob(features, y)?.ok_or(ebm_core::Error::Unsupported {
                what: "the density of a direct regression",
                remedy: "take its prediction, or another method",
            })
        });
        log_mean_exp(&Tensor::stack(&each.collect::<ebm_core::Result<Vec<_>>>()?, 2)?, 2)
    }
}
