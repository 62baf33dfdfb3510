//! A new box module and its training.

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

/// What is trained, and where.
pub struct ModuleTraining<'a> {
    /// The experiment.
    pub config: &'a ExperimentConfig,
    /// The row of it, whose key names the random numbers.
    pub method: &'a MethodConfig,
    /// Root of the initial values and the samples.
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
    pub fn start(&self, pairs: Box<dyn PairSource>) -> Result<BoxModuleTask> {
        let key = Key::new(self.seed).split(&self.method.key);
        let store = ParamStore::new(key.split("init"));
        let module = BoxModule::new(&self.sizes(), store.var_builder(DType::F32, self.device))?;
        let (objective, training) = (&self.method.objective, &self.config.training);
        Ok(BoxModuleTask::new(module, store, pairs, objective, training, key.split("train"))?
            .over(self.group))
    }

    /// What the module is, and how it is used: with step lengths `step_factor` times as long as the method's, on the
    /// backbone of this file.
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
