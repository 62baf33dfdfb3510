//! Heads on the fixed features of one backbone: the frozen and the mini scale.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::model_file::file_digest;
use ebm_train::{Progress, RunSpec, train_run};

use super::data::Data;
use super::heads::{Entry, Seen, Wanted, reproduce};
use super::{Options, Outcome};
use crate::config::{BackboneTraining, ExperimentConfig, FrozenConfig, Settings};
use crate::features::{FeatureCache, FeatureTable};
use crate::network::{Head, Network, TRUNK};
use crate::saved::{BackboneSource, TrainedHead, open_backbone};
use crate::training::{CachedSource, FaceTask, StreamSource};
use crate::{Error, Result};

/// Root of the seeds that all heads share: views, and a backbone's training. The same for every run, so that
/// results compare.
const SHARED_SEED: u64 = 2020;

/// Heads on the features of the backbone in the file `weights`.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn frozen(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let frozen = config.frozen.clone().unwrap_or(FrozenConfig { views: 1, trunk: None });
    let source = BackboneSource::File { path: absolute(weights)?, sha256: file_digest(weights)? };
    let tables = Tables::compute(config, &frozen, data, weights, &source, options, progress)?;
    let mut train =
        |wanted: &Wanted<'_>, progress: &mut dyn Progress| tables.entry(wanted, &source, options, progress);
    reproduce(config, data, options, &mut train, progress)
}

/// Trains a backbone on the training split, then heads on its features.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn mini(
    config: &ExperimentConfig,
    data: &Data,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let Some(FrozenConfig { trunk: Some(training), .. }) = &config.frozen else {
        let reason = "frozen.trunk says how the trunk is trained, and is missing".to_owned();
        return Err(Error::Settings { name: config.title.clone(), reason });
    };
    let weights = options.run.join("trunk.safetensors");
    train_trunk(config, training, &data.train, options, &weights, progress)?;
    frozen(config, data, &weights, options, progress)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })
}

/// Trains a backbone with a baseline's head and writes its weights by torchvision's names.
fn train_trunk(
    config: &ExperimentConfig,
    BackboneTraining { method, training }: &BackboneTraining,
    faces: &Arc<Faces>,
    options: &Options,
    weights: &Path,
    progress: &mut dyn Progress,
) -> Result<()> {
    let key = Key::new(SHARED_SEED).split("trunk");
    let store = ParamStore::new(key.split("init"));
    let device = Device::Cpu;
    let trunk = config.trunk.build(&store, TRUNK, DType::F32, &device)?;
    let head = Head::baseline(config, config.method(method)?, trunk.num_features(), &store, &device)?;
    let network = Network { trunk: Some(trunk), head };
    let loader = FaceLoaderConfig::shuffled(config.input.transform(true), training.batch_size);
    let loader = FaceLoader::new(Arc::clone(faces), loader, key.split("data"))?;
    let source = StreamSource::new(loader, faces.faces.len(), device);
    let steps = training.steps(faces.faces.len());
    let mut task = FaceTask::new(network, store, source, training, key.split("train"));
    let text = config.to_toml()?;
    let spec = RunSpec::new(&options.run, "trunk", &text, steps, SHARED_SEED);
    train_run(&RunSpec { resume: options.resume, ..spec }, &mut task, progress)?;
    let (_, store) = task.into_network();
    let prefix = format!("{TRUNK}.");
    let named = store.tensors()?.into_iter();
    let tensors = named.filter_map(|(name, tensor)| Some((name.strip_prefix(&prefix)?.to_owned(), tensor)));
    Ok(ebm_nn::import::save_safetensors(weights, &tensors.collect())?)
}

/// The features of all splits.
struct Tables {
    train: Rc<Vec<FeatureTable>>,
    validation: Rc<Seen>,
    results: Rc<Seen>,
}

impl Tables {
    fn compute(
        config: &ExperimentConfig,
        frozen: &FrozenConfig,
        data: &Data,
        weights: &Path,
        source: &BackboneSource,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let trunk = open_backbone(&config.trunk, weights, None)?;
        let trunk_digest = match source {
            BackboneSource::File { sha256, .. } => sha256.clone(),
            BackboneSource::Own(form) => format!("{form:?}"),
        };
        let cache = FeatureCache { dir: options.cache.clone(), trunk: &*trunk, trunk_digest };
        let plain = config.input.transform(false);
        let mut table = |name: &str, faces: &Arc<Faces>, augment: Option<u64>| {
            let key = Key::new(SHARED_SEED).split("view").index(augment.unwrap_or(0));
            let transform = if augment.is_some() { config.input.transform(true) } else { plain.clone() };
            cache.table(name, faces, &transform, key, progress)
        };
        let seen = |table: FeatureTable| -> Result<Rc<Seen>> {
            Ok(Rc::new(Seen { g_x: table.features()?, y: table.targets()? }))
        };
        let validation = seen(table("features, validation", &data.validation, None)?)?;
        let results = match &data.test {
            Some(test) => seen(table("features, test", test, None)?)?,
            None => Rc::clone(&validation),
        };
        let mut train = vec![table("features, training, as they are", &data.train, None)?];
        for view in 1..frozen.views as u64 {
            train.push(table(&format!("features, training, view {view}"), &data.train, Some(view))?);
        }
        Ok(Self { train: Rc::new(train), validation, results })
    }

    /// Trains a head on the features and shows it the splits.
    fn entry(
        &self,
        wanted: &Wanted<'_>,
        trunk: &BackboneSource,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Entry> {
        let Wanted { config, method, seed, .. } = *wanted;
        let first = &self.train[0];
        let key = Key::new(seed).split(method);
        let store = ParamStore::new(key.split("init"));
        let (head, training) = Head::of(config, method, first.num_features(), &store, &Device::Cpu)?;
        let source = CachedSource::new(Rc::clone(&self.train), training.batch_size, key.split("data"))?;
        let (steps, network) = (training.steps(first.len()), Network { trunk: None, head });
        let task = FaceTask::new(network, store, source, training, key.split("train"));
        let store = wanted.train(task, steps, trunk.clone(), options, progress)?;
        let (validation, results) = (Rc::clone(&self.validation), Rc::clone(&self.results));
        let head = TrainedHead::new(config, method, first.num_features(), &store)?;
        Ok(Entry { method: method.to_owned(), seed, head, validation, results })
    }
}
