//! The settings of a fit.

use ebm_core::parametric::{
    Baseline, Bins, Direct, DirectLoss, Gaussian, Laplace, MixtureOfGaussians, Quantiles, Softmax,
};
use ebm_core::rand::RngCore;
use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, Proposal};
use ebm_experiment::config::{Settings, row, settings};
use serde::{Deserialize, Serialize};

use crate::Result;

settings! {
    /// How tables are learnt from; `configs/tabular.toml` unless something else is said.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TabularConfig {
        /// K, the networks whose densities are mixed.
        pub members: usize where 1..=100,
        /// The share of the rows that regions are calibrated on, and nothing is learnt from; 0 leaves them as they are.
        pub calibration: f64 where 0.0..=0.5,
        /// The sizes of a network.
        pub network: NetworkConfig,
        /// Its training.
        pub training: TrainingConfig,
        /// How finely densities are computed.
        pub density: DensityConfig,
        /// How a baseline's estimate is refined, Algorithm S1.
        pub refinement: GradientAscent,
        /// What may be fitted.
        pub methods: Vec<MethodConfig>,
    }
}

settings! {
    /// The sizes of a network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct NetworkConfig {
        /// The units of each layer of x.
        pub width: usize where 1..=4096,
        /// The layers of x.
        pub depth: usize where 1..=16,
        /// The units that join x and y.
        pub hidden: usize where 1..=4096,
    }
}

settings! {
    /// The training of a network.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TrainingConfig {
        /// Updates at most.
        pub steps: usize where 1..=10_000_000,
        /// Rows in an update.
        pub batch: usize where 1..=65_536 => "rows",
        /// Of Adam at the start; it falls to 0 along half a cosine.
        pub learning_rate: f64 where 1e-9..=1.0,
        /// The coefficient of the L2 penalty.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Updates between two looks at the validation rows; the network that is best there is kept.
        pub validate_every: usize where 1..=1_000_000 => "updates",
        /// After so many updates without a better network the training ends.
        pub patience: usize where 1..=10_000_000 => "updates",
    }
}

settings! {
    /// How finely densities are computed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct DensityConfig {
        /// Samples of an estimate of Z; eight times as many for several targets.
        pub samples: usize where 8..=65_536,
        /// Points of a density, over all y that were learnt from and half as far again on both sides.
        pub points: usize where 16..=10_000,
    }
}

settings! {
    /// What may be fitted.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct MethodConfig {
        /// Its name on the command line and in files.
        pub key: String,
        /// Its name in tables.
        pub title: String,
        /// The model.
        pub model: ModelConfig,
    }
}

settings! {
    /// A model of p(y | x), or of y alone.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    pub enum ModelConfig {
        /// An energy-based model, trained by this objective.
        Energy(AnyObjective),
        /// Direct regression.
        Direct {
            /// What is minimised.
            loss: DirectLoss,
        },
        /// A Gaussian with independent coordinates.
        Gaussian,
        /// A Laplace distribution with independent coordinates.
        Laplace,
        /// A mixture density network.
        Mixture {
            /// K.
            components: usize where 1..=1024,
        },
        /// Quantiles of a single target by the pinball loss.
        Quantiles {
            /// How many.
            count: usize where 2..=1000,
        },
        /// A softmax over bins, in each coordinate.
        Softmax {
            /// How many, over all y that densities are shown for.
            bins: usize where 2..=65_536,
        },
    }
}

impl Settings for TabularConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("tabular", include_str!("../configs/tabular.toml")),
        ("choices", include_str!("../configs/choices.toml")),
    ];
}

impl TabularConfig {
    /// The settings that are embedded in the program.
    ///
    /// # Errors
    /// Never, as a test says.
    pub fn new() -> Result<Self> {
        Self::embedded("tabular")
    }

    /// The method of that key.
    ///
    /// # Errors
    /// When there is none, naming the nearest.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }
}

/// A model that is ready for targets of D coordinates.
pub enum Built {
    /// An energy-based model, and what it is trained by.
    Energy(AnyObjective<Box<dyn Proposal>>),
    /// A parametric model.
    Baseline(Baseline),
}

impl ModelConfig {
    /// The model of `shown.len()` coordinates, of which each is shown within its two z; `rng` decides what a pool of
    /// samples holds.
    ///
    /// # Errors
    /// When the model cannot have as many coordinates.
    pub fn build(&self, shown: &[[f64; 2]], rng: &mut dyn RngCore) -> Result<Built> {
        let dim = shown.len();
        Ok(Built::Baseline(match self {
            Self::Energy(objective) => {
                let objective = match objective.gaussian() {
                    // The same standard deviations in every coordinate.
                    Some(mixture) if mixture.dim() != dim => {
                        let sigmas: Vec<f64> = mixture.sigmas().iter().map(|sigmas| sigmas[0]).collect();
                        objective.clone().with_gaussian(GaussianMixture::isotropic(&sigmas, dim)?)
                    }
                    _ => objective.clone(),
                };
                return Ok(Built::Energy(objective.build(rng)?));
            }
            Self::Direct { loss } => Baseline::Direct(Direct::new(dim, *loss)?),
            Self::Gaussian => Baseline::Gaussian(Gaussian::new(dim)?),
            Self::Laplace => Baseline::Laplace(Laplace::new(dim)?),
            Self::Mixture { components } => {
                Baseline::MixtureOfGaussians(MixtureOfGaussians::new(dim, *components)?)
            }
            Self::Quantiles { count } => Baseline::Quantiles(Quantiles::new(dim, *count)?),
            Self::Softmax { bins } => {
                let low = shown.iter().map(|range| range[0]).fold(f64::INFINITY, f64::min);
                let high = shown.iter().map(|range| range[1]).fold(f64::NEG_INFINITY, f64::max);
                let step = (high - low) / *bins as f64;
                Baseline::Softmax(Softmax::new(dim, Bins::uniform(low + 0.5 * step, step, *bins)?, 0.0, 0.0)?)
            }
        }))
    }

    /// Whether it has no form for several targets.
    pub fn has_one_target(&self) -> bool {
        matches!(self, Self::Quantiles { .. })
    }

    /// Whether it has a density.
    pub fn has_density(&self) -> bool {
        !matches!(self, Self::Direct { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_settings_are_complete() {
        for (name, _) in TabularConfig::EMBEDDED {
            for method in &TabularConfig::embedded(name).unwrap().methods {
                let mut rng = ebm_base::Key::new(0).rng();
                method.model.build(&[[-3.0, 3.0]], &mut rng).unwrap();
            }
        }
        let config = TabularConfig::new().unwrap();
        assert!(config.method("gausian").unwrap_err().to_string().contains("gaussian"));
    }
}
