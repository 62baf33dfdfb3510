//! Trained networks in their run directories, and back.
//!
//! ```text
//! runs/<table>/<method>-<seed>/
//!   config.toml          RunConfig
//!   model.safetensors    the parameters: `head.…`, and `trunk.…` where it was trained with the head
//!   refinement.toml      of an energy model: Algorithm S2 with the λ that the validation split chose
//!   …                    what ebm-train leaves
//! ```

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ebm_core::GradientAscent;
use ebm_core::parametric::Baseline;
use ebm_data::files::{read_settings, write_atomic};
use ebm_nn::import;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::ExperimentConfig;
use crate::network::{ENERGY, Head, TRUNK};
use crate::{
    Backbone, BackboneConfig, BaselineHead, EnergyHead, Error, Result, TrunkFile, load_trunk,
    preload_backbone,
};

/// The file of a run's parameters.
const MODEL: &str = "model.safetensors";
/// The file of an energy model's refinement.
const REFINEMENT: &str = "refinement.toml";

/// What a run's `config.toml` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The key of the baseline, or [`ENERGY`].
    pub method: String,
    /// Seed of the initial values, the order and the noise.
    pub seed: u64,
    /// Where the trunk's weights are.
    pub trunk: TrunkSource,
    /// The experiment.
    pub experiment: ExperimentConfig,
}

/// Where a run has its trunk from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrunkSource {
    /// It was trained with the head and is in the run's own file.
    Own(BackboneConfig),
    /// A weight file that the head was trained on top of.
    File {
        /// The file; relative to the directory that holds the run.
        path: PathBuf,
        /// SHA-256 of the file, in hexadecimal.
        sha256: String,
    },
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Io`].
pub fn file_digest(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut copy = || std::io::copy(&mut std::fs::File::open(path)?, &mut hash);
    copy().map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

impl RunConfig {
    /// As TOML.
    ///
    /// # Errors
    /// [`Error::Settings`] when a number or a path has no form in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::Settings { name: "run".into(), reason: error.to_string() })
    }

    /// Of the run in `dir`.
    ///
    /// # Errors
    /// [`Error::Settings`] when there is none or it is not one of a face network.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.toml");
        let fail = |reason: String| Error::Settings { name: path.display().to_string(), reason };
        let text = read_settings(&path).map_err(|error| {
            fail(format!(
                "{error}; a run of `ebm reproduce` or `ebm train` of an age or a head pose is expected"
            ))
        })?;
        toml::from_str(&text).map_err(|error| fail(format!("not a run of a face network: {error}")))
    }
}

/// Writes the parameters of `store` as those of the run in `dir`.
///
/// # Errors
/// When the file can not be written.
pub fn save(store: &ParamStore, dir: &Path) -> Result<()> {
    Ok(store.save(&dir.join(MODEL))?)
}

/// Writes how the energy model of the run in `dir` refines.
///
/// # Errors
/// When the file can not be written.
pub fn save_refinement(ascent: &GradientAscent, dir: &Path) -> Result<()> {
    let path = dir.join(REFINEMENT);
    let text = toml::to_string(ascent)
        .map_err(|error| Error::Settings { name: path.display().to_string(), reason: error.to_string() })?;
    Ok(write_atomic(&path, text.as_bytes())?)
}

/// What [`save_refinement`] wrote; none where nothing was.
fn read_refinement(dir: &Path) -> Result<Option<GradientAscent>> {
    let path = dir.join(REFINEMENT);
    if !path.exists() {
        return Ok(None);
    }
    let fail = |reason: String| Error::Settings { name: path.display().to_string(), reason };
    let text = read_settings(&path).map_err(|error| fail(error.to_string()))?;
    toml::from_str(&text).map(Some).map_err(|error| fail(error.to_string()))
}

/// A trained head, for prediction.
pub enum TrainedHead {
    /// A baseline.
    Baseline(Baseline, BaselineHead),
    /// f(x, y).
    Energy(EnergyHead),
}

impl From<Head> for TrainedHead {
    fn from(head: Head) -> Self {
        match head {
            Head::Baseline { model, head } => Self::Baseline(model, head),
            Head::Energy { head, .. } => Self::Energy(head),
        }
    }
}

/// The head of `method` whose parameters are those of `store`, on the CPU.
fn head_of(
    experiment: &ExperimentConfig,
    method: &str,
    num_features: usize,
    store: &ParamStore,
) -> Result<TrainedHead> {
    Ok(TrainedHead::from(match method {
        ENERGY => Head::energy(experiment, num_features, store, &Device::Cpu)?,
        key => Head::baseline(experiment, experiment.method(key)?, num_features, store, &Device::Cpu)?,
    }))
}

impl TrainedHead {
    /// The head of `method` on g_x of length `num_features`, on the CPU, with the present parameters of `store`.
    ///
    /// # Errors
    /// [`Error::Settings`] when the configuration has no such method; else when memory runs out.
    pub fn new(
        experiment: &ExperimentConfig,
        method: &str,
        num_features: usize,
        store: &ParamStore,
    ) -> Result<Self> {
        head_of(experiment, method, num_features, &store.constants()?)
    }

    /// f(x, y), if that is what it is.
    pub fn energy(&self) -> Option<&EnergyHead> {
        match self {
            Self::Energy(head) => Some(head),
            Self::Baseline(..) => None,
        }
    }
}

/// A saved network.
pub struct Saved {
    /// What it is.
    pub config: RunConfig,
    /// Its network of g_x.
    pub trunk: Box<dyn Backbone>,
    /// Its head.
    pub head: TrainedHead,
    /// How it refines, where the validation split chose that.
    pub refinement: Option<GradientAscent>,
}

impl Saved {
    /// Reads the run in `dir`. `weights` is where its trunk's file is if it is no longer where it was.
    ///
    /// # Errors
    /// [`Error::Settings`] as [`RunConfig::read`]; [`Error::Weights`] when the trunk's file is not the one that the run was trained
    /// on, or when the run's parameters are not those of its configuration.
    pub fn load(dir: &Path, weights: Option<&Path>) -> Result<Self> {
        let config = RunConfig::read(dir)?;
        let path = dir.join(MODEL);
        let store = ParamStore::new(Key::new(0));
        store.preload(import::load(&path, &Device::Cpu)?);
        store.freeze(|_| true);
        let experiment = &config.experiment;
        let trunk = match &config.trunk {
            TrunkSource::Own(form) => form.build(&store, TRUNK, DType::F32, &Device::Cpu)?,
            TrunkSource::File { path, sha256 } => {
                let root = dir.parent().unwrap_or(Path::new("."));
                let path = weights.map_or_else(|| root.join(path), Path::to_owned);
                open_trunk(&experiment.trunk, &path, Some(sha256))?
            }
        };
        let num_features = trunk.num_features();
        let head = head_of(experiment, &config.method, num_features, &store)?;
        let report = store.preload_report();
        if !report.is_exact() {
            let reason = format!("not the parameters that the run's configuration describes: {report}");
            return Err(Error::Weights { path, reason });
        }
        Ok(Self { head, config, trunk, refinement: read_refinement(dir)? })
    }
}

/// The trunk of the kind of `config` in a weight file, for prediction; with `sha256`, only if that is the file's. A residual
/// network's sizes are told from the file.
///
/// # Errors
/// [`Error::Weights`] for another file, and as [`load_trunk`] and [`preload_backbone`].
pub fn open_trunk(config: &BackboneConfig, path: &Path, sha256: Option<&str>) -> Result<Box<dyn Backbone>> {
    if let Some(expected) = sha256 {
        let found = file_digest(path)?;
        if found != expected {
            let reason = format!(
                "SHA-256 {found} is not {expected}, the weights that the head was trained on; give their place"
            );
            return Err(Error::Weights { path: path.to_owned(), reason });
        }
    }
    let device = Device::Cpu;
    if let BackboneConfig::Resnet(_) = config {
        return Ok(Box::new(load_trunk(path, TrunkFile::default(), &device)?.1));
    }
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    preload_backbone(&store, "", config, path, &device)?;
    config.build(&store, "", DType::F32, &device)
}
