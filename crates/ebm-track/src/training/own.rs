//! A box module on sequences of one's own.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::sequences::Sequence;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Group, Progress};

use super::{BoxModuleTask, CropStream, PairFeatures, PairSource, StreamPairs};
use crate::Result;
use crate::backbone::Backbone;
use crate::box_module::{BoxModule, BoxModuleConfig};
use crate::config::ExperimentConfig;
use crate::method::MethodConfig;
use crate::reproduce::{Chosen, choose, data};
use crate::saved::{DensityConfig, SavedConfig};

/// Batches of pairs that a module is judged on.
const VALIDATION_BATCHES: usize = 8;

/// What is trained, on what and where.
pub struct ModuleTraining<'a> {
    /// The experiment.
    pub config: &'a ExperimentConfig,
    /// The row of it.
    pub method: &'a MethodConfig,
    /// What its random numbers are named by: the row's key, or that of a variant of it.
    pub name: &'a str,
    /// Root of the initial values, the pairs and the samples.
    pub seed: u64,
    /// The frozen backbone.
    pub backbone: &'a Arc<Backbone>,
    /// Where the module is trained.
    pub device: &'a Device,
    /// The processes that train it.
    pub group: &'a Group,
}

impl ModuleTraining<'_> {
    /// A new box module, about to learn from `pairs`.
    ///
    /// # Errors
    /// When its objective's proposal is not possible.
    pub fn start<S: PairSource>(&self, pairs: S) -> Result<BoxModuleTask<S>> {
        let key = Key::new(self.seed).split(self.name);
        let store = ParamStore::new(key.split("init"));
        let module = BoxModule::new(&self.sizes(), store.var_builder(DType::F32, self.device))?;
        let (objective, training) = (&self.method.objective, &self.config.training);
        Ok(BoxModuleTask::new(module, store, pairs, objective, training, key.split("train"))?
            .over(self.group))
    }

    /// This process's share of the batches of pairs of frames of `sequences` that a module learns from.
    ///
    /// # Errors
    /// When there is no pair, or a batch has no share for each process.
    pub fn pairs(&self, sequences: Vec<Sequence>) -> Result<StreamPairs> {
        self.pairs_of(PairRecipe::ATOM, sequences, data::pairs_key(self.seed))
    }

    /// Pairs of frames of `sequences` that a module is judged on.
    ///
    /// # Errors
    /// When there is none.
    pub fn held_out(&self, sequences: Vec<Sequence>) -> Result<Vec<PairFeatures>> {
        let alone = ModuleTraining { group: &Group::alone(), ..*self };
        let key = Key::new(0).split("validation");
        let mut pairs = alone.pairs_of(PairRecipe::ATOM_VALIDATION, sequences, key)?;
        (0..VALIDATION_BATCHES).map(|step| pairs.batch(step)).collect()
    }

    /// What the module is, and how it is used: as `chosen`, on the backbone of this file.
    #[must_use]
    pub fn saved(&self, backbone: PathBuf, chosen: Chosen) -> SavedConfig {
        let Chosen { step_factor, temperature } = chosen;
        let density =
            self.method.proposal().map(|proposal| DensityConfig { proposal, temperature, factors: None });
        SavedConfig {
            method: self.method.key.clone(),
            seed: self.seed,
            backbone,
            box_module: self.sizes(),
            refinement: self.method.refinement.scaled(step_factor),
            density,
            tracker: self.config.tracker.clone(),
        }
    }

    /// How the module is best used on held-out pairs.
    ///
    /// # Errors
    /// When the network refuses.
    pub fn choose(
        &self,
        module: &BoxModule,
        held_out: &[PairFeatures],
        progress: &mut dyn Progress,
    ) -> Result<Chosen> {
        choose(self.config, self.method, &self.method.key, module, held_out, progress)
    }

    fn sizes(&self) -> BoxModuleConfig {
        BoxModuleConfig::atom(self.backbone.channels()).narrowed(self.config.narrowed)
    }

    fn pairs_of(&self, recipe: PairRecipe, sequences: Vec<Sequence>, key: Key) -> Result<StreamPairs> {
        let batch_size = self.config.training.batch_size;
        let sampler = data::pair_sampler(self.config, batch_size, vec![Source { sequences, weight: 1.0 }])?;
        let loader = LoaderConfig::in_order(recipe, batch_size);
        let loader = match self.group.world() {
            1 => loader,
            _ => loader.part(self.group.share_of(batch_size).map_err(ebm_train::Error::from)?),
        };
        let loader = Loader::new(sampler, loader, key)?;
        Ok(StreamPairs::new(CropStream::new(loader, self.device.clone()), Arc::clone(self.backbone)))
    }
}
