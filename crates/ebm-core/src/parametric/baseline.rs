//! Parametric models of a configuration file.

use candle_core::Tensor;
use ebm_base::settings;
use serde::{Deserialize, Serialize};

use super::{
    Bins, ConditionalVae, Direct, DirectLoss, Gaussian, JointLaplace, Laplace, MixtureOfGaussians, Ordinal,
    OrdinalHead, Parametric, Quantiles, Softmax,
};
use crate::{Error, Result};

/// Any parametric model, selected by `kind`:
///
/// ```
/// # use ebm_core::parametric::{Baseline, Parametric};
/// let age: Baseline = toml::from_str(r#"
///     kind = "softmax"
///     dim = 1
///     l2_weight = 0.1
///     variance_weight = 0.05
///     bins.uniform = { first = 0.0, step = 1.0, count = 101 }
/// "#)?;
/// assert_eq!(age.num_outputs(), 101);
/// # Ok::<(), toml::de::Error>(())
/// ```
///
/// The other kinds are `direct` (`dim`, `loss` = `"l2"`, `"l1"` or `{ huber = { beta = 1.0 } }`), `gaussian`,
/// `laplace` and `joint_laplace` (`dim`), `mixture_of_gaussians` (`dim`, `components`), `conditional_vae` (`dim`,
/// and optionally `latent_dim` and `num_samples`, with the paper's values as defaults), `ordinal` (`head` =
/// `"niu"` or `"coral"`, `ranks` like `bins`), and `quantiles` (`dim` = 1, `count`). Bins are `uniform` or a list
/// of `centers`. Reading fails for an unknown key and for a setting out of range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Settings", into = "Settings")]
pub enum Baseline {
    /// Direct regression.
    Direct(Direct),
    /// A Gaussian.
    Gaussian(Gaussian),
    /// A Laplace distribution with independent coordinates.
    Laplace(Laplace),
    /// A joint Laplace distribution.
    JointLaplace(JointLaplace),
    /// A mixture density network.
    MixtureOfGaussians(MixtureOfGaussians),
    /// A conditional variational autoencoder.
    ConditionalVae(ConditionalVae),
    /// A softmax over bins.
    Softmax(Softmax),
    /// Ordinal regression.
    Ordinal(Ordinal),
    /// Quantile regression.
    Quantiles(Quantiles),
}

impl Baseline {
    /// Returns the selected model.
    fn model(&self) -> &dyn Parametric {
        match self {
            Self::Direct(model) => model,
            Self::Gaussian(model) => model,
            Self::Laplace(model) => model,
            Self::JointLaplace(model) => model,
            Self::MixtureOfGaussians(model) => model,
            Self::ConditionalVae(model) => model,
            Self::Softmax(model) => model,
            Self::Ordinal(model) => model,
            Self::Quantiles(model) => model,
        }
    }
}

impl Parametric for Baseline {
    fn dim(&self) -> usize {
        self.model().dim()
    }

    fn num_outputs(&self) -> usize {
        self.model().num_outputs()
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.model().loss(outputs, y)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        self.model().mean(outputs)
    }

    fn predict(&self, outputs: &Tensor) -> Result<Tensor> {
        self.model().predict(outputs)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        self.model().log_prob(outputs, y)
    }
}

settings! {
    /// Settings before their check.
    #[derive(Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
    enum Settings {
        Direct {
            dim: usize where 1..=64,
            loss: DirectLoss,
        },
        Gaussian {
            dim: usize where 1..=64,
        },
        Laplace {
            dim: usize where 1..=64,
        },
        JointLaplace {
            dim: usize where 1..=64,
        },
        MixtureOfGaussians {
            dim: usize where 1..=64,
            components: usize where 1..=1024,
        },
        ConditionalVae {
            dim: usize where 1..=64,
            #[serde(default = "latent_dim")]
            latent_dim: usize where 1..=4096,
            #[serde(default = "num_samples")]
            num_samples: usize where 1..=65_536,
        },
        Softmax {
            dim: usize where 1..=64,
            l2_weight: f64 where 0.0..=1e6,
            variance_weight: f64 where 0.0..=1e6,
            bins: Bins,
        },
        Ordinal {
            head: OrdinalHead,
            ranks: Bins,
        },
        Quantiles {
            dim: usize where 1..=1,
            count: usize where 2..=65_536,
        },
    }
}

const fn latent_dim() -> usize {
    ConditionalVae::LATENT_DIM
}

const fn num_samples() -> usize {
    ConditionalVae::NUM_SAMPLES
}

settings!(Baseline as Settings);

impl TryFrom<Settings> for Baseline {
    type Error = Error;

    fn try_from(settings: Settings) -> Result<Self> {
        Ok(match settings {
            Settings::Direct { dim, loss } => Self::Direct(Direct::new(dim, loss)?),
            Settings::Gaussian { dim } => Self::Gaussian(Gaussian::new(dim)?),
            Settings::Laplace { dim } => Self::Laplace(Laplace::new(dim)?),
            Settings::JointLaplace { dim } => Self::JointLaplace(JointLaplace::new(dim)?),
            Settings::MixtureOfGaussians { dim, components } => {
                Self::MixtureOfGaussians(MixtureOfGaussians::new(dim, components)?)
            }
            Settings::ConditionalVae { dim, latent_dim, num_samples } => {
                Self::ConditionalVae(ConditionalVae::new(dim, latent_dim, num_samples)?)
            }
            Settings::Softmax { dim, bins, l2_weight, variance_weight } => {
                Self::Softmax(Softmax::new(dim, bins, l2_weight, variance_weight)?)
            }
            Settings::Ordinal { head, ranks } => Self::Ordinal(Ordinal::new(ranks, head)),
            Settings::Quantiles { dim, count } => Self::Quantiles(Quantiles::new(dim, count)?),
        })
    }
}

impl From<Baseline> for Settings {
    fn from(baseline: Baseline) -> Self {
        match baseline {
            Baseline::Direct(m) => Self::Direct { dim: m.dim(), loss: m.loss },
            Baseline::Gaussian(m) => Self::Gaussian { dim: m.dim() },
            Baseline::Laplace(m) => Self::Laplace { dim: m.dim() },
            Baseline::JointLaplace(m) => Self::JointLaplace { dim: m.dim() },
            Baseline::MixtureOfGaussians(m) => {
                Self::MixtureOfGaussians { dim: m.dim(), components: m.components() }
            }
            Baseline::ConditionalVae(m) => {
                Self::ConditionalVae { dim: m.dim(), latent_dim: m.latent_dim(), num_samples: m.num_samples }
            }
            Baseline::Softmax(m) => Self::Softmax {
                dim: m.dim(),
                l2_weight: m.l2_weight,
                variance_weight: m.variance_weight,
                bins: m.bins().clone(),
            },
            Baseline::Ordinal(m) => Self::Ordinal { head: m.head(), ranks: m.ranks.clone() },
            Baseline::Quantiles(m) => Self::Quantiles { dim: m.dim(), count: m.num_outputs() },
        }
    }
}
