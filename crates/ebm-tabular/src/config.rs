//! Settings of a fit.

use ebm_core::parametric::{
    Baseline, Bins, Direct, DirectLoss, Gaussian, Laplace, MixtureOfGaussians, Quantiles, Softmax,
};
use ebm_core::rand::RngCore;
use ebm_core::{AnyObjective, GaussianMixture, GradientAscent, Proposal};
use ebm_experiment::config::{Settings, row, settings};
use serde::{Deserialize, Serialize};

use crate::Result;

settings! {
    /// Settings of a fit to a table; the default is `configs/tabular.toml`.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TabularConfig {
        /// Number K of networks whose densities are mixed.
        pub members: usize where 1..=100,
        /// Fraction of the rows for calibrating regions, not used in training; 0 leaves regions uncalibrated.
        pub calibration: f64 where 0.0..=0.5,
        /// Sizes of the networks.
        pub network: NetworkConfig,
        /// Training of the networks.
        pub training: TrainingConfig,
        /// Resolution of the computed densities.
        pub density: DensityConfig,
        /// Refinement of a baseline's estimate, Algorithm S1.
        pub refinement: GradientAscent,
        /// Methods that can be fitted.
        pub methods: Vec<MethodConfig>,
    }
}

settings! {
    /// Sizes of a network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct NetworkConfig {
        /// Number of units of each layer of x.
        pub width: usize where 1..=4096,
        /// Number of layers of x.
        pub depth: usize where 1..=16,
        /// Number of units that join x and y.
        pub hidden: usize where 1..=4096,
        /// Largest number of bins of each column of numbers, with the same number of rows in each and at least ten; f bends
        /// at their ends. 0 for none.
        #[serde(default)]
        pub bins: usize where 0..=1024,
    }
}

settings! {
    /// Training of a network.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TrainingConfig {
        /// Largest number of updates.
        pub steps: usize where 1..=10_000_000,
        /// Number of rows in an update.
        pub batch: usize where 1..=65_536 => "rows",
        /// Initial learning rate of Adam; it falls to 0 along half a cosine.
        pub learning_rate: f64 where 1e-9..=1.0,
        /// Coefficient of the L2 penalty.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Share of the units of each layer of x that an update leaves out. All networks do without it if the first few have
        /// the better validation so.
        #[serde(default)]
        pub dropout: f64 where 0.0..=0.9,
        /// Weight of the earlier updates in the running mean of the parameters, which is validated and kept; 0 for the last
        /// parameters alone.
        #[serde(default)]
        pub average: f64 where 0.0..=0.9999,
        /// Number of updates between two validations; the network with the best validation is kept.
        pub validate_every: usize where 1..=1_000_000 => "updates",
        /// Number of updates without a better validation after which training ends.
        pub patience: usize where 1..=10_000_000 => "updates",
    }
}

settings! {
    /// Resolution of the computed densities.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct DensityConfig {
        /// Number of samples for the estimate of Z; several targets use eight times this number.
        pub samples: usize where 8..=65_536,
        /// Number of grid points of a density; as many further points lie where its mass is. The grid covers all y of the training
        /// rows, extended by half on both sides.
        pub points: usize where 16..=10_000,
    }
}

settings! {
    /// A method that can be fitted.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct MethodConfig {
        /// Name on the command line and in files.
        pub key: String,
        /// Name in tables.
        pub title: String,
        /// Model of the method.
        pub model: ModelConfig,
    }
}

settings! {
    /// A model of p(y | x), or of y alone.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    pub enum ModelConfig {
        /// Energy-based model, trained with this objective.
        Energy(AnyObjective),
        /// Direct regression of y.
        Direct {
            /// Loss of the training.
            loss: DirectLoss,
        },
        /// Gaussian with independent coordinates.
        Gaussian,
        /// Laplace distribution with independent coordinates.
        Laplace,
        /// Mixture density network.
        Mixture {
            /// Number of components.
            components: usize where 1..=1024,
        },
        /// Quantiles of a single target by the pinball loss.
        Quantiles {
            /// Number of quantiles.
            count: usize where 2..=1000,
        },
        /// Softmax over bins, in each coordinate.
        Softmax {
            /// Number of bins, over the range of the density grid.
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
    /// Returns the settings that are embedded in the program.
    ///
    /// # Errors
    /// Never fails; a test ensures it.
    pub fn new() -> Result<Self> {
        Self::embedded("tabular")
    }

    /// Returns the method with this key.
    ///
    /// # Errors
    /// Fails for an unknown key, naming the nearest known one.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }
}

/// A model that is built for targets of D coordinates.
pub enum Built {
    /// The objective of an energy-based model.
    Energy(AnyObjective<Box<dyn Proposal>>),
    /// A parametric model.
    Baseline(Baseline),
}

impl ModelConfig {
    /// Builds the model for `shown.len()` coordinates. Each entry of `shown` is the range of z of one coordinate's density;
    /// `rng` draws the samples of a pool.
    ///
    /// # Errors
    /// Fails if the model cannot have this number of coordinates.
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

    /// Returns whether the model supports only a single target.
    pub fn has_one_target(&self) -> bool {
        matches!(self, Self::Quantiles { .. })
    }

    /// Returns whether the model has a density.
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
