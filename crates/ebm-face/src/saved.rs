//! Saving and loading of trained networks in their run directories.
//!
//! ```text
//! runs/<table>/<method>-<seed>/
//!   config.toml          RunConfig
//!   model.safetensors    the parameters: `head.…`, and `trunk.…` if it was trained with the head. The metadata hold a RunConfig and,
//!                        for an energy model, Algorithm S2 with the λ that the validation split chose
//!   …                    other files of ebm-train
//! ```

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ebm_core::GradientAscent;
use ebm_data::files::write_folder;
use ebm_experiment::config::{self, settings, settings_table};
use ebm_nn::import::{self, WeightBytes};
use ebm_nn::onnx::{Graph, Length, Part};
use ebm_nn::params::ParamStore;
use ebm_train::model_file::file_digest;
use ebm_train::{BaseNetwork, ModelFile, ModelMetadata};
use serde::{Deserialize, Serialize};

use crate::backbone::{self, MapGrid};
use crate::config::ExperimentConfig;
use crate::network::{Head, TRUNK};
use crate::{Backbone, BackboneConfig, Error, Result};

/// Name of the backbone's file beside [`pack`]ed networks.
const BACKBONE: &str = "trunk.safetensors";

settings_table! {
    /// Contents of a run's `config.toml`.
    pub struct RunConfig {
        /// Key of the baseline, or [`ENERGY`](crate::network::ENERGY).
        pub method: String,
        /// Seed of the initial values, the order and the samples.
        pub seed: u64 where 0..=u64::MAX,
        /// Source of the backbone's weights.
        pub trunk: BackboneSource,
        /// Settings of the experiment.
        pub experiment: ExperimentConfig,
    }
}

settings! {
    /// Source of the backbone of a run.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BackboneSource {
        /// Backbone that was trained with the head, and is in the run's own file.
        Own(BackboneConfig),
        /// Weight file of the frozen backbone below the head.
        File {
            /// Path of the weight file, relative to the directory that holds the run.
            path: PathBuf,
            /// SHA-256 of the file, in hexadecimal.
            sha256: String,
        },
    }
}

impl RunConfig {
    /// Returns the configuration as TOML.
    ///
    /// # Errors
    /// [`Error::Config`] when a number or a path cannot be written in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml_of(self)
    }

    /// Reads the configuration from the model's file `path`, or from the run in the directory `path`.
    ///
    /// # Errors
    /// [`Error::Input`] when `path` is neither.
    pub fn of_model(path: &Path) -> Result<Self> {
        let path = ModelFile::at(path);
        Ok(Stored::of(&path, &ModelMetadata::require(&path, &[])?)?.run)
    }
}

fn toml_of(value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|error| Error::config("run", error))
}

settings! {
    /// Configuration in the metadata of a model's file.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Stored {
        run: RunConfig,
        /// Refinement by an energy model, if the validation split has chosen it.
        refinement: Option<GradientAscent>,
    }
}

impl Stored {
    fn metadata(&self) -> Result<ModelMetadata> {
        let RunConfig { method, seed, trunk, experiment } = &self.run;
        let base = match trunk {
            BackboneSource::Own(_) => None,
            BackboneSource::File { path, sha256 } => {
                // The path is relative to the model's file.
                Some(BaseNetwork { digest: sha256.clone(), file: Some(Path::new("..").join(path)) })
            }
        };
        Ok(ModelMetadata {
            task: experiment.title.clone(),
            method: method.clone(),
            seed: Some(*seed),
            config: toml_of(self)?,
            base,
            ..ModelMetadata::default()
        })
    }

    /// Parses the metadata `said` of the model's file at `path`.
    fn of(path: &Path, said: &ModelMetadata) -> Result<Self> {
        config::parse("of the model", &said.config)
            .map_err(|error| Error::input(path.display(), format!("not a model of a face: {error}")))
    }
}

/// Writes the parameters of `store` and the settings `config` to the run in `dir`.
///
/// # Errors
/// When the file cannot be written.
pub fn save(store: &ParamStore, dir: &Path, config: &RunConfig) -> Result<()> {
    let stored = Stored { run: config.clone(), refinement: None };
    Ok(stored.metadata()?.save(&dir.join(ModelFile::NAME), &store.tensors()?)?)
}

/// Stores the refinement `ascent` in the energy model's file of the run in `dir`.
///
/// # Errors
/// When the file cannot be read or written.
pub fn save_refinement(ascent: &GradientAscent, dir: &Path) -> Result<()> {
    let file = ModelFile::open(dir)?;
    let stored = Stored { refinement: Some(ascent.clone()), ..Stored::of(&file.path, &file.said)? };
    Ok(stored.metadata()?.save(&file.path, &file.tensors)?)
}

/// A saved network.
pub struct Saved {
    /// Settings of its run.
    pub config: RunConfig,
    /// Backbone, which computes g_x.
    pub trunk: Box<dyn Backbone>,
    /// Head.
    pub head: Head,
    /// Refinement by an energy model, if the validation split has chosen it.
    pub refinement: Option<GradientAscent>,
}

/// Builder of a network's trunk, from the store of the network or a file of its own.
type BuildTrunk<'a> = Box<dyn FnOnce(&ParamStore) -> Result<Box<dyn Backbone>> + 'a>;

impl Saved {
    /// Loads the network from the model's file `path`, or from the run in the directory `path`. `weights` is the path
    /// of the backbone's file, if it was moved.
    ///
    /// # Errors
    /// [`Error::Input`] when the file is no such model; [`Error::Weights`] when the backbone's file is not the one that
    /// the run was trained on, or when the parameters do not match the configuration.
    pub fn load(path: &Path, weights: Option<&Path>) -> Result<Self> {
        Self::of(ModelFile::open(path)?, |file| Ok(WeightBytes::read(&base_of(file, weights)?)?))
    }

    /// Loads the network from a model's file. `backbone` reads the file of its backbone.
    pub(crate) fn of<'a>(
        file: ModelFile,
        backbone: impl FnOnce(&ModelFile) -> Result<WeightBytes<'a>>,
    ) -> Result<Self> {
        let Stored { run: config, refinement } = Stored::of(&file.path, &file.said)?;
        let experiment = &config.experiment;
        let trunk: BuildTrunk<'_> = match &config.trunk {
            BackboneSource::Own(form) => Box::new(|store| form.build(store, TRUNK, DType::F32, &Device::Cpu)),
            BackboneSource::File { .. } => {
                let below = backbone(&file)?;
                file.check_base(&below)?;
                let trunk = open_backbone(experiment, &below)?;
                Box::new(|_| Ok(trunk))
            }
        };
        let built = ParamStore::build(&file.tensors, |store| {
            let trunk = trunk(store)?;
            let head = Head::of(experiment, &config.method, trunk.num_features(), store, &Device::Cpu)?;
            Ok::<_, Error>((trunk, head))
        });
        let ((trunk, head), _) = built.map_err(|reason| {
            let reason = format!("not the parameters that the run's configuration describes: {reason}");
            Error::weights(file.path, reason)
        })?;
        Ok(Self { head, config, trunk, refinement })
    }

    /// Exports the energy model as two ONNX files.
    ///
    /// The first maps `images` `(N, 3, S, S)` to `g_x` `(N, X)`. Its metadata give S and the normalisation of the
    /// images. The second maps `g_x` and `y` `(N, M, D)`, M candidates for each image in the unit of the metadata, to
    /// `f` `(N, M)`.
    ///
    /// # Errors
    /// [`Error::Config`] for a baseline, or a backbone without an ONNX form.
    pub fn onnx(&self) -> Result<Vec<Part>> {
        let Head::Energy(head) = &self.head else {
            let reason =
                format!("{} is a baseline, which has no f; give an energy model", self.config.method);
            return Err(Error::config("of the ONNX file", reason));
        };
        let experiment = &self.config.experiment;
        let metadata = [
            ("task", experiment.title.clone()),
            ("coordinates", experiment.coordinates.join(", ")),
            ("unit", experiment.unit.clone()),
            ("input", toml_of(&experiment.input)?),
            ("refinement", self.refinement.as_ref().map_or(Ok(String::new()), toml_of)?),
        ];
        let (size, length) = (experiment.input.size, self.trunk.num_features());
        let any = Length::Any("images");
        let mut features = Graph::new("features");
        let images =
            features.input("images", &[any, Length::Fixed(3), Length::Fixed(size), Length::Fixed(size)]);
        let g_x = self.trunk.onnx(&mut features, &images)?;
        let mut of_y = Graph::new("head");
        let g_x = features.hand_on(&mut of_y, "g_x", &g_x, &[any, Length::Fixed(length)]);
        let y = of_y.input("y", &[any, Length::Any("candidates"), Length::Fixed(experiment.dim())]);
        let f = head.onnx(&mut of_y, &g_x, &y)?;
        of_y.output("f", &f, &[any, Length::Any("candidates")]);
        Ok(vec![features.finish(&metadata)?, of_y.finish(&metadata)?])
    }
}

/// Returns the path of the backbone's file below the model `file`, which is `weights` if given.
fn base_of(file: &ModelFile, weights: Option<&Path>) -> Result<PathBuf> {
    let unnamed = || Error::weights(&file.path, "it names no backbone; give the backbone's path");
    weights.map(Path::to_owned).or_else(|| file.base_path()).ok_or_else(unnamed)
}

/// Writes the networks of `runs` in half precision to the new folder `out`, for distribution. Each network has its own
/// folder, and their common backbone lies beside these. `weights` is the path of the backbone's file, if it was moved.
///
/// # Errors
/// [`Error::Config`] when backbones differ or `out` exists; else when a file cannot be read or written.
pub fn pack(runs: &[PathBuf], weights: Option<&Path>, out: &Path) -> Result<()> {
    let fail = |reason: String| Error::config("of the packed networks", reason);
    if out.exists() {
        return Err(fail(format!("{} is there already; give another folder", out.display())));
    }
    // A killed program leaves no folder with a part of the networks.
    write_folder(out, |out| pack_new(runs, weights, out))
}

/// Writes what [`pack`] writes.
fn pack_new(runs: &[PathBuf], weights: Option<&Path>, out: &Path) -> Result<()> {
    let fail = |reason: String| Error::config("of the packed networks", reason);
    let mut backbone: Option<(String, String)> = None;
    for run in runs {
        let mut file = ModelFile::open(run)?;
        let mut stored = Stored::of(&file.path, &file.said)?;
        if let BackboneSource::File { sha256, .. } = &stored.run.trunk {
            let packed = out.join(BACKBONE);
            let digest = match &backbone {
                Some((of, digest)) if of == sha256 => digest.clone(),
                Some(_) => {
                    let reason =
                        format!("{} stands on another backbone than the run before it", run.display());
                    return Err(fail(reason));
                }
                None => {
                    let below = WeightBytes::read(&base_of(&file, weights)?)?;
                    let (store, _) = backbone::open(&stored.run.experiment.trunk, &below, &Device::Cpu)?;
                    let mut tensors = store.tensors()?;
                    import::halve(&mut tensors)?;
                    ebm_data::files::create_dir(out)?;
                    import::save_safetensors(&packed, &tensors)?;
                    file_digest(&packed)?
                }
            };
            backbone = Some((sha256.clone(), digest.clone()));
            stored.run.trunk = BackboneSource::File { path: BACKBONE.into(), sha256: digest };
        }
        import::halve(&mut file.tensors)?;
        let dir = out.join(format!("{}-{}", stored.run.method, stored.run.seed));
        ebm_data::files::create_dir(&dir)?;
        stored.metadata()?.save(&dir.join(ModelFile::NAME), &file.tensors)?;
    }
    Ok(())
}

/// Opens the backbone below the heads of `experiment` from a weight file, for prediction.
///
/// # Errors
/// As [`preload_backbone`](crate::preload_backbone); [`Error::Config`] when the grid does not fit the network's map.
pub(crate) fn open_backbone(experiment: &ExperimentConfig, file: &WeightBytes) -> Result<Box<dyn Backbone>> {
    let (_, trunk) = backbone::open(&experiment.trunk, file, &Device::Cpu)?;
    match experiment.frozen.as_ref().map_or(0, |frozen| frozen.grid) {
        0 => Ok(trunk),
        cells => Ok(Box::new(MapGrid::new(trunk, cells, experiment.input.size)?)),
    }
}
