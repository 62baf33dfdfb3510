//! Setup of the training of a new box module.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use ebm_train::Group;

use super::{BoxModuleTask, PairSource};
use crate::Result;
use crate::backbone::Backbone;
use crate::box_module::{BoxModule, BoxModuleConfig};
use crate::config::ExperimentConfig;
use crate::method::MethodConfig;
use crate::saved::{DensityConfig, SavedConfig};

/// Setup of the training of a box module.
pub struct ModuleTraining<'a> {
    /// Settings of the experiment.
    pub config: &'a ExperimentConfig,
    /// Method, one of `config.methods`. Its key and the seed determine the random numbers.
    pub method: &'a MethodConfig,
    /// Seed of the initial values and the samples.
    pub seed: u64,
    /// Frozen backbone.
    pub backbone: &'a Arc<Backbone>,
    /// Device of the training.
    pub device: &'a Device,
    /// Processes that train the module together.
    pub group: &'a Group,
}

impl ModuleTraining<'_> {
    /// Creates a new box module and its training on `pairs`.
    ///
    /// # Errors
    /// When the proposal of the objective is invalid.
    pub fn start(&self, pairs: Box<dyn PairSource>) -> Result<BoxModuleTask> {
        let key = Key::new(self.seed).split(&self.method.key);
        let store = ParamStore::new(key.split("init"));
        let module = BoxModule::new(&self.sizes(), store.var_builder(DType::F32, self.device))?;
        let (objective, training) = (&self.method.objective, &self.config.training);
        Ok(BoxModuleTask::new(module, store, pairs, objective, training, key.split("train"))?
            .over(self.group))
    }

    /// Returns the settings to save with the module. `backbone` is the path of the backbone's file, and `step_factor`
    /// multiplies the step lengths of the method.
    #[must_use]
    pub fn saved(&self, backbone: PathBuf, step_factor: f64) -> SavedConfig {
        let density = |proposal| DensityConfig { proposal, temperature: 1.0, factors: None };
        let density = self.method.proposal().map(density);
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

    fn sizes(&self) -> BoxModuleConfig {
        BoxModuleConfig::atom(self.backbone.channels()).narrowed(self.config.narrowed)
    }
}
