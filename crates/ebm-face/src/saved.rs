//! Trained networks in their run directories, and back.
//!
//! ```text
//! runs/<table>/<method>-<seed>/
//!   config.toml          RunConfig
//!   model.safetensors    the parameters: `head.…`, and `trunk.…` where it was trained with the head; in its metadata a RunConfig and,
//!                        of an energy model, Algorithm S2 with the λ that the validation split chose
//!   …                    what ebm-train leaves
//! ```

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_core::GradientAscent;
use ebm_experiment::config::{self, settings};
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

/// The file of the backbone of [`pack`]ed networks.
const BACKBONE: &str = "trunk.safetensors";

settings! {
    /// What a run's `config.toml` says.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RunConfig {
        /// The key of the baseline, or [`ENERGY`](crate::network::ENERGY).
        pub method: String,
        /// Seed of the initial values, the order and the noise.
        pub seed: u64 where 0..=u64::MAX,
        /// Where the backbone's weights are.
        pub trunk: BackboneSource,
        /// The experiment.
        pub experiment: ExperimentConfig,
    }
}

settings! {
    /// Where a run has its backbone from.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BackboneSource {
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
}

impl RunConfig {
    /// As TOML.
    ///
    /// # Errors
    /// [`Error::Config`] when a number or a path has no form in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml_of(self)
    }

    /// Of the model's file `path`, or of the run in the directory `path`.
    ///
    /// # Errors
    /// [`Error::Input`] when that is something else.
    pub fn of_model(path: &Path) -> Result<Self> {
        let path = ModelFile::at(path);
        Ok(Stored::of(&path, &ModelMetadata::require(&path, &[])?)?.run)
    }
}

fn toml_of(value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|error| Error::config("run", error))
}

settings! {
    /// The configuration in the metadata of a model's file.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Stored {
        run: RunConfig,
        /// How an energy model refines, where the validation split chose that.
        refinement: Option<GradientAscent>,
    }
}

impl Stored {
    fn metadata(&self) -> Result<ModelMetadata> {
        let RunConfig { method, seed, trunk, experiment } = &self.run;
        let base = match trunk {
            BackboneSource::Own(_) => None,
            BackboneSource::File { path, sha256 } => {
                // As seen from the model's file.
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

    /// What the model's file at `path` says.
    fn of(path: &Path, said: &ModelMetadata) -> Result<Self> {
        config::parse("of the model", &said.config)
            .map_err(|error| Error::input(path.display(), format!("not a model of a face: {error}")))
    }
}

/// Writes the parameters of `store` as those of the run in `dir`, which is `config`.
///
/// # Errors
/// When the file can not be written.
pub fn save(store: &ParamStore, dir: &Path, config: &RunConfig) -> Result<()> {
    let stored = Stored { run: config.clone(), refinement: None };
    Ok(stored.metadata()?.save(&dir.join(ModelFile::NAME), &store.tensors()?)?)
}

/// Adds how the energy model of the run in `dir` refines to its file.
///
/// # Errors
/// When the file can not be read or written.
pub fn save_refinement(ascent: &GradientAscent, dir: &Path) -> Result<()> {
    let file = ModelFile::open(dir)?;
    let stored = Stored { refinement: Some(ascent.clone()), ..Stored::of(&file.path, &file.said)? };
    Ok(stored.metadata()?.save(&file.path, &file.tensors)?)
}

/// A saved network.
pub struct Saved {
    /// What it is.
    pub config: RunConfig,
    /// Its network of g_x.
    pub trunk: Box<dyn Backbone>,
    /// Its head.
    pub head: Head,
    /// How it refines, where the validation split chose that.
    pub refinement: Option<GradientAscent>,
}

impl Saved {
    /// Reads the model's file `path`, or that of the run in the directory `path`. `weights` is where its
    /// backbone's file is if it is no longer where it was.
    ///
    /// # Errors
    /// [`Error::Input`] for a file of something else; [`Error::Weights`] when the backbone's file is not
    /// the one that the run was trained on, or when the parameters are not those of the configuration.
    pub fn load(path: &Path, weights: Option<&Path>) -> Result<Self> {
        Self::of(ModelFile::open(path)?, |file| Ok(WeightBytes::read(&base_of(file, weights)?)?))
    }

    /// The same of a model's file; `backbone` gives that of the network below it.
    pub(crate) fn of<'a>(
        file: ModelFile,
        backbone: impl FnOnce(&ModelFile) -> Result<WeightBytes<'a>>,
    ) -> Result<Self> {
        let Stored { run: config, refinement } = Stored::of(&file.path, &file.said)?;
        let (experiment, store) = (&config.experiment, ParamStore::new(Key::new(0)));
        store.preload(file.tensors.clone());
        store.freeze(|_| true);
        let trunk = match &config.trunk {
            BackboneSource::Own(form) => form.build(&store, TRUNK, DType::F32, &Device::Cpu)?,
            BackboneSource::File { .. } => {
                let below = backbone(&file)?;
                file.check_base(&below)?;
                open_backbone(experiment, &below)?
            }
        };
        let num_features = trunk.num_features();
        let head = Head::of(experiment, &config.method, num_features, &store, &Device::Cpu)?;
        let report = store.preload_report();
        if !report.is_exact() {
            let reason = format!("not the parameters that the run's configuration describes: {report}");
            return Err(Error::weights(file.path, reason));
        }
        Ok(Self { head, config, trunk, refinement })
    }

    /// The energy model as ONNX. The first file takes `images` (N, 3, S, S), S and their normalisation being in its
    /// metadata, and gives `g_x` (N, X); the second takes that and `y` (N, M, D), M candidates of each image in the
    /// metadata's unit, and gives `f` (N, M).
    ///
    /// # Errors
    /// [`Error::Config`] for a baseline, or a backbone that has no such form.
    pub fn onnx(&self) -> Result<Vec<Part>> {
        let Head::Energy(head) = &self.head else {
            let reason =
                format!("{} is a baseline, and f is written; give an energy model", self.config.method);
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

/// Finds the file of the network below `file`; it is `weights` where that is given.
fn base_of(file: &ModelFile, weights: Option<&Path>) -> Result<PathBuf> {
    let unnamed = || Error::weights(&file.path, "it names no backbone; give the backbone's place");
    weights.map(Path::to_owned).or_else(|| file.base_path()).ok_or_else(unnamed)
}

/// Writes the networks of `runs` in half precision to the folder `out`, for others to use: each in a folder of its own,
/// and beside them, once, the backbone that they stand on. `weights` is where that is if it is no longer where it was.
///
/// # Errors
/// [`Error::Config`] when they stand on several backbones or `out` is there already; else when a file can not be read
/// or written.
pub fn pack(runs: &[PathBuf], weights: Option<&Path>, out: &Path) -> Result<()> {
    let fail = |reason: String| Error::config("of the packed networks", reason);
    if out.exists() {
        return Err(fail(format!("{} is there already; give another folder", out.display())));
    }
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

/// The backbone that the heads of `experiment` stand on in a weight file, for prediction.
///
/// # Errors
/// As [`preload_backbone`](crate::preload_backbone); [`Error::Config`] for a grid that the network's map does not have.
pub(crate) fn open_backbone(experiment: &ExperimentConfig, file: &WeightBytes) -> Result<Box<dyn Backbone>> {
    let (_, trunk) = backbone::open(&experiment.trunk, file, &Device::Cpu)?;
    match experiment.frozen.as_ref().map_or(0, |frozen| frozen.grid) {
        0 => Ok(trunk),
        cells => Ok(Box::new(MapGrid::new(trunk, cells, experiment.input.size)?)),
    }
}
