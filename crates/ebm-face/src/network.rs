//! A whole network: g_x, and a head with what it is trained by.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::parametric::{Baseline, OrdinalHead, Parametric};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_nn::params::ParamStore;
use rand::RngCore;

use crate::baseline_head::RANKS;
use crate::config::ExperimentConfig;
use crate::{Backbone, BaselineHead, EnergyHead, Result};

/// The key of the energy-based model, beside the keys of the baselines.
pub const ENERGY: &str = "ebm";

/// What a head's parameters are named under.
const HEAD: &str = "head";
/// What a backbone's parameters are named under.
pub const TRUNK: &str = "trunk";

/// The part of a network that knows y.
pub enum Head {
    /// A baseline: the family of densities, and its network.
    Baseline(Baseline, BaselineHead),
    /// f(x, y).
    Energy(EnergyHead),
}

impl Head {
    /// The head of the method with this key, a baseline's or [`ENERGY`], on g_x of length `num_features`, its
    /// parameters under `head` in `store`.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) when there is no such method; as [`BaselineHead::new`] and [`EnergyHead::new`].
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

    /// Sets aside in `store` what the parameters of this method's head begin with where the configuration has that of
    /// the training `targets`: to be called before [`of`](Self::of).
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

    /// Whether it is f(x, y).
    pub fn is_energy(&self) -> bool {
        matches!(self, Self::Energy(_))
    }
}

/// A head in training, and the backbone below it where that is trained too.
pub struct Network {
    /// Without it the inputs are features g_x.
    pub trunk: Option<Box<dyn Backbone>>,
    /// The rest.
    pub head: Head,
    /// The loss of f, in the paper Eq. 4; a baseline has its own.
    objective: AnyObjective<Box<dyn Proposal>>,
}

impl Network {
    /// A network that is trained as `config` says.
    ///
    /// # Errors
    /// When the proposal of the configuration's objective is not possible.
    pub fn new(config: &ExperimentConfig, trunk: Option<Box<dyn Backbone>>, head: Head) -> Result<Self> {
        // What a pool holds does not depend on the seed.
        let objective = config.energy.objective.build(&mut Key::new(0).split("pool").rng())?;
        Ok(Self { trunk, head, objective })
    }

    /// The scalar training loss of a batch with the targets `y`, `(B, D)`: `x` is images `(B, 3, H, W)` under a
    /// backbone, features `(B, X)` without one. Without `train` normalisations are by their running statistics. The
    /// objective draws its samples from `rng`.
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
