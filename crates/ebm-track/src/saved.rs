//! Trained box modules in their run directories, and back.
//!
//! ```text
//! runs/<table>/<method>-<seed>/
//!   tracker.toml         SavedConfig
//!   model.safetensors    the box module's parameters
//!   …                    what ebm-train leaves
//! ```

use std::path::{Path, PathBuf};

use candle_core::Device;
use ebm_data::files::{read_settings, write_atomic};
use ebm_nn::params::ParamStore;
use serde::{Deserialize, Serialize};

use crate::backbone::Backbone;
use crate::box_module::{BoxModule, BoxModuleConfig};
use crate::error::{Error, Result};
use crate::method::Refinement;
use crate::tracker::TrackerConfig;

const CONFIG: &str = "tracker.toml";
const MODEL: &str = "model.safetensors";

/// What a saved box module is, and how it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedConfig {
    /// The key of the method that it was trained by.
    pub method: String,
    /// The seed of its training.
    pub seed: u64,
    /// The backbone's weight file; where it is relative, from the directory that holds the run.
    pub backbone: PathBuf,
    /// Its sizes.
    pub box_module: BoxModuleConfig,
    /// How boxes climb f.
    pub refinement: Refinement,
    /// The tracker.
    #[serde(default)]
    pub tracker: TrackerConfig,
}

impl SavedConfig {
    /// Whether a trained module is in `dir`.
    pub fn exists(dir: &Path) -> bool {
        dir.join(CONFIG).is_file()
    }

    /// The file of the box module's parameters in `dir`.
    pub fn model_path(dir: &Path) -> PathBuf {
        dir.join(MODEL)
    }

    /// The backbone's weight file, this being what was saved in `dir`.
    pub fn backbone_path(&self, dir: &Path) -> PathBuf {
        dir.parent().unwrap_or(Path::new(".")).join(&self.backbone)
    }

    /// Writes this and the module's parameters, those of `store`, to `dir`.
    ///
    /// # Errors
    /// When a file can not be written.
    pub fn save(&self, store: &ParamStore, dir: &Path) -> Result<()> {
        store.save(&dir.join(MODEL))?;
        self.write(dir)
    }

    /// Writes this alone to `dir`.
    ///
    /// # Errors
    /// When the file can not be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(CONFIG);
        let fail = |reason: String| Error::Settings { name: path.display().to_string(), reason };
        let text = toml::to_string(self).map_err(|error| fail(error.to_string()))?;
        Ok(write_atomic(&path, text.as_bytes())?)
    }

    /// What is in `dir`: the settings, the backbone and the box module. `backbone` is where the backbone's file is if it is no longer
    /// where it was.
    ///
    /// # Errors
    /// [`Error::Settings`] when there is no such run; [`Error::Weights`] when a file holds another network.
    pub fn load(dir: &Path, backbone: Option<&Path>, device: &Device) -> Result<(Self, Backbone, BoxModule)> {
        let path = dir.join(CONFIG);
        let fail = |reason: String| Error::Settings { name: path.display().to_string(), reason };
        let text = read_settings(&path)
            .map_err(|error| fail(format!("{error}; a run of `ebm reproduce tracking` is expected")))?;
        let config: Self = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        let backbone = backbone.map_or_else(|| config.backbone_path(dir), Path::to_owned);
        let backbone = Backbone::load(&backbone, device)?;

        let model = Self::model_path(dir);
        let module = BoxModule::load(&model, device)?;
        if module.config() != &config.box_module {
            let reason = format!("it holds {:?}, and {CONFIG} says {:?}", module.config(), config.box_module);
            return Err(Error::Weights { path: model, reason });
        }
        Ok((config, backbone, module))
    }
}
