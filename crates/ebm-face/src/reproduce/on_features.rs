//! Networks on what the frozen part of one backbone has computed once: heads on its features at the frozen and the mini
//! scale, and at the finetuned scale its last blocks too.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::import::WeightBytes;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::model_file::file_digest;
use ebm_train::{Progress, RunSpec, keep_base, train_run};

use super::data::Data;
use super::heads::{Entry, Seen, Wanted, reproduce};
use super::{Options, Outcome};
use crate::backbone::OnMaps;
use crate::config::{BackboneTraining, ExperimentConfig, FrozenConfig, Settings};
use crate::evaluation::numbers;
use crate::features::{Depth, FeatureCache, FeatureTable};
use crate::network::{Head, Network, TRUNK};
use crate::saved::{BackboneSource, TrainedHead, open_backbone};
use crate::training::{CachedSource, FaceTask, StreamSource};
use crate::{Backbone, Error, Result, preload_backbone};

/// Root of the seeds that all heads share: views, and a backbone's training. The same for every run, so that
/// results compare.
const SHARED_SEED: u64 = 2020;

/// Heads on the features of the backbone in the file `weights`; where `depth` says so, each with a copy of the
/// blocks that the configuration has trained.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn frozen(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    depth: Depth,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let frozen = config.frozen.clone().unwrap_or(FrozenConfig { views: 1, grid: 0, trunk: None });
    let tables = Tables::compute(config, &frozen, data, weights, depth, options, progress)?;
    let path = keep_base(weights, &options.run, "trunk")?;
    let source = BackboneSource::File { path, sha256: file_digest(weights)? };
    let mut train = |wanted: &Wanted<'_>, progress: &mut dyn Progress| match depth {
        Depth::Features => tables.entry(wanted, &source, options, progress),
        Depth::FrozenMaps => tables.finetuned(wanted, weights, options, progress),
    };
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
        let reason = "frozen.trunk says how the trunk is trained, and is missing";
        return Err(Error::config(&config.title, reason));
    };
    let weights = options.run.join("trunk.safetensors");
    train_trunk(config, training, &data.train, options, &weights, progress)?;
    frozen(config, data, &weights, Depth::Features, options, progress)
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

/// What the frozen part made of all splits.
struct Tables {
    train: Rc<Vec<FeatureTable>>,
    validation: FeatureTable,
    /// None where the results are the validation split's.
    results: Option<FeatureTable>,
}

impl Tables {
    fn compute(
        config: &ExperimentConfig,
        frozen: &FrozenConfig,
        data: &Data,
        weights: &Path,
        depth: Depth,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let trunk = open_backbone(config, &WeightBytes::read(weights)?, None)?;
        let trunk_digest = match depth {
            Depth::Features if frozen.grid > 0 => {
                format!("{} {:?} {}", file_digest(weights)?, config.trunk, frozen.grid)
            }
            Depth::Features => file_digest(weights)?,
            Depth::FrozenMaps => format!("{} {:?}", file_digest(weights)?, config.trunk),
        };
        let cache = FeatureCache { dir: options.cache.clone(), trunk: &*trunk, depth, trunk_digest };
        let plain = config.input.transform(false);
        let mut table = |name: &str, faces: &Arc<Faces>, augment: Option<u64>| {
            let key = Key::new(SHARED_SEED).split("view").index(augment.unwrap_or(0));
            let transform = if augment.is_some() { config.input.transform(true) } else { plain.clone() };
            match &data.whole {
                Some(all) => cache.table("features", all, &transform, key, progress)?.of(all, faces),
                None => cache.table(name, faces, &transform, key, progress),
            }
        };
        let validation = table("features, validation", &data.validation, None)?;
        let results = data
            .test
            .as_ref()
            .map(|test| table(&format!("features, {}", data.part()), test, None))
            .transpose()?;
        let mut train = vec![table("features, training, as they are", &data.train, None)?];
        for view in 1..frozen.views as u64 {
            train.push(table(&format!("features, training, view {view}"), &data.train, Some(view))?);
        }
        Ok(Self { train: Rc::new(train), validation, results })
    }

    /// What a trained head sees of the splits, through `trunk` where the tables hold maps.
    fn seen(&self, trunk: Option<&dyn Backbone>) -> Result<[Rc<Seen>; 2]> {
        let see = |table: &FeatureTable| -> Result<Rc<Seen>> {
            Ok(Rc::new(Seen { g_x: table.features(trunk)?, y: table.targets().clone() }))
        };
        let validation = see(&self.validation)?;
        let results = self.results.as_ref().map(see).transpose()?;
        Ok([Rc::clone(&validation), results.unwrap_or(validation)])
    }

    /// Trains a head on the features and shows it the splits.
    fn entry(
        &self,
        wanted: &Wanted<'_>,
        trunk: &BackboneSource,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Entry> {
        let (store, num_features) = (initial(wanted), self.train[0].num_features());
        let start = Start { store, trunk: None, num_features, source: trunk.clone() };
        self.trained(wanted, start, options, progress)
    }

    /// Trains a head with the blocks below it on the maps and shows it the splits.
    fn finetuned(
        &self,
        wanted: &Wanted<'_>,
        weights: &Path,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Entry> {
        let (form, device) = (&wanted.config.trunk, &Device::Cpu);
        let store = initial(wanted);
        preload_backbone(&store, TRUNK, form, weights, device)?;
        let trunk = form.build(&store, TRUNK, DType::F32, device)?;
        let num_features = trunk.num_features();
        let (trunk, source) = (Some(Box::new(OnMaps(trunk)) as _), BackboneSource::Own(form.clone()));
        self.trained(wanted, Start { store, trunk, num_features, source }, options, progress)
    }

    /// Trains the network that is `wanted` and shows it the splits.
    fn trained(
        &self,
        wanted: &Wanted<'_>,
        Start { store, trunk, num_features, source }: Start,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Entry> {
        let Wanted { config, method, seed, .. } = *wanted;
        let (key, is_finetuned) = (Key::new(seed).split(method), trunk.is_some());
        Head::preload(config, method, &store, numbers(self.train[0].targets())?)?;
        let (head, training) = Head::of(config, method, num_features, &store, &Device::Cpu)?;
        let batches = CachedSource::new(Rc::clone(&self.train), training.batch_size, key.split("data"))?;
        let (steps, network) = (training.steps(self.train[0].len()), Network { trunk, head });
        let task = FaceTask::new(network, store, batches, training, key.split("train"));
        let store = wanted.train(task, steps, source, options, progress)?;
        let head = TrainedHead::new(config, method, num_features, &store)?;
        let build = || -> Result<Box<dyn Backbone>> {
            config.trunk.build(&store.constants()?, TRUNK, DType::F32, &Device::Cpu)
        };
        let trunk = is_finetuned.then(build).transpose()?;
        let [validation, results] = self.seen(trunk.as_deref())?;
        Ok(Entry { method: method.to_owned(), seed, head, validation, results })
    }
}

/// The parameters of a network before any is made or loaded.
fn initial(wanted: &Wanted<'_>) -> ParamStore {
    ParamStore::new(Key::new(wanted.seed).split(wanted.method).split("init"))
}

/// A network before its head is made.
struct Start {
    store: ParamStore,
    /// What is trained below the head.
    trunk: Option<Box<dyn Backbone>>,
    /// The length of its g_x.
    num_features: usize,
    source: BackboneSource,
}
