//! Mini scale: generated scenes and a small detector; minutes on a CPU and no download.

use std::{cell::OnceCell, path::PathBuf, rc::Rc, sync::Arc};

use candle_core::{DType, Device};
use ebm_data::{
    coco::{CocoDataset, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_synth::scenes::{self, Difficulty, GeneratedSet, SceneConfig};
use ebm_train::{Progress, RunSpec, train_run};

use super::setup::{Setup, Split, TrainedHeads, eval_loader, load_dataset};
use crate::{
    config::{ExperimentConfig, MethodConfig, Settings},
    error::Result,
    faster_rcnn::FasterRcnn,
    feature_cache::FeatureCache,
    foreground::ForegroundCache,
    training::{BranchSource, CachedSource, DetectorTask, ForegroundSource, StreamSource},
    weights::{WeightFile, classes, detector_metadata, save},
};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// Train the detector instead of reading `base_weights`.
    pub from_scratch: bool,
    /// Then write it to `base_weights`.
    pub keep_base: bool,
    /// The detector's weights.
    pub base_weights: PathBuf,
    /// The scenes are generated here, and found again next time.
    pub data: PathBuf,
    /// Checkpoints, metrics, detections.
    pub run: PathBuf,
    /// Branches that are not trained again.
    pub heads: Option<TrainedHeads>,
    /// Whether trainings go on that an earlier process began in `run`.
    pub resume: bool,
    /// Where everything is computed.
    pub device: Device,
    /// Threads that read images.
    pub workers: usize,
}

/// Root of all seeds of the data and the detector: the same for every run, so that results compare.
const DATA_SEED: u64 = 2020;
const BATCH: usize = 10;
/// The levels of difficulty.
pub const LEVELS: [(&str, Difficulty); 3] =
    [("easy", Difficulty::Easy), ("normal", Difficulty::Normal), ("hard", Difficulty::Hard)];

/// Generates the scenes, makes the detector and its features; see the crate's `configs/mini.toml` for the
/// settings.
///
/// # Errors
/// When data can not be made or read, the detector's weights are not of the configured architecture, or its
/// training fails.
pub fn mini(config: &ExperimentConfig, options: &MiniOptions, progress: &mut dyn Progress) -> Result<Setup> {
    let device = options.device.clone();
    progress.begin("generating scenes", 3);
    // The branches never need more than the detector saw; without it their share is enough.
    let scenes = config.scenes()?;
    let count = if options.from_scratch { scenes.base } else { scenes.heads };
    let train = options.generate(&format!("train-{count}"), Difficulty::Normal, count)?;
    progress.advance(1, "train");
    let validation = options.split("validation", (Difficulty::Normal, scenes.validation), config)?;
    progress.advance(2, "validation");
    let test = options.split("test", (Difficulty::Normal, scenes.test), config)?;
    progress.end();

    let weights = base_weights(config, options, &train, progress)?;
    let detector = Rc::new(weights.detector(&config.detector)?);
    let mut dataset = load_dataset((&train.annotations, &train.images), Purpose::Train, &config.detector)?;
    dataset.images.truncate(scenes.heads);
    let classes = classes(&dataset);
    let training = Training {
        config: config.clone(),
        detector: detector.clone(),
        dataset: Arc::new(dataset),
        device: device.clone(),
        workers: options.workers,
        features: OnceCell::new(),
        foreground: OnceCell::new(),
    };
    Ok(Setup {
        config: config.clone(),
        device,
        detector,
        digest: weights.digest()?,
        weights: weights.into_tensors(),
        classes,
        source: Box::new(move |method, batch_size, key, progress| {
            training.source(method, batch_size, key, progress)
        }),
        validation: Rc::new(validation),
        test: Rc::new(test),
        run: options.run.clone(),
        heads: options.heads.clone(),
        resume: options.resume,
        workers: options.workers,
    })
}

impl MiniOptions {
    /// Test scenes of each level of difficulty, as many as the test split has.
    ///
    /// # Errors
    /// When they can not be written.
    pub fn levels(&self, config: &ExperimentConfig) -> Result<Vec<Split>> {
        let count = config.scenes()?.test;
        LEVELS.into_iter().map(|(name, level)| self.split(name, (level, count), config)).collect()
    }

    fn split(
        &self,
        name: &str,
        (difficulty, count): (Difficulty, usize),
        config: &ExperimentConfig,
    ) -> Result<Split> {
        let set = self.generate(name, difficulty, count)?;
        Split::open(name, (set.annotations, set.images), BATCH, &config.detector)
    }

    fn generate(&self, name: &str, difficulty: Difficulty, count: usize) -> Result<GeneratedSet> {
        let key = Key::new(DATA_SEED).split("scenes").split(name);
        Ok(scenes::generate(&self.data.join(name), &SceneConfig::preset(difficulty), count, key)?)
    }

    fn base_path(&self) -> PathBuf {
        match (self.from_scratch, self.keep_base) {
            (true, false) => self.run.join("detector.safetensors"),
            _ => self.base_weights.clone(),
        }
    }
}

/// The file at [`MiniOptions::base_weights`], or a new detector's that is trained on the scenes and saved
/// first. Also what was just trained is read: everybody measures the stored, half-precision weights.
fn base_weights(
    config: &ExperimentConfig,
    options: &MiniOptions,
    train: &GeneratedSet,
    progress: &mut dyn Progress,
) -> Result<WeightFile> {
    let (path, device) = (options.base_path(), &options.device);
    if options.from_scratch {
        let key = Key::new(DATA_SEED).split("detector");
        let store = ParamStore::new(key.split("init"));
        let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, device))?;
        let dataset = load_dataset((&train.annotations, &train.images), Purpose::Train, &config.detector)?;
        let loader = LoaderConfig::train(config.detector.input.transform(), config.base.batch_size);
        let loader = LoaderConfig { drop_last: true, ..loader.with_workers(options.workers) };
        let metadata = detector_metadata(config, Some(DATA_SEED), &classes(&dataset))?;
        let loader = Loader::new(Arc::new(dataset), loader, key.split("data"))?;
        let source = StreamSource::new(loader, device.clone(), config.detector.convention.into());
        let mut task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
        let (text, steps) = (config.to_toml()?, config.base.steps);
        let spec = RunSpec::new((&options.run, "detector"), &text, steps, DATA_SEED);
        train_run(&RunSpec { resume: options.resume, ..spec }, &mut task, progress)?;
        save(&store, &path, true, &metadata)?;
    }
    WeightFile::open(&path, device)
}

/// What branches are trained on. The detector is frozen, so that its features are computed once, when the
/// first branch needs them.
struct Training {
    config: ExperimentConfig,
    detector: Rc<FasterRcnn>,
    dataset: Arc<CocoDataset>,
    device: Device,
    workers: usize,
    features: OnceCell<Rc<FeatureCache>>,
    foreground: OnceCell<Rc<ForegroundCache>>,
}

impl Training {
    fn source(
        &self,
        method: &MethodConfig,
        batch_size: usize,
        key: Key,
        progress: &mut dyn Progress,
    ) -> Result<BranchSource> {
        let features = once(&self.features, || self.features(progress))?;
        if method.density.is_none() {
            return Ok(BranchSource::Images(Box::new(CachedSource::new(features, batch_size, key)?)));
        }
        let compute = || ForegroundCache::new(&self.detector, &features, progress);
        let foreground = once(&self.foreground, compute)?;
        Ok(BranchSource::Foreground(ForegroundSource::new(foreground, batch_size, key)))
    }

    /// P2 … P6 of every image.
    fn features(&self, progress: &mut dyn Progress) -> Result<FeatureCache> {
        FeatureCache::compute(
            &eval_loader(&self.dataset, &self.config, BATCH, self.workers)?,
            self.config.detector.convention.into(),
            &self.device,
            &|images| self.detector.features(&images.pixels, false),
            ("features of the training scenes", self.dataset.images.len()),
            progress,
        )
    }
}

/// What is in the cell, computed where nothing is.
fn once<T>(cell: &OnceCell<Rc<T>>, compute: impl FnOnce() -> Result<T>) -> Result<Rc<T>> {
    if let Some(known) = cell.get() {
        return Ok(known.clone());
    }
    let new = Rc::new(compute()?);
    Ok(cell.get_or_init(|| new).clone())
}
