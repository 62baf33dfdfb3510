//! Saving and loading of trained box modules in their run directories.
//!
//! ```text
//! runs/<table>/<method>-<seed>/
//!   model.safetensors    the box module's parameters, and in its metadata a SavedConfig
//!   …                    other files of ebm-train
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use ebm_core::GaussianMixture;
use ebm_experiment::config::{self, settings_table};
use ebm_nn::import::{WeightBytes, load_safetensors};
use ebm_train::model_file::file_digest;
use ebm_train::{BaseNetwork, ModelFile, ModelMetadata, keep_base, moved_with};

use crate::backbone::Backbone;
use crate::box_module::{BoxModule, BoxModuleConfig};
use crate::method::Refinement;
use crate::tracker::TrackerConfig;
use crate::{Error, Result};

/// Task in the metadata of a box module's file.
pub const TRACKING: &str = "tracking";

/// Name of the copy of a run's backbone, without its extension.
pub(crate) const BACKBONE: &str = "backbone";

settings_table! {
    /// Settings of a saved box module, and of the tracker that uses it.
    pub struct SavedConfig {
        /// Key of the method that trained the module.
        pub method: String,
        /// Seed of the training.
        pub seed: u64 where 0..=u64::MAX,
        /// Path of the backbone's weight file, relative to the directory that holds the run, or in the run.
        pub backbone: PathBuf,
        /// Sizes of the module.
        pub box_module: BoxModuleConfig,
        /// Refinement of boxes by ascent on f.
        pub refinement: Refinement,
        /// Computation of p(y|x), if f was trained as a density.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub density: Option<DensityConfig>,
        /// Settings of the tracker.
        #[serde(default)]
        pub tracker: TrackerConfig,
    }
}

settings_table! {
    /// Computation of p(y|x).
    pub struct DensityConfig {
        /// [Proposal](crate::MethodConfig::proposal) about a box.
        pub proposal: GaussianMixture,
        /// Temperature T: p is raised to the power 1/T and normalised again ([`Tempered`](ebm_core::Tempered)).
        pub temperature: f64 where 1e-3..=1e3,
        /// Factors of the widths of the left, top, right and bottom band, if they were calibrated on annotated videos
        /// ([`CalibratedEdge`](ebm_experiment::CalibratedEdge)).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub factors: Option<[f64; 4]> where 0.0..=1e3,
    }
}

impl SavedConfig {
    /// Returns the path of the backbone's weight file, for a module that is saved at `path`.
    pub fn backbone_path(&self, path: &Path) -> PathBuf {
        moved_with(&ModelFile::at(path), &Path::new("..").join(&self.backbone))
    }

    /// Writes the module of the run in `run` in half precision to the new folder `out`, for distribution. Its backbone
    /// is the run's, or the file `backbone`. It is copied into `out` unless it lies beside `out`.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`Error::Config`] when `out` exists.
    pub fn pack(run: &Path, backbone: Option<&Path>, out: &Path) -> Result<()> {
        if out.exists() {
            return Err(Error::config(out.display(), "it is there already; give another folder"));
        }
        let (mut saved, ..) = Self::load(run, backbone, &Device::Cpu)?;
        let find = |path: &Path| {
            std::fs::canonicalize(path).map_err(|source| ebm_data::Error::io("find", path, source))
        };
        let file = find(&backbone.map_or_else(|| saved.backbone_path(run), Path::to_owned))?;
        let mut tensors = load_safetensors(&ModelFile::at(run), &Device::Cpu)?;
        ebm_nn::import::halve(&mut tensors)?;
        ebm_data::files::write_folder(out, |out| {
            let beside = find(out)?;
            saved.backbone = match file.file_name() {
                Some(name) if file.parent() == beside.parent() => name.into(),
                _ => keep_base(&file, out, BACKBONE)?,
            };
            saved.save(&tensors, out)
        })
    }

    /// Writes the module's parameters `tensors` with these settings to `dir`. The file is written whole or not at all.
    ///
    /// # Errors
    /// When the backbone's file cannot be read, or the module's file cannot be written.
    pub fn save(&self, tensors: &BTreeMap<String, Tensor>, dir: &Path) -> Result<()> {
        let path = dir.join(ModelFile::NAME);
        let digest = file_digest(&self.backbone_path(&path))?;
        // The path is relative to the module's file.
        let file = Path::new("..").join(&self.backbone);
        let metadata = ModelMetadata {
            task: TRACKING.to_owned(),
            method: self.method.clone(),
            seed: Some(self.seed),
            config: toml::to_string(self).map_err(|error| Error::config(path.display(), error))?,
            base: Some(BaseNetwork { digest, file: Some(file) }),
            ..ModelMetadata::default()
        };
        Ok(metadata.save(&path, tensors)?)
    }

    /// Loads settings, backbone and box module from the file `path`, or from the run in the directory `path`.
    /// `backbone` is the path of the backbone's file, if it was moved.
    ///
    /// # Errors
    /// [`Error::Input`] when there is no such run; [`Error::Weights`] when a file holds another network, or the
    /// backbone is not the one that the module was trained on.
    pub fn load(
        path: &Path,
        backbone: Option<&Path>,
        device: &Device,
    ) -> Result<(Self, Backbone, BoxModule)> {
        let model = ModelFile::at(path);
        if !model.is_file() {
            let reason = "there is no such file; a run of `ebm reproduce tracking` is expected";
            return Err(Error::input(model.display(), reason));
        }
        Self::of(ModelFile::of(&WeightBytes::read(&model)?, device)?, device, |config| {
            let backbone = backbone.map_or_else(|| config.backbone_path(&model), Path::to_owned);
            if !backbone.is_file() {
                let reason = "the box module was trained on this backbone, and there is no such file; copy it here, or give its path: --backbone";
                return Err(Error::weights(backbone, reason));
            }
            Ok(WeightBytes::read(&backbone)?)
        })
    }

    /// Loads settings, backbone and box module from a model's file. `backbone` reads the file that the settings name.
    pub(crate) fn of<'a>(
        file: ModelFile,
        device: &Device,
        backbone: impl FnOnce(&Self) -> Result<WeightBytes<'a>>,
    ) -> Result<(Self, Backbone, BoxModule)> {
        file.said.check_task(&file.path, &[TRACKING])?;
        let config: Self = config::parse("of the box module", &file.said.config)
            .map_err(|error| Error::input(file.path.display(), error))?;
        let backbone = backbone(&config)?;
        file.check_base(&backbone)?;
        let backbone = Backbone::of_bytes(&backbone, device)?;
        let module = BoxModule::of_tensors(&file.path, &config.box_module, file.tensors, device)?;
        Ok((config, backbone, module))
    }
}
