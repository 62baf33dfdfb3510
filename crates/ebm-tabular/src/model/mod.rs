//! The networks: an energy-based model and the baselines on the same layers.

mod energy;
mod proposal;
mod ramps;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Linear, VarBuilder};
use ebm_core::math::log_mean_exp;
use ebm_core::parametric::{Baseline, Parametric};
use ebm_core::rand::RngCore;
use ebm_core::{EnergyModel, Objective, Proposal, Tempered};
use ebm_nn::init;
use ebm_nn::params::ParamStore;
use ebm_ops::{linear, silu};
use rand::Rng;

pub use energy::{EnergyFeatures, EnergyHead};
pub use proposal::StudentProposal;
pub use ramps::{Bin, Ramps};

use crate::Result;
use crate::config::{Built, NetworkConfig};
use crate::features::Features;

/// One network of an ensemble.
#[derive(Clone, Debug)]
pub struct Network {
    trunk: Trunk,
    head: Head,
    /// Temperature of f, [`Tempered`]; 1 in training.
    temperature: f64,
}

/// The last part of a network.
#[derive(Clone, Debug)]
pub enum Head {
    /// f(x, y) of an energy-based model.
    Energy(EnergyHead),
    /// A parametric model, and the layer of its outputs.
    Baseline(Baseline, Linear),
}

/// Sizes and method of a network.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Encoding of the inputs x.
    pub features: &'a Features,
    /// Number D of targets.
    pub dim: usize,
    /// Sizes of the layers.
    pub network: &'a NetworkConfig,
    /// Method that is fitted.
    pub method: &'a Built,
}

impl Network {
    /// Creates the network with the parameters in `store`; missing ones are initialised at random.
    ///
    /// # Errors
    /// Fails if a tensor in `store` has another shape.
    pub fn new(shape: &Shape<'_>, store: &ParamStore) -> Result<Self> {
        let vb = store.var_builder(DType::F32, &Device::Cpu);
        let &NetworkConfig { width, hidden, .. } = shape.network;
        let head = match shape.method {
            Built::Energy(_) => Head::Energy(EnergyHead::new(shape.dim, width, hidden, vb.pp("head"))?),
            Built::Baseline(baseline) => {
                Head::Baseline(baseline.clone(), init::linear(width, baseline.num_outputs(), vb.pp("head"))?)
            }
        };
        Ok(Self { trunk: Trunk::new(shape, vb.pp("trunk"))?, head, temperature: 1.0 })
    }

    /// Divides f of an energy-based model by `temperature` in predictions.
    #[must_use]
    pub fn tempered(self, temperature: f64) -> Self {
        Self { temperature, ..self }
    }

    /// Returns whether the method has a density.
    pub fn has_density(&self) -> bool {
        !matches!(self.head, Head::Baseline(Baseline::Direct(_), _))
    }

    /// Computes the loss of a batch, x (B, F) and y (B, D): Eq. 4 or the loss of another objective or baseline. A share
    /// `dropout` of the units is left out.
    ///
    /// # Errors
    /// Fails if a shape is wrong, or if the objective needs something that this network does not offer.
    pub fn loss(
        &self,
        method: &Built,
        x: &Tensor,
        y: &Tensor,
        dropout: f64,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let h = self.trunk.forward(x, dropout, rng)?;
        Ok(match (&self.head, method) {
            (Head::Energy(head), Built::Energy(objective)) => {
                objective.loss(head, &head.features(&h)?, y, rng)? // Eq. 4
            }
            (Head::Baseline(baseline, layer), _) => baseline.loss(&forward(layer, &h)?, y)?,
            (Head::Energy(_), Built::Baseline(_)) => {
                return Err(
                    candle_core::Error::Msg("an energy model has no parametric loss".to_owned()).into()
                );
            }
        })
    }

    /// Computes the features of x (B, F), and for an energy-based model the estimate of log Z(x) from `num_samples` samples
    /// of [`StudentProposal`].
    ///
    /// # Errors
    /// Fails if a shape is wrong.
    pub fn features(&self, x: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<MemberFeatures> {
        let h = self.trunk.forward(x, 0.0, rng)?;
        match &self.head {
            Head::Energy(head) => {
                let features = head.features(&h)?;
                let (f, log_q) = sampled(head, &features, num_samples, rng)?;
                let log_z = log_z(&f, &log_q, self.temperature)?.unsqueeze(1)?;
                Ok(MemberFeatures::Energy { log_z, features })
            }
            Head::Baseline(_, layer) => Ok(MemberFeatures::Outputs(forward(layer, &h)?)),
        }
    }

    /// Computes log p(y | x), (B, M), at `y` (B, M, D); none for a method without a density.
    ///
    /// # Errors
    /// Fails if a shape is wrong.
    pub fn log_prob(&self, features: &MemberFeatures, y: &Tensor) -> ebm_core::Result<Option<Tensor>> {
        match (&self.head, features) {
            (Head::Energy(head), MemberFeatures::Energy { features, log_z }) => {
                let f = Tempered::new(head, self.temperature)?.score(features, y)?;
                Ok(Some(f.broadcast_sub(log_z)?))
            }
            (Head::Baseline(baseline, _), MemberFeatures::Outputs(outputs)) => baseline.log_prob(outputs, y),
            _ => Err(candle_core::Error::Msg("the features are another network's".to_owned()).into()),
        }
    }

    /// Computes log p(y | x) of each row, (B), for x (B, F) and `y` (B, D): of an energy-based model at each of these
    /// temperatures, of a baseline at 1; nothing for a method without a density.
    ///
    /// # Errors
    /// Fails if a shape is wrong.
    pub fn log_probs(
        &self,
        x: &Tensor,
        y: &Tensor,
        temperatures: &[f64],
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<(f64, Tensor)>> {
        let (h, y) = (self.trunk.forward(x, 0.0, rng)?, y.unsqueeze(1)?);
        match &self.head {
            Head::Energy(head) => {
                let features = head.features(&h)?;
                let (f, log_q) = sampled(head, &features, num_samples, rng)?;
                let of_y = head.score(&features, &y)?.squeeze(1)?;
                let at = |&temperature: &f64| {
                    Ok((temperature, ((&of_y / temperature)? - log_z(&f, &log_q, temperature)?)?))
                };
                temperatures.iter().map(at).collect()
            }
            Head::Baseline(baseline, layer) => {
                let log_p = baseline.log_prob(&forward(layer, &h)?, &y)?;
                log_p.into_iter().map(|log_p| Ok((1.0, log_p.squeeze(1)?))).collect()
            }
        }
    }

    /// Returns a point prediction of y, (B, D), without a density: a baseline's prediction as in the paper, or the location
    /// μ of an energy-based model.
    ///
    /// # Errors
    /// Fails if the outputs are not finite.
    pub fn location(&self, features: &MemberFeatures) -> ebm_core::Result<Tensor> {
        match (&self.head, features) {
            (_, MemberFeatures::Energy { features, .. }) => Ok(features.location.squeeze(1)?),
            (Head::Baseline(baseline, _), MemberFeatures::Outputs(outputs)) => baseline.predict(outputs),
            (Head::Energy(_), MemberFeatures::Outputs(_)) => {
                Err(candle_core::Error::Msg("the features are another network's".to_owned()).into())
            }
        }
    }
}

/// Returns f and log q, (B, M), at M samples of the network's own proposal.
fn sampled(
    head: &EnergyHead,
    features: &EnergyFeatures,
    num_samples: usize,
    rng: &mut dyn RngCore,
) -> Result<(Tensor, Tensor)> {
    let center = features.location.squeeze(1)?;
    let (y, log_q) = features.proposal().sample_with_log_prob(&center, num_samples, rng)?;
    Ok((head.score(features, &y)?, log_q))
}

/// Estimates log Z of f/T, (B), from f and log q, (B, M), at M samples of a proposal.
fn log_z(f: &Tensor, log_q: &Tensor, temperature: f64) -> Result<Tensor> {
    Ok(log_mean_exp(&((f / temperature)? - log_q)?, 1)?)
}

/// Applies a fully-connected layer: x (B, inputs) -> (B, outputs).
fn forward(layer: &Linear, x: &Tensor) -> Result<Tensor> {
    Ok(linear(x, layer.weight(), layer.bias())?)
}

/// Ramps of the inputs, then fully-connected layers, each followed by SiLU, `z · sigmoid(z)`.
#[derive(Clone, Debug)]
struct Trunk {
    ramps: Option<Ramps>,
    layers: Vec<Linear>,
}

impl Trunk {
    /// Creates the layers of this shape.
    fn new(shape: &Shape<'_>, vb: VarBuilder) -> Result<Self> {
        let &NetworkConfig { width, depth, .. } = shape.network;
        let bins = shape.features.bins();
        let first = shape.features.dim() + bins.len();
        let layer = |index: usize| {
            let inputs = if index == 0 { first } else { width };
            Ok(init::linear(inputs, width, vb.pp(format!("layer{}", index + 1)))?)
        };
        Ok(Self { ramps: Ramps::new(&bins)?, layers: (0..depth).map(layer).collect::<Result<_>>()? })
    }

    /// Applies the layers: x (B, F) -> (B, width). A share `dropout` of each layer's units is 0, and the others are larger.
    fn forward(&self, x: &Tensor, dropout: f64, rng: &mut dyn RngCore) -> Result<Tensor> {
        let mut h = self.ramps.as_ref().map_or_else(|| Ok(x.clone()), |ramps| ramps.forward(x))?;
        for layer in &self.layers {
            h = silu(&forward(layer, &h)?)?;
            if dropout > 0.0 {
                let kept = |_| if rng.random_bool(dropout) { 0.0 } else { (1.0 / (1.0 - dropout)) as f32 };
                let kept = (0..h.elem_count()).map(kept).collect();
                h = (&h * Tensor::from_vec(kept, h.shape(), h.device())?)?;
            }
        }
        Ok(h)
    }
}

/// An ensemble of K networks: `p(y | x) = (1/K) Σ_k p_k(y | x)`, a mixture of their densities. Each density is
/// normalised by itself, so f of the ensemble is log p.
#[derive(Clone, Debug)]
pub struct Ensemble(pub Vec<Network>);

/// Features of inputs x that one network computes.
#[derive(Clone, Debug)]
pub enum MemberFeatures {
    /// Features of an energy-based model.
    Energy {
        /// Inputs of f.
        features: EnergyFeatures,
        /// Estimate of log Z, (B, 1).
        log_z: Tensor,
    },
    /// Parameters of a baseline's density, (B, P).
    Outputs(Tensor),
}

impl Ensemble {
    /// Computes the features of x (B, F) in every network; see [`Network::features`].
    ///
    /// # Errors
    /// The errors of [`Network::features`].
    pub fn features(
        &self,
        x: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<MemberFeatures>> {
        self.0.iter().map(|network| network.features(x, num_samples, rng)).collect()
    }

    /// Computes the mean of the networks' [`location`](Network::location)s, (B, D).
    ///
    /// # Errors
    /// The errors of [`Network::location`].
    pub fn location(&self, features: &[MemberFeatures]) -> Result<Tensor> {
        let each = self.0.iter().zip(features).map(|(network, features)| network.location(features));
        Ok(Tensor::stack(&each.collect::<ebm_core::Result<Vec<_>>>()?, 2)?.mean(2)?)
    }
}

/// f is log p. The `Features` are those of the networks, in their order.
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
