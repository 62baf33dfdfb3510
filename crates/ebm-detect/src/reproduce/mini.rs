//! Mini scale: generated scenes, a small detector, the three heads; minutes on a CPU and no download.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use candle_core::{DType, Device};
use ebm_core::GradientAscent;
use ebm_data::{
    coco::{CocoDataset, Purpose},
    loader::{Loader, LoaderConfig},
    scenes::{self, GeneratedSet, SceneConfig},
};
use ebm_eval::{Detection, GroundTruth, write_results};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, train_run};

use super::{Row, eval_loader, load_dataset, score};
use crate::{
    config::ExperimentConfig,
    error::Result,
    evaluation::{Refiner, evaluate},
    faster_rcnn::{FasterRcnn, ImageBatch},
    feature_cache::FeatureCache,
    inference::Head,
    input::objects,
    method::Method,
    training::{CachedSource, ConfidenceTask, DetectorTask, StreamSource},
    weights::{load_detector, new_head, read, save},
};

/// How many scenes of each split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenes {
    /// The detector's training set.
    pub base: usize,
    /// The share of it, from its start, that the confidence branches are trained on.
    pub heads: usize,
    /// The step lengths are chosen on these.
    pub validation: usize,
    /// The results are computed on these.
    pub test: usize,
}

impl Default for Scenes {
    fn default() -> Self {
        Self { base: 3000, heads: 1000, validation: 100, test: 300 }
    }
}

/// What to run and where.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// Seeds 0 … `seeds` − 1 of each confidence branch.
    pub seeds: u64,
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
    /// Sizes of the splits.
    pub scenes: Scenes,
}

/// The results with what is needed to draw them.
pub struct MiniOutcome {
    /// One for each method and seed.
    pub rows: Vec<Row>,
    /// Seed 0's detections of the test scenes before and after refinement by the energy model.
    pub example: (Vec<Detection>, Vec<Detection>),
    /// Annotations and images of the test scenes.
    pub test: GeneratedSet,
}

/// Root of all seeds of the data and the detector: the same for every run, so that results compare.
const DATA_SEED: u64 = 2020;
const BATCH: usize = 10;
/// Factors of the configured step lengths among which the validation scenes choose.
const STEP_FACTORS: [f64; 4] = [0.0625, 0.25, 1.0, 4.0];

/// Trains and compares the heads; see the crate's `configs/mini.toml` for the settings.
pub fn mini(
    config: &ExperimentConfig,
    options: &MiniOptions,
    progress: &mut dyn Progress,
) -> Result<MiniOutcome> {
    let device = Device::Cpu;
    let splits = Splits::generate(options, progress)?;
    let detector = Rc::new(base_detector(config, options, &splits, &device, progress)?);
    let cache = Rc::new(cache_features(config, &detector, &splits.heads(options)?, &device, progress)?);

    let weights = read(&base_path(options), &device)?;
    let mut branches: Vec<Branch> = Vec::new();
    for method in [Method::IouNetStar, Method::Ebm] {
        for seed in 0..options.seeds {
            let key = Key::new(seed).split(method.key());
            let (head, store) = new_head(&config.detector, &weights, &device, key.split("init"))?;
            let Some(settings) = config.confidence(method) else { continue };
            let source = CachedSource::new(cache.clone(), settings.training.batch_size, key.split("data"))?;
            let mut task = ConfidenceTask::new(
                detector.clone(),
                head,
                store,
                source,
                (method, settings),
                key.split("train"),
            );
            let name = format!("{}-{seed}", method.key());
            train_run(
                (&options.run, &name),
                &config.to_toml()?,
                settings.training.steps,
                seed,
                &mut task,
                progress,
            )?;
            branches.push(Branch {
                method,
                seed,
                head: task.into_head().for_inference()?,
                ascent: settings.ascent(),
            });
        }
    }
    drop(cache);
    choose_step_lengths(config, &detector, &mut branches, &splits, &device, progress)?;
    compare(config, options, &detector, &branches, splits, &device, progress)
}

struct Branch {
    method: Method,
    seed: u64,
    head: Box<Head>,
    ascent: GradientAscent,
}

struct Splits {
    train: GeneratedSet,
    validation: GeneratedSet,
    test: GeneratedSet,
}

impl Splits {
    fn generate(options: &MiniOptions, progress: &mut dyn Progress) -> Result<Self> {
        let key = Key::new(DATA_SEED).split("scenes");
        let config = SceneConfig::default();
        progress.begin("generating scenes", 3);
        let mut done = 0;
        let mut split = |name: &str, count: usize| -> Result<GeneratedSet> {
            let set = scenes::generate(&options.data.join(name), &config, count, key.split(name))?;
            done += 1;
            progress.advance(done, name);
            Ok(set)
        };
        // The branches never need more than the detector saw; without it their share is enough.
        let train = if options.from_scratch { options.scenes.base } else { options.scenes.heads };
        let splits = Self {
            train: split(&format!("train-{train}"), train)?,
            validation: split("validation", options.scenes.validation)?,
            test: split("test", options.scenes.test)?,
        };
        progress.end();
        Ok(splits)
    }

    fn heads(&self, options: &MiniOptions) -> Result<Arc<CocoDataset>> {
        let mut dataset = load_dataset(&self.train.annotations, &self.train.images, Purpose::Train)?;
        dataset.images.truncate(options.scenes.heads);
        Ok(Arc::new(dataset))
    }
}

fn base_path(options: &MiniOptions) -> PathBuf {
    match (options.from_scratch, options.keep_base) {
        (true, false) => options.run.join("detector.safetensors"),
        _ => options.base_weights.clone(),
    }
}

/// The detector of `base_weights`, or a new one trained on the scenes and saved to where the branches read it.
fn base_detector(
    config: &ExperimentConfig,
    options: &MiniOptions,
    splits: &Splits,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<FasterRcnn> {
    let path = base_path(options);
    if options.from_scratch {
        let key = Key::new(DATA_SEED).split("detector");
        let store = ParamStore::new(key.split("init"));
        let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, device))?;
        let dataset = load_dataset(&splits.train.annotations, &splits.train.images, Purpose::Train)?;
        let loader = LoaderConfig::train(config.detector.input.transform(), config.base.batch_size);
        let loader = LoaderConfig { drop_last: true, workers: 1, ..loader };
        let loader = Loader::new(Arc::new(dataset), loader, key.split("data"))?;
        let source = StreamSource::new(loader, device.clone(), config.detector.convention.into());
        let mut task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
        train_run(
            (&options.run, "detector"),
            &config.to_toml()?,
            config.base.steps,
            DATA_SEED,
            &mut task,
            progress,
        )?;
        save(&store, &path, true)?;
    }
    // Read back even when just trained: everybody measures the stored, half-precision weights.
    load_detector(&config.detector, &path, device)
}

/// P2 … P6 of every image, once: the detector is frozen from here on.
fn cache_features(
    config: &ExperimentConfig,
    detector: &FasterRcnn,
    dataset: &Arc<CocoDataset>,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<FeatureCache> {
    let mut cache = FeatureCache::default();
    progress.begin("features of the training scenes", dataset.images.len());
    let backbone = detector.for_inference()?;
    for batch in eval_loader(dataset, config, BATCH)?.epoch(0)? {
        let batch = batch?;
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = backbone.features(&images.pixels)?;
        let convention = config.detector.convention.into();
        cache.push(&pyramid, &images, batch.samples.iter().map(|s| objects(s, convention)).collect())?;
        progress.advance(cache.len(), "");
    }
    progress.end();
    Ok(cache)
}

/// Grid search on the validation scenes, as in the paper; seed 0 of a method chooses for its other seeds too.
fn choose_step_lengths(
    config: &ExperimentConfig,
    detector: &FasterRcnn,
    branches: &mut [Branch],
    splits: &Splits,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<()> {
    let scaled = |ascent: &GradientAscent, factor: f64| GradientAscent {
        step_length: ascent.step_length.iter().map(|length| length * factor).collect(),
        ..ascent.clone()
    };
    let trials: Vec<(Method, GradientAscent, &Head)> = (branches.iter().filter(|branch| branch.seed == 0))
        .flat_map(|b| STEP_FACTORS.map(|factor| (b.method, scaled(&b.ascent, factor), &*b.head)))
        .collect();
    let refiners: Vec<Refiner> =
        trials.iter().map(|(_, ascent, head)| Refiner { head: *head, ascent: ascent.clone() }).collect();
    let dataset =
        Arc::new(load_dataset(&splits.validation.annotations, &splits.validation.images, Purpose::Eval)?);
    let truth = GroundTruth::read(&splits.validation.annotations)?;
    progress.begin("choosing step lengths", dataset.images.len());
    let loader = eval_loader(&dataset, config, BATCH)?;
    let evaluation =
        evaluate(detector, &dataset, &loader, &refiners, device, &mut |done| progress.advance(done, ""))?;
    progress.end();
    let mut chosen: Vec<(Method, f64, GradientAscent)> = Vec::new();
    for ((method, ascent, _), refined) in trials.iter().zip(&evaluation.refined) {
        let ap = score(&truth, &refined.after)?.ap;
        match chosen.iter_mut().find(|(known, ..)| known == method) {
            Some(best) if ap > best.1 => *best = (*method, ap, ascent.clone()),
            Some(_) => {}
            None => chosen.push((*method, ap, ascent.clone())),
        }
    }
    for (method, ap, ascent) in chosen {
        let [position, .., size] = ascent.step_length.as_slice() else { continue };
        progress.message(&format!(
            "{}: step lengths {position} (position) and {size} (size), AP {:.1} on the validation scenes",
            method.title(),
            100.0 * ap
        ));
        for branch in branches.iter_mut().filter(|branch| branch.method == method) {
            branch.ascent = ascent.clone();
        }
    }
    Ok(())
}

fn compare(
    config: &ExperimentConfig,
    options: &MiniOptions,
    detector: &FasterRcnn,
    branches: &[Branch],
    splits: Splits,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<MiniOutcome> {
    let dataset = Arc::new(load_dataset(&splits.test.annotations, &splits.test.images, Purpose::Eval)?);
    let truth = GroundTruth::read(&splits.test.annotations)?;
    let refiners: Vec<Refiner> =
        branches.iter().map(|b| Refiner { head: &*b.head, ascent: b.ascent.clone() }).collect();
    progress.begin("test scenes", dataset.images.len());
    let loader = eval_loader(&dataset, config, BATCH)?;
    let evaluation =
        evaluate(detector, &dataset, &loader, &refiners, device, &mut |done| progress.advance(done, ""))?;
    progress.end();

    let keep = |name: &str, detections: &[Detection]| -> Result<()> {
        Ok(write_results(&results_path(&options.run, name), detections)?)
    };
    let direct = score(&truth, &evaluation.direct)?;
    keep("direct", &evaluation.direct)?;
    let mut rows: Vec<Row> =
        (0..options.seeds).map(|seed| Row::new(Method::Direct, seed, &direct, None)).collect();
    let mut example = (Vec::new(), Vec::new());
    for (branch, refined) in branches.iter().zip(evaluation.refined) {
        let figures = score(&truth, &refined.after)?;
        keep(&format!("{}-{}", branch.method.key(), branch.seed), &refined.after)?;
        rows.push(Row::new(branch.method, branch.seed, &figures, Some(refined.boxes_per_second())));
        let before = score(&truth, &refined.before)?;
        progress.message(&format!(
            "{} seed {}: AP {:.1} before refinement, {:.1} after; AP75 {:.1} and {:.1}",
            branch.method.title(),
            branch.seed,
            100.0 * before.ap,
            100.0 * figures.ap,
            100.0 * before.ap75,
            100.0 * figures.ap75,
        ));
        if branch.method == Method::Ebm && branch.seed == 0 {
            example = (refined.before, refined.after);
        }
    }
    Ok(MiniOutcome { rows, example, test: splits.test })
}

fn results_path(run: &Path, name: &str) -> PathBuf {
    run.join(format!("detections-{name}.json"))
}
