//! A whole network: g_x, and a head with what it is trained by.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::{Baseline, OrdinalHead, Parametric};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_data::faces::Faces;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use rand::RngCore;

use crate::baseline_head::RANKS;
use crate::config::{ExperimentConfig, MethodConfig, TrainingConfig};
use crate::{Backbone, BaselineHead, EnergyHead, Result};

/// The key of the energy-based model, beside the keys of the baselines.
pub const ENERGY: &str = "ebm";

/// What a head's parameters are named under.
const HEAD: &str = "head";
/// What a backbone's parameters are named under.
pub const TRUNK: &str = "trunk";

/// A head and its objective.
pub enum Head {
    /// A baseline under its own loss.
    Baseline {
        /// The family of densities.
        model: Baseline,
        /// Its network.
        head: BaselineHead,
    },
    /// f(x, y) under its objective, in the paper Eq. 4.
    Energy {
        /// The objective.
        objective: AnyObjective<Box<dyn Proposal>>,
        /// Its network.
        head: EnergyHead,
    },
}

impl Head {
    /// The head of the method with this key, a baseline's or [`ENERGY`], on g_x of length `num_features`, its
    /// parameters under `head` in `store`; with the settings of its training.
    ///
    /// # Errors
    /// When there is no such method; as [`baseline`](Self::baseline) and [`energy`](Self::energy).
    pub fn of<'a>(
        config: &'a ExperimentConfig,
        method: &str,
        num_features: usize,
        store: &ParamStore,
        device: &Device,
    ) -> Result<(Self, &'a TrainingConfig)> {
        Ok(match method {
            ENERGY => (Self::energy(config, num_features, store, device)?, &config.energy.training),
            key => {
                let head = Self::baseline(config, config.method(key)?, num_features, store, device)?;
                (head, &config.training)
            }
        })
    }

    /// Sets aside in `store` what the parameters of this method's head begin with where the configuration has that of
    /// the training `targets`: to be called before [`of`](Self::of).
    ///
    /// # Errors
    /// When there is no such method.
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

    /// The head of a baseline on g_x of length `num_features`, its parameters under `head` in `store`.
    ///
    /// # Errors
    /// As [`BaselineHead::new`].
    pub fn baseline(
        config: &ExperimentConfig,
        method: &MethodConfig,
        num_features: usize,
        store: &ParamStore,
        device: &Device,
    ) -> Result<Self> {
        let vb = store.var_builder(DType::F32, device).pp(HEAD);
        let head = BaselineHead::new(&method.baseline, num_features, config.head.hidden, vb)?;
        Ok(Self::Baseline { model: method.baseline.clone(), head })
    }

    /// The energy head on g_x of length `num_features`, its parameters under `head` in `store`.
    ///
    /// # Errors
    /// As [`EnergyHead::new`], and when the objective's proposal is not possible.
    pub fn energy(
        config: &ExperimentConfig,
        num_features: usize,
        store: &ParamStore,
        device: &Device,
    ) -> Result<Self> {
        let vb = store.var_builder(DType::F32, device).pp(HEAD);
        let head = EnergyHead::new(&config.energy_head(), num_features, vb)?;
        // What a pool holds does not depend on the seed.
        let objective = config.energy.objective.build(&mut Key::new(0).split("pool").rng())?;
        Ok(Self::Energy { objective, head })
    }

    /// The scalar loss of g_x, `(B, X)`, and the targets `y`, `(B, D)`: the objective's with samples from
    /// `rng`, or a baseline's.
    ///
    /// # Errors
    /// When a shape is wrong or a target is not finite.
    pub fn loss(&self, g_x: &Tensor, y: &Tensor, rng: &mut dyn RngCore) -> Result<Tensor> {
        Ok(match self {
            Self::Baseline { model, head } => model.loss(&head.forward(g_x)?, y)?,
            Self::Energy { objective, head } => objective.loss(head, &head.features(g_x)?, y, rng)?,
        })
    }
}

/// How many numbers of the targets of `faces` lie beyond the classes of a softmax or the ranks of an ordinal
/// regression, which take the last class there; 0 for other families.
pub fn num_clamped(model: &Baseline, faces: &Faces) -> usize {
    let bins = match model {
        Baseline::Softmax(model) => model.bins(),
        Baseline::Ordinal(model) => model.ranks(),
        _ => return 0,
    };
    let numbers = faces.faces.iter().flat_map(|face| &face.target);
    numbers.filter(|&&number| bins.containing(f64::from(number)).is_none()).count()
}

/// A head, and the backbone below it where that is trained too.
pub struct Network {
    /// Without it the inputs are features g_x.
    pub trunk: Option<Box<dyn Backbone>>,
    /// The rest.
    pub head: Head,
}

impl Network {
    /// The scalar training loss of a batch: `x` is images `(B, 3, H, W)` under a backbone, features `(B, X)`
    /// without one.
    ///
    /// # Errors
    /// As [`Head::loss`].
    pub fn loss(&self, x: &Tensor, y: &Tensor, rng: &mut dyn RngCore) -> Result<Tensor> {
        self.loss_of(x, y, true, rng)
    }

    /// The same without training: normalisations by their running statistics.
    ///
    /// # Errors
    /// As [`Head::loss`].
    pub fn frozen_loss(&self, x: &Tensor, y: &Tensor, rng: &mut dyn RngCore) -> Result<f64> {
        let loss = self.loss_of(x, y, false, rng)?.detach();
        Ok(loss.to_dtype(DType::F64)?.to_scalar()?)
    }

    fn loss_of(&self, x: &Tensor, y: &Tensor, train: bool, rng: &mut dyn RngCore) -> Result<Tensor> {
        match &self.trunk {
            Some(trunk) => self.head.loss(&trunk.features(x, train)?, y, rng),
            None => self.head.loss(x, y, rng),
        }
    }
}
