//! The networks of a table: whole ones, and heads on what the frozen part of one backbone makes of the images once.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::import::WeightBytes;
use ebm_nn::params::ParamStore;
use ebm_train::model_file::file_digest;
use ebm_train::{Group, Progress, RunSpec, keep_base, train_run};

use super::data::Data;
use super::table::reproduce;
use super::{Options, Outcome};
use crate::backbone::OnMaps;
use crate::config::{BackboneTraining, ExperimentConfig, FrozenConfig, Settings};
use crate::evaluation::numbers;
use crate::features::{Depth, FeatureTable, Viewer};
use crate::network::{Head, Network, TRUNK};
use crate::saved::{BackboneSource, RunConfig, open_backbone, save};
use crate::training::{BatchSource, CachedSource, FaceTask, StreamSource, whole_network};
use crate::{Backbone, BackboneConfig, Error, Result, preload_backbone};

/// Root of the seeds that all heads share: views, and a backbone's training. The same for every run, so that
/// results compare.
const SHARED_SEED: u64 = 2020;

/// A trained network's view of a split.
pub(crate) struct Seen {
    /// Its g_x, `(N, X)`.
    pub g_x: Tensor,
    /// The targets, `(N, D)`.
    pub y: Tensor,
}

impl Seen {
    /// What `trunk` makes of the maps of `table`, or its features.
    pub fn of(table: &FeatureTable, trunk: Option<&dyn Backbone>) -> Result<Rc<Self>> {
        Ok(Rc::new(Self { g_x: table.features(trunk)?, y: table.targets().clone() }))
    }
}

/// A trained head and what it sees of the validation split and of the split that the results are of.
pub(crate) struct Entry {
    pub method: String,
    pub seed: u64,
    pub head: Head,
    pub validation: Rc<Seen>,
    pub results: Rc<Seen>,
}

/// A network that a table needs.
pub(super) struct Wanted<'a> {
    pub config: &'a ExperimentConfig,
    /// The key of a baseline, or of the energy model.
    pub method: &'a str,
    /// The name of its run.
    pub name: &'a str,
    pub seed: u64,
    /// Whether the split of the results is looked at, beside the validation split.
    pub measured: bool,
}

impl Wanted<'_> {
    /// Trains the network in its run and saves it there; its parameters.
    fn train<S: BatchSource>(
        &self,
        mut task: FaceTask<S>,
        steps: usize,
        trunk: BackboneSource,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<ParamStore> {
        let (method, experiment) = (self.method.to_owned(), self.config.clone());
        let saved = RunConfig { method, seed: self.seed, trunk, experiment };
        let text = saved.to_toml()?;
        let spec = RunSpec::new(&options.run, self.name, &text, steps, self.seed);
        // The trunk's file is known by its digest, wherever it lies.
        let spec = RunSpec { resume: options.resume, changeable: &["path"], ..spec };
        let run = train_run(&spec, &mut task, progress)?;
        let (_, store) = task.into_network();
        save(&store, run.path(), &saved)?;
        Ok(store)
    }

    /// Its head as it was trained, for prediction.
    fn head(&self, num_features: usize, store: &ParamStore) -> Result<Head> {
        Head::of(self.config, self.method, num_features, &store.constants()?, &Device::Cpu)
    }

    fn entry(&self, head: Head, validation: Rc<Seen>, results: Option<Rc<Seen>>) -> Entry {
        let results = results.unwrap_or_else(|| Rc::clone(&validation));
        Entry { method: self.method.to_owned(), seed: self.seed, head, validation, results }
    }
}

/// The paper scale: trains all rows from the pretrained `weights` on `device`, end to end, and compares them.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn paper(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    device: &Device,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let mut train = |wanted: &Wanted<'_>, progress: &mut dyn Progress| -> Result<Entry> {
        let Wanted { config, method, seed, measured, .. } = *wanted;
        let (weights, group) = (Some(weights), &Group::alone());
        let (task, steps, run) = whole_network(config, method, seed, &data.train, weights, device, group)?;
        let store = wanted.train(task, steps, run.trunk, options, progress)?;
        // A residual network is fast enough on the CPU.
        let device = if matches!(config.trunk, BackboneConfig::Resnet(_)) { &Device::Cpu } else { device };
        let trunk = config.trunk.build(&store.constants()?, TRUNK, DType::F32, device)?;
        let viewer = Viewer { trunk: &*trunk, depth: Depth::Features, device };
        let mut see = |faces: &Arc<Faces>| -> Result<Rc<Seen>> {
            let plain = config.input.transform(false);
            Seen::of(&viewer.table("features", faces, plain, Key::new(0), progress)?, None)
        };
        let validation = see(&data.validation)?;
        let results = data.test.as_ref().filter(|_| measured).map(see).transpose()?;
        Ok(wanted.entry(wanted.head(trunk.num_features(), &store)?, validation, results))
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
    train_trunk(config, training, &data.train, options, progress)?.save(&weights)?;
    on_features(config, std::slice::from_ref(data), &weights, options, progress)
}

/// Trains a backbone with a baseline's head; the parameters of both.
fn train_trunk(
    config: &ExperimentConfig,
    BackboneTraining { method, training }: &BackboneTraining,
    faces: &Arc<Faces>,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<ParamStore> {
    let key = Key::new(SHARED_SEED).split("trunk");
    let store = ParamStore::new(key.split("init"));
    let device = Device::Cpu;
    let trunk = config.trunk.build(&store, TRUNK, DType::F32, &device)?;
    let head = Head::of(config, method, trunk.num_features(), &store, &device)?;
    let network = Network::new(config, Some(trunk), head)?;
    let loader = FaceLoaderConfig::shuffled(config.input.transform(true), training.batch_size);
    let loader = FaceLoader::new(Arc::clone(faces), loader, key.split("data"))?;
    let source = StreamSource::new(loader, faces.faces.len(), device);
    let steps = training.steps(faces.faces.len());
    let mut task = FaceTask::new(network, store, source, training, key.split("train"));
    let text = config.to_toml()?;
    let spec = RunSpec::new(&options.run, "trunk", &text, steps, SHARED_SEED);
    train_run(&RunSpec { resume: options.resume, ..spec }, &mut task, progress)?;
    Ok(task.into_network().1)
}

/// Heads on what the backbone in the file `weights` makes of the images, which is computed once; where the
/// configuration says so, each with a copy of the blocks above the frozen ones. Of several `folds` each is trained,
/// chosen and measured apart, with its runs in a folder of its own.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn on_features(
    config: &ExperimentConfig,
    folds: &[Data],
    weights: &Path,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let frozen = config.frozen.clone().unwrap_or(FrozenConfig { views: 1, ..FrozenConfig::default() });
    let trunk = open_backbone(config, &WeightBytes::read(weights)?)?;
    let depth = if frozen.finetuned { Depth::FrozenMaps } else { Depth::Features };
    let viewer = Viewer { trunk: &*trunk, depth, device: &Device::Cpu };
    let views = Views { config, viewer, count: frozen.views };
    if let [data] = folds {
        return on_tables(config, data, &views.tables(data, progress)?, weights, options, progress);
    }
    // All folds have the same images.
    let all = folds.first().and_then(|data| data.whole.as_ref());
    let whole = all.map(|all| views.of("features", all, progress)).transpose()?;
    let mut outcome = Outcome::default();
    for (fold, data) in folds.iter().enumerate() {
        progress.message(&format!("fold {} of {}", fold + 1, folds.len()));
        let run = options.run.join(format!("fold-{fold}"));
        ebm_data::files::create_dir(&run)?;
        data.record(&run)?;
        let tables = match (&data.whole, &whole) {
            (Some(all), Some(whole)) => Tables::part(whole, all, data)?,
            _ => views.tables(data, progress)?,
        };
        let options = Options { run, ..options.clone() };
        outcome.join(fold, on_tables(config, data, &tables, weights, &options, progress)?);
    }
    Ok(outcome)
}

/// The views of an image that heads learn from: as it is, and augmented.
struct Views<'a> {
    config: &'a ExperimentConfig,
    viewer: Viewer<'a>,
    count: usize,
}

impl Views<'_> {
    fn view(
        &self,
        stage: &str,
        faces: &Arc<Faces>,
        view: usize,
        progress: &mut dyn Progress,
    ) -> Result<FeatureTable> {
        let key = Key::new(SHARED_SEED).split("view").index(view as u64);
        self.viewer.table(stage, faces, self.config.input.transform(view > 0), key, progress)
    }

    fn of(&self, stage: &str, faces: &Arc<Faces>, progress: &mut dyn Progress) -> Result<Vec<FeatureTable>> {
        let stage = |view| if view == 0 { stage.to_owned() } else { format!("{stage}, view {view}") };
        (0..self.count).map(|view| self.view(&stage(view), faces, view, progress)).collect()
    }

    fn tables(&self, data: &Data, progress: &mut dyn Progress) -> Result<Tables> {
        let validation = self.view("features, validation", &data.validation, 0, progress)?;
        let stage = format!("features, {}", data.part());
        let results = data.test.as_ref().map(|test| self.view(&stage, test, 0, progress)).transpose()?;
        let train = Rc::new(self.of("features, training", &data.train, progress)?);
        Ok(Tables { train, validation, results })
    }
}

/// What the frozen part made of all splits.
struct Tables {
    train: Rc<Vec<FeatureTable>>,
    validation: FeatureTable,
    /// None where the results are the validation split's.
    results: Option<FeatureTable>,
}

impl Tables {
    /// Of the views `whole` of the images `all` those of a fold.
    fn part(whole: &[FeatureTable], all: &Faces, data: &Data) -> Result<Self> {
        let plain = |faces: &Faces| whole[0].of(all, faces);
        let train = whole.iter().map(|view| view.of(all, &data.train)).collect::<Result<_>>()?;
        let results = data.test.as_ref().map(|test| plain(test)).transpose()?;
        Ok(Self { train: Rc::new(train), validation: plain(&data.validation)?, results })
    }
}

/// Trains heads on the tables and compares them.
fn on_tables(
    config: &ExperimentConfig,
    data: &Data,
    tables: &Tables,
    weights: &Path,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let is_finetuned = config.frozen.as_ref().is_some_and(|frozen| frozen.finetuned);
    let base = BackboneSource::File {
        path: keep_base(weights, &options.run, "trunk")?,
        sha256: file_digest(weights)?,
    };
    let device = &Device::Cpu;
    let mut train = |wanted: &Wanted<'_>, progress: &mut dyn Progress| -> Result<Entry> {
        let Wanted { config, method, seed, .. } = *wanted;
        let key = Key::new(seed).split(method);
        let store = ParamStore::new(key.split("init"));
        let (mut trunk, mut num_features, mut source) = (None, tables.train[0].num_features(), base.clone());
        if is_finetuned {
            preload_backbone(&store, TRUNK, &config.trunk, weights, device)?;
            let network = config.trunk.build(&store, TRUNK, DType::F32, device)?;
            (num_features, source) = (network.num_features(), BackboneSource::Own(config.trunk.clone()));
            trunk = Some(Box::new(OnMaps(network)) as Box<dyn Backbone>);
        }
        Head::preload(config, method, &store, numbers(tables.train[0].targets())?)?;
        let head = Head::of(config, method, num_features, &store, device)?;
        let (network, training) = (Network::new(config, trunk, head)?, config.training_of(method));
        let batches = CachedSource::new(Rc::clone(&tables.train), training.batch_size, key.split("data"))?;
        let task = FaceTask::new(network, store, batches, training, key.split("train"));
        let steps = training.steps(tables.train[0].len());
        let store = wanted.train(task, steps, source, options, progress)?;
        let build = || config.trunk.build(&store.constants()?, TRUNK, DType::F32, device);
        let trunk = is_finetuned.then(build).transpose()?;
        let see = |table: &FeatureTable| Seen::of(table, trunk.as_deref());
        let results = tables.results.as_ref().map(see).transpose()?;
        Ok(wanted.entry(wanted.head(num_features, &store)?, see(&tables.validation)?, results))
    };
    reproduce(config, data, options, &mut train, progress)
}
