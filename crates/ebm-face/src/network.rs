//! A whole network: a backbone for g_x, a head, and its loss.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::parametric::{Baseline, OrdinalHead, Parametric};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_nn::params::ParamStore;
use rand::RngCore;

use crate::baseline_head::RANKS;
use crate::config::ExperimentConfig;
use crate::{Backbone, BaselineHead, EnergyHead, Result};

/// Key of the energy-based model, beside the keys of the baselines.
pub const ENERGY: &str = "ebm";

/// Prefix of the names of a head's parameters.
const HEAD: &str = "head";
/// Prefix of the names of a backbone's parameters.
pub const TRUNK: &str = "trunk";

/// The part of a network that follows the backbone.
pub enum Head {
    /// A baseline: its family of densities and its network.
    Baseline(Baseline, BaselineHead),
    /// f(x, y).
    Energy(EnergyHead),
}

impl Head {
    /// Builds the head of the method with the key `method`, which is a baseline's key or [`ENERGY`], on g_x of length
    /// `num_features`. The names of its parameters in `store` begin with `head`.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) when there is no such method; as [`BaselineHead::new`] and
    /// [`EnergyHead::new`].
    pub fn of(
        config: &ExperimentConfig,
        method: &str,
        num_features: usize,
        store: &ParamStore,
        device: &Device,
    ) -> Result<Self> {
        let vb = store.var_builder(DType::F32, device).pp(HEAD);
        if method == ENERGY {
            return Ok(Self::Energy(EnergyHead::new(&config.energy_head(), num_features, vb)?));
        }
        let model = config.method(method)?.baseline.clone();
        let head = BaselineHead::new(&model, num_features, config.head.hidden, vb)?;
        Ok(Self::Baseline(model, head))
    }

    /// Preloads in `store` the initial values that depend on the training `targets`: the biases of CORAL, if
    /// `head.ranks_at_log_odds` is set. Call this before [`of`](Self::of).
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) when there is no such method.
    pub fn preload(
        config: &ExperimentConfig,
        method: &str,
        store: &ParamStore,
        targets: impl IntoIterator<Item = f64>,
    ) -> Result<()> {
        if method == ENERGY || !config.head.ranks_at_log_odds {
            return Ok(());
        }
        if let Baseline::Ordinal(model) = &config.method(method)?.baseline
            && model.head() == OrdinalHead::Coral
        {
            let biases = model.log_odds(targets);
            let biases = Tensor::from_slice(&biases, biases.len(), &Device::Cpu)?;
            store.preload([(format!("{HEAD}.{RANKS}"), biases)].into());
        }
        Ok(())
    }

    /// Returns `true` for the head of an energy model.
    pub fn is_energy(&self) -> bool {
        matches!(self, Self::Energy(_))
    }
}

/// A head in training, with its backbone if that is trained too.
pub struct Network {
    /// Backbone. Without one, the inputs are features g_x.
    pub trunk: Option<Box<dyn Backbone>>,
    /// Head.
    pub head: Head,
    /// Loss of f, Eq. 4 in the paper. A baseline has its own loss.
    objective: AnyObjective<Box<dyn Proposal>>,
}

impl Network {
    /// Joins `trunk` and `head` with the objective of `config`.
    ///
    /// # Errors
    /// When the proposal of the objective is invalid.
    pub fn new(config: &ExperimentConfig, trunk: Option<Box<dyn Backbone>>, head: Head) -> Result<Self> {
        // The samples of a pool do not depend on the seed.
        let objective = config.energy.objective.build(&mut Key::new(0).split("pool").rng())?;
        Ok(Self { trunk, head, objective })
    }

    /// Returns the scalar training loss of a batch with the targets `y` `(B, D)`. `x` are images `(B, 3, H, W)` if the
    /// network has a backbone, else features `(B, X)`. Without `train`, normalisations use their running statistics.
    /// The objective draws its samples from `rng`.
    ///
    /// # Errors
    /// When a shape is wrong or a target is not finite.
    pub fn loss(&self, x: &Tensor, y: &Tensor, train: bool, rng: &mut dyn RngCore) -> Result<Tensor> {
        let features = self.trunk.as_ref().map(|trunk| trunk.features(x, train)).transpose()?;
        let g_x = features.as_ref().unwrap_or(x);
        Ok(match &self.head {
            Head::Baseline(model, head) => model.loss(&head.forward(g_x)?, y)?,
            Head::Energy(head) => self.objective.loss(head, &head.features(g_x)?, y, rng)?,
        })
    }
}
