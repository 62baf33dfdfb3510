//! Training of a table's networks: end to end, or as heads on features that are computed once.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::faces::Faces;
use ebm_nn::import::WeightBytes;
use ebm_nn::params::ParamStore;
use ebm_train::model_file::file_digest;
use ebm_train::{Group, Progress, RunSpec, keep_base, train_run};

use super::data::Data;
use super::table::reproduce;
use super::{Options, Outcome};
use crate::backbone::TrainedPart;
use crate::config::{BackboneTraining, ExperimentConfig, FrozenConfig, Settings};
use crate::evaluation::numbers;
use crate::features::{FeatureExtractor, FeatureTable, SHARED_SEED};
use crate::network::{Head, Network, TRUNK};
use crate::saved::{BackboneSource, RunConfig, open_backbone, save};
use crate::training::{Batch, BatchSource, CachedSource, FaceTask, end_to_end_task};
use crate::{Backbone, BackboneConfig, Error, Result, preload_backbone};

/// A trained head, with g_x of the validation split and of the split that the results are computed on.
pub(crate) struct TrainedHead {
    pub method: String,
    pub seed: u64,
    pub head: Head,
    pub validation: Rc<Batch>,
    pub results: Rc<Batch>,
}

/// A network to train for a table.
pub(super) struct NetworkSpec<'a> {
    pub config: &'a ExperimentConfig,
    /// Key of a baseline, or of the energy model.
    pub method: &'a str,
    /// Name of its run.
    pub name: &'a str,
    pub seed: u64,
    /// Whether features of the results' split are needed, beside the validation split.
    pub measured: bool,
}

impl NetworkSpec<'_> {
    /// Trains the network, saves it in the folder of its run, and returns its parameters.
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
        // The digest identifies the trunk's file, so its path may change.
        let spec = RunSpec { resume: options.resume, changeable: &["path"], ..spec };
        let run = train_run(&spec, &mut task, progress)?;
        let (_, store) = task.into_network();
        save(&store, run.path(), &saved)?;
        Ok(store)
    }

    /// Builds the trained head for prediction.
    fn head(&self, num_features: usize, store: &ParamStore) -> Result<Head> {
        Head::of(self.config, self.method, num_features, &store.constants()?, &Device::Cpu)
    }

    fn trained_head(&self, head: Head, validation: Rc<Batch>, results: Option<Rc<Batch>>) -> TrainedHead {
        let results = results.unwrap_or_else(|| Rc::clone(&validation));
        TrainedHead { method: self.method.to_owned(), seed: self.seed, head, validation, results }
    }
}

/// Reproduces a table at paper scale: trains all rows end to end from the pretrained `weights` on `device`.
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
    let mut train = |spec: &NetworkSpec<'_>, progress: &mut dyn Progress| -> Result<TrainedHead> {
        let NetworkSpec { config, method, seed, measured, .. } = *spec;
        let (key, group) = (Key::new(seed).split(method), &Group::alone());
        let (task, steps) = end_to_end_task(config, method, key, &data.train, Some(weights), device, group)?;
        let store = spec.train(task, steps, BackboneSource::Own(config.trunk.clone()), options, progress)?;
        // A residual network is fast enough on the CPU.
        let device = if matches!(config.trunk, BackboneConfig::Resnet(_)) { &Device::Cpu } else { device };
        let trunk = config.trunk.build(&store.constants()?, TRUNK, DType::F32, device)?;
        let extractor = FeatureExtractor { trunk: &*trunk, input: &config.input, maps: false, device };
        let mut extract = |faces| extractor.extract("features", faces, 0, progress)?.batch_of_all(None);
        let validation = extract(&data.validation)?;
        let results = data.test.as_ref().filter(|_| measured).map(extract).transpose()?;
        Ok(spec.trained_head(spec.head(trunk.num_features(), &store)?, validation, results))
    };
    reproduce(config, data, options, &mut train, progress)
}

/// Reproduces a table at mini scale: trains a backbone with a baseline's head, then heads on its features.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn mini(
    config: &ExperimentConfig,
    data: &Data,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let Some(BackboneTraining { method, training }) =
        config.frozen.as_ref().and_then(|frozen| frozen.trunk.as_ref())
    else {
        let reason = "frozen.trunk is missing; it sets how the trunk is trained";
        return Err(Error::config(&config.title, reason));
    };
    let own = ExperimentConfig { training: training.clone(), ..config.clone() };
    let (key, group) = (Key::new(SHARED_SEED).split("trunk"), &Group::alone());
    let (mut task, steps) = end_to_end_task(&own, method, key, &data.train, None, &Device::Cpu, group)?;
    let text = config.to_toml()?;
    let spec = RunSpec::new(&options.run, "trunk", &text, steps, SHARED_SEED);
    train_run(&RunSpec { resume: options.resume, ..spec }, &mut task, progress)?;
    let weights = options.run.join("trunk.safetensors");
    task.into_network().1.save(&weights)?;
    on_features(config, std::slice::from_ref(data), &weights, options, progress)
}

/// Reproduces a table with heads on features that the backbone in the file `weights` computes once.
///
/// With `frozen.finetuned`, each head is trained with its own copy of the blocks above the frozen ones. If there are
/// several `folds`, each has its own networks, step length and results, with its runs in a folder of its own.
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
    let (input, maps, device) = (&config.input, frozen.finetuned, &Device::Cpu);
    let extractor = FeatureExtractor { trunk: &*trunk, input, maps, device };
    // All folds have the same images.
    let all = folds.first().and_then(|data| data.whole.as_ref());
    let whole = all.map(|all| views(&extractor, "features", all, frozen.views, progress)).transpose()?;
    let mut outcome = Outcome::default();
    for (fold, data) in folds.iter().enumerate() {
        let tables = match (&data.whole, &whole) {
            (Some(all), Some(whole)) => Tables::select(whole, all, data)?,
            _ => Tables::extract(&extractor, data, frozen.views, progress)?,
        };
        if folds.len() == 1 {
            return on_tables(config, data, &tables, weights, options, progress);
        }
        progress.message(&format!("fold {} of {}", fold + 1, folds.len()));
        let run = options.run.join(format!("fold-{fold}"));
        ebm_data::files::create_dir(&run)?;
        data.record(&run)?;
        let options = Options { run, ..options.clone() };
        outcome.join(fold, on_tables(config, data, &tables, weights, &options, progress)?);
    }
    Ok(outcome)
}

/// Computes the features of `faces` in `count` views. The first view shows the images as they are.
fn views(
    extractor: &FeatureExtractor<'_>,
    stage: &str,
    faces: &Arc<Faces>,
    count: usize,
    progress: &mut dyn Progress,
) -> Result<Vec<FeatureTable>> {
    let stage = |view| if view == 0 { stage.to_owned() } else { format!("{stage}, view {view}") };
    (0..count).map(|view| extractor.extract(&stage(view), faces, view, progress)).collect()
}

/// Features of all splits.
struct Tables {
    /// One table for each view.
    train: Rc<Vec<FeatureTable>>,
    validation: FeatureTable,
    /// `None` if the results are computed on the validation split.
    results: Option<FeatureTable>,
}

impl Tables {
    fn extract(
        extractor: &FeatureExtractor<'_>,
        data: &Data,
        count: usize,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let validation = extractor.extract("features, validation", &data.validation, 0, progress)?;
        let stage = format!("features, {}", data.part());
        let results =
            data.test.as_ref().map(|test| extractor.extract(&stage, test, 0, progress)).transpose()?;
        let train = Rc::new(views(extractor, "features, training", &data.train, count, progress)?);
        Ok(Self { train, validation, results })
    }

    /// Selects the features of the fold `data` from the views `whole` of the faces `all`.
    fn select(whole: &[FeatureTable], all: &Faces, data: &Data) -> Result<Self> {
        let plain = |faces: &Faces| whole[0].select(all, faces);
        let train = whole.iter().map(|view| view.select(all, &data.train)).collect::<Result<_>>()?;
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
    let mut train = |spec: &NetworkSpec<'_>, progress: &mut dyn Progress| -> Result<TrainedHead> {
        let NetworkSpec { config, method, seed, .. } = *spec;
        let key = Key::new(seed).split(method);
        let store = ParamStore::new(key.split("init"));
        let (mut trunk, mut num_features, mut source) = (None, tables.train[0].num_features(), base.clone());
        if is_finetuned {
            preload_backbone(&store, TRUNK, &config.trunk, weights, device)?;
            let network = config.trunk.build(&store, TRUNK, DType::F32, device)?;
            (num_features, source) = (network.num_features(), BackboneSource::Own(config.trunk.clone()));
            trunk = Some(Box::new(TrainedPart(network)) as Box<dyn Backbone>);
        }
        Head::preload(config, method, &store, numbers(&tables.train[0].targets)?)?;
        let head = Head::of(config, method, num_features, &store, device)?;
        let (network, training) = (Network::new(config, trunk, head)?, config.training_of(method));
        let batches = CachedSource::new(Rc::clone(&tables.train), training.batch_size, key.split("data"))?;
        let task = FaceTask::new(network, store, batches, training, key.split("train"));
        let steps = training.steps(tables.train[0].count());
        let store = spec.train(task, steps, source, options, progress)?;
        let build = || config.trunk.build(&store.constants()?, TRUNK, DType::F32, device);
        let trunk = is_finetuned.then(build).transpose()?;
        let batch = |table: &FeatureTable| table.batch_of_all(trunk.as_deref());
        let results = tables.results.as_ref().map(batch).transpose()?;
        Ok(spec.trained_head(spec.head(num_features, &store)?, batch(&tables.validation)?, results))
    };
    reproduce(config, data, options, &mut train, progress)
}
