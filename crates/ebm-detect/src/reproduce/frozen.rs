//! The scales of generated scenes and of real images: the frozen detector's features of all training images are
//! in memory.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use ebm_data::coco::{CocoDataset, Purpose};
use ebm_seed::Key;
use ebm_synth::scenes::{self, GeneratedSet, SceneConfig};
use ebm_train::Progress;

use super::{
    base::BaseOptions,
    setup::{Setup, Source, Split, StudyOptions, eval_loader, load_dataset},
};
use crate::{
    Error, Result,
    config::{DetectorConfig, ExperimentConfig, MethodConfig},
    faster_rcnn::{FasterRcnn, ImageBatch},
    feature_cache::FeatureCache,
    foreground::ForegroundCache,
    training::{BranchSource, CachedSource, ForegroundSource},
    weights::classes,
};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct FrozenOptions {
    /// The detector.
    pub base: BaseOptions,
    /// The folder of the images. Scenes are generated here, and found again next time. Real images are in
    /// `images/`, with annotations in COCO's form: what `train*.json` hold is trained on, step lengths are
    /// chosen on `val.json`, results are measured on `test.json`.
    pub data: PathBuf,
    /// What every scale is told.
    pub study: StudyOptions,
}

/// Root of all seeds of scenes and detectors: the same for every run, so that results compare.
const SEED: u64 = 2020;
/// Scenes that are run at a time.
const BATCH: usize = 10;

/// Generates scenes, makes the detector and its features; see the crate's `configs/mini.toml` for the
/// settings. Minutes on a CPU and no download.
///
/// # Errors
/// When data can not be made or read, the detector's weights are not of the configured architecture, or its
/// training fails.
pub fn mini(
    config: &ExperimentConfig,
    options: &FrozenOptions,
    progress: &mut dyn Progress,
) -> Result<Setup> {
    progress.begin("generating scenes", 3);
    // The branches never need more than the detector saw; without it their share is enough.
    let scenes = config.scenes()?;
    let count = if options.base.from_scratch { scenes.base } else { scenes.heads };
    let generated = |name: &str, count: usize| -> Result<GeneratedSet> {
        let key = Key::new(SEED).split("scenes").split(name);
        Ok(scenes::generate(&options.data.join(name), &SceneConfig::default(), count, key)?)
    };
    let open = |name: &str, count: usize| {
        let set = generated(name, count)?;
        Split::open(name, set.annotations, &set.images, BATCH, &config.detector)
    };
    let train = generated(&format!("train-{count}"), count)?;
    progress.advance(1, "train");
    let splits = [open("validation", scenes.validation)?, open("test", scenes.test)?];
    progress.end();
    let train = load_dataset(&train.annotations, &train.images, Purpose::Train, &config.detector)?;
    frozen(config, options, (train, scenes.heads), splits, FeatureCache::AT_ONCE, progress)
}

/// Reads the splits of a folder of real images and makes the detector.
///
/// # Errors
/// When data can not be read, the detector's weights are not of the configured architecture, or its training
/// fails.
pub fn real(
    config: &ExperimentConfig,
    options: &FrozenOptions,
    progress: &mut dyn Progress,
) -> Result<Setup> {
    let images = options.data.join("images");
    let open = |name: &str| {
        let annotations = options.data.join(format!("{name}.json"));
        Split::open(name, annotations, &images, 1, &config.detector)
    };
    progress.begin("reading annotations", 3);
    let train = training_images(&options.data, &images, &config.detector)?;
    progress.advance(1, "train");
    let splits = [open("val")?, open("test")?];
    progress.end();
    // Photographs have many sizes; each is padded as it is in prediction.
    frozen(config, options, (train, usize::MAX), splits, 1, progress)
}

/// The images of all `train*.json` in `folder`.
fn training_images(folder: &Path, images: &Path, detector: &DetectorConfig) -> Result<CocoDataset> {
    let refuse = |reason: String| Error::input(folder.display(), reason);
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(format!("cannot be listed: {error}")))?;
    let is_training = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("train") && name.ends_with(".json")
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_training).collect();
    files.sort();
    let load = |path: PathBuf| Ok((path.clone(), load_dataset(&path, images, Purpose::Train, detector)?));
    let mut datasets = files.into_iter().map(load).collect::<Result<Vec<_>>>()?.into_iter();
    let (_, first) = datasets.next().ok_or_else(|| refuse("it has no train*.json".to_owned()))?;
    Ok(first.joined(datasets)?)
}

/// The detector, trained on all images of `train` or read. The first so many of them serve the branches: it sees
/// them once, when the first branch needs their features, `batch` at a time, padded to the largest.
fn frozen(
    config: &ExperimentConfig,
    FrozenOptions { base, study, .. }: &FrozenOptions,
    (mut train, heads): (CocoDataset, usize),
    [validation, test]: [Split; 2],
    batch: usize,
    progress: &mut dyn Progress,
) -> Result<Setup> {
    let weights = base.open(config, || Ok(train.clone()), SEED, study, progress)?;
    train.images.truncate(heads);
    let detector = Rc::new(weights.detector(&config.detector)?);
    Ok(Setup {
        config: config.clone(),
        detector: detector.clone(),
        digest: weights.digest()?,
        weights: weights.into_tensors(),
        classes: classes(&train),
        source: source(config, detector, train, batch, study)?,
        validation: Rc::new(validation),
        test: Rc::new(test),
        study: study.clone(),
    })
}

/// Batches of every method, from P2 … P6 of every image.
fn source(
    config: &ExperimentConfig,
    detector: Rc<FasterRcnn>,
    dataset: CocoDataset,
    batch: usize,
    study: &StudyOptions,
) -> Result<Source> {
    let (count, device) = (dataset.images.len(), study.device.clone());
    let loader = eval_loader(&Arc::new(dataset), config, batch, study.workers)?;
    let convention = config.detector.convention.into();
    let (features, foreground) = (OnceCell::new(), OnceCell::new());
    Ok(Box::new(move |method: &MethodConfig, batch_size: usize, key: Key, progress: &mut dyn Progress| {
        let see = |images: &ImageBatch| detector.features(&images.pixels, false);
        let what = "features of the training images";
        let compute = || FeatureCache::compute(&loader, convention, &device, &see, what, count, progress);
        let features = once(&features, compute)?;
        if method.density.is_none() {
            return Ok(BranchSource::Images(Box::new(CachedSource::new(features, batch_size, key)?)));
        }
        let compute = || ForegroundCache::new(&detector, &features, progress);
        let foreground = once(&foreground, compute)?;
        Ok(BranchSource::Foreground(ForegroundSource::new(foreground, batch_size, key)))
    }))
}

/// What is in the cell, computed where nothing is.
fn once<T>(cell: &OnceCell<Rc<T>>, compute: impl FnOnce() -> Result<T>) -> Result<Rc<T>> {
    if let Some(known) = cell.get() {
        return Ok(known.clone());
    }
    let new = Rc::new(compute()?);
    Ok(cell.get_or_init(|| new).clone())
}
