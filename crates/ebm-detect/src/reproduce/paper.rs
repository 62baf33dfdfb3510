//! Paper scale: COCO 2017, ResNet50-FPN, the published detector's weights, 60 000 updates of each branch.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use candle_core::{DType, Device, Tensor};
use ebm_data::{
    coco::{CocoDataset, Purpose},
    loader::{Loader, LoaderConfig},
    scenes::{self, SceneConfig},
};
use ebm_eval::{GroundTruth, write_results};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, TrainTask, train_run};

use super::{Row, eval_loader, load_dataset, score};
use crate::{
    config::{DetectorConfig, ExperimentConfig},
    error::Result,
    evaluation::{Refiner, evaluate},
    faster_rcnn::{FasterRcnn, ImageBatch},
    method::Method,
    training::{ConfidenceTask, StreamSource},
    weights::{load_detector, new_head, read},
};

/// Detector weights that the paper scale knows, best first, with the configuration that each belongs to.
pub const DETECTORS: [(&str, &str); 2] = [
    ("e2e_faster_rcnn_R-50-FPN_1x.safetensors", "paper"),
    ("fasterrcnn_resnet50_fpn_coco-258fb6c6.pth", "torchvision"),
];

/// What to run and where.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// Holds `train2017/`, `val2017/` and `annotations/`.
    pub coco: PathBuf,
    /// Holds one of [`DETECTORS`].
    pub weights: PathBuf,
    /// Seeds of each confidence branch.
    pub seeds: u64,
    /// Checkpoints, metrics, detections.
    pub run: PathBuf,
    /// Where to compute.
    pub device: Device,
}

impl PaperOptions {
    /// Annotations and images of a split (`train` or `val`).
    pub fn split(&self, name: &str) -> (PathBuf, PathBuf) {
        let annotations = self.coco.join(format!("annotations/instances_{name}2017.json"));
        (annotations, self.coco.join(format!("{name}2017")))
    }

    /// The first of [`DETECTORS`] that is there.
    pub fn detector(&self) -> Option<(PathBuf, &'static str)> {
        let mut known = DETECTORS.iter().map(|&(file, config)| (self.weights.join(file), config));
        known.find(|(path, _)| path.is_file())
    }

    /// What is missing for a run at paper scale; empty when nothing is.
    pub fn missing(&self) -> Vec<PathBuf> {
        let mut missing = Vec::new();
        for split in ["train", "val"] {
            let (annotations, images) = self.split(split);
            missing.extend([annotations, images].into_iter().filter(|path| !path.exists()));
        }
        if self.detector().is_none() {
            missing.push(self.weights.join(DETECTORS[0].0));
        }
        missing
    }
}

/// Trains the branches on train2017 and compares them on val2017.
pub fn paper(options: &PaperOptions, progress: &mut dyn Progress) -> Result<Vec<Row>> {
    let (path, name) =
        options.detector().unwrap_or_else(|| (options.weights.join(DETECTORS[0].0), DETECTORS[0].1));
    let config = ExperimentConfig::embedded(name)?;
    let device = &options.device;
    let detector = Rc::new(load_detector(&config.detector, &path, device)?);
    let weights = read(&path, device)?;
    let (annotations, images) = options.split("train");
    let train_set = Arc::new(load_dataset(&annotations, &images, Purpose::Train)?);

    let mut heads = Vec::new();
    for method in [Method::IouNetStar, Method::Ebm] {
        let Some(settings) = config.confidence(method) else { continue };
        for seed in 0..options.seeds {
            let key = Key::new(seed).split(method.key());
            let mut task = confidence_task(
                &config,
                &detector,
                &weights,
                train_set.clone(),
                method,
                settings.training.batch_size,
                key,
                device,
            )?;
            let name = format!("{}-{seed}", method.key());
            train_run(
                (&options.run, &name),
                &config.to_toml()?,
                settings.training.steps,
                seed,
                &mut task,
                progress,
            )?;
            heads.push((method, seed, task.into_head(), settings.ascent()));
        }
    }

    let (annotations, images) = options.split("val");
    let truth = GroundTruth::read(&annotations)?;
    let dataset = Arc::new(load_dataset(&annotations, &images, Purpose::Eval)?);
    let refiners: Vec<Refiner> =
        heads.iter().map(|(_, _, head, ascent)| Refiner { head, ascent: ascent.clone() }).collect();
    progress.begin("val2017", dataset.images.len());
    let loader = eval_loader(&dataset, &config, 1)?;
    let evaluation =
        evaluate(&detector, &dataset, &loader, &refiners, device, &mut |done| progress.advance(done, ""))?;
    progress.end();

    write_results(&options.run.join("detections-direct.json"), &evaluation.direct)?;
    let direct = score(&truth, &evaluation.direct)?;
    let mut rows: Vec<Row> =
        (0..options.seeds).map(|seed| Row::new(Method::Direct, seed, &direct, None)).collect();
    for ((method, seed, ..), refined) in heads.iter().zip(&evaluation.refined) {
        write_results(&options.run.join(format!("detections-{}-{seed}.json", method.key())), &refined.after)?;
        rows.push(Row::new(
            *method,
            *seed,
            &score(&truth, &refined.after)?,
            Some(refined.boxes_per_second()),
        ));
    }
    Ok(rows)
}

/// What a run at paper scale would do, and what two of its steps did.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The plan, a fact a line.
    pub lines: Vec<String>,
    /// Losses of the steps that were run, by method.
    pub losses: Vec<(Method, Vec<f64>)>,
}

/// Images per step of a dry run; the plan's own batch size is for a GPU.
const DRY_BATCH: usize = 2;
const DRY_STEPS: usize = 2;

/// Builds the network at full size and runs two steps of each branch on whatever images are there: COCO's, or a few
/// generated scenes written below `scratch`.
pub fn dry_run(options: &PaperOptions, scratch: &Path, progress: &mut dyn Progress) -> Result<Plan> {
    let found = options.detector();
    let config = ExperimentConfig::embedded(found.as_ref().map_or("paper", |(_, name)| name))?;
    let device = &options.device;
    let mut plan = Plan::default();

    let (weights, detector) = match &found {
        Some((path, _)) => (read(path, device)?, load_detector(&config.detector, path, device)?),
        None => random_detector(&config.detector, device)?,
    };
    let detector = Rc::new(detector);
    plan.lines.push(match &found {
        Some((path, name)) => format!("detector: {} ({name} convention)", path.display()),
        None => "detector: no published weights here; random ones of the same architecture".into(),
    });
    let elements = |prefix: &str| -> usize {
        weights.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, t)| t.elem_count()).sum()
    };
    plan.lines.push(format!(
        "parameters: {} in the detector (frozen), {} in each confidence branch",
        elements(""),
        elements("roi_heads.box_head.")
            + config.detector.num_classes * (config.detector.roi.representation + 1)
    ));
    for method in [Method::IouNetStar, Method::Ebm] {
        let Some(c) = config.confidence(method) else { continue };
        plan.lines.push(format!(
            "{}: {} updates of {} images, learning rate {}, {} boxes per object, sigmas {:?}, T {}, step lengths {:?}, decay {}",
            method.title(), c.training.steps, c.training.batch_size, c.training.learning_rate, c.samples + 1,
            c.sigmas, c.steps_per_ascent, c.step_length, c.step_decay
        ));
    }

    let (annotations, images) = options.split("train");
    let dataset = if annotations.is_file() {
        load_dataset(&annotations, &images, Purpose::Train)?
    } else {
        let set = scenes::generate(&scratch.join("dry-run"), &SceneConfig::default(), 4, Key::new(0))?;
        load_dataset(&set.annotations, &set.images, Purpose::Train)?
    };
    plan.lines.push(format!(
        "images: {} in {}",
        dataset.images.len(),
        if annotations.is_file() {
            annotations.display().to_string()
        } else {
            "generated scenes, in place of COCO's".into()
        }
    ));
    let dataset = Arc::new(dataset);
    let first = eval_loader(&dataset, &config, DRY_BATCH)?.epoch(0)?.next().transpose()?;
    if let Some(batch) = first {
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&images.pixels, false)?;
        let bytes: usize = pyramid.iter().map(|level| 4 * level.elem_count()).sum();
        let shapes: Vec<String> = pyramid.iter().map(|level| format!("{:?}", level.dims())).collect();
        plan.lines.push(format!("input {:?} -> P2 … P6 {}", images.pixels.dims(), shapes.join(" ")));
        plan.lines
            .push(format!("features of {DRY_BATCH} images: {:.0} MiB", bytes as f64 / (1 << 20) as f64));
    }
    for method in [Method::IouNetStar, Method::Ebm] {
        let key = Key::new(0).split(method.key());
        let mut task =
            confidence_task(&config, &detector, &weights, dataset.clone(), method, DRY_BATCH, key, device)?;
        progress.begin(&format!("two steps of {}", method.title()), DRY_STEPS);
        let mut losses = Vec::new();
        for step in 0..DRY_STEPS {
            let (report, gradients) = task.step(step).map_err(ebm_core::Error::model)?;
            task.apply(step, gradients).map_err(ebm_core::Error::model)?;
            losses.push(report.loss);
            progress.advance(step + 1, &format!("loss {:.4}", report.loss));
        }
        progress.end();
        plan.losses.push((method, losses));
    }
    Ok(plan)
}

/// A branch of `method` trained on `dataset` as the paper does: features computed for every batch, nothing cached.
#[expect(clippy::too_many_arguments, reason = "a constructor of one thing from its parts, called twice")]
fn confidence_task(
    config: &ExperimentConfig,
    detector: &Rc<FasterRcnn>,
    weights: &std::collections::BTreeMap<String, Tensor>,
    dataset: Arc<CocoDataset>,
    method: Method,
    batch_size: usize,
    key: Key,
    device: &Device,
) -> Result<ConfidenceTask<StreamSource>> {
    let (head, store) = new_head(&config.detector, weights, device, key.split("init"))?;
    let settings = match method {
        Method::IouNetStar => &config.iou_net_star,
        _ => &config.ebm,
    };
    let loader = LoaderConfig::train(config.detector.input.transform(), batch_size);
    let loader = Loader::new(dataset, loader, key.split("data"))?;
    let source = StreamSource::new(loader, device.clone(), config.detector.convention.into());
    Ok(ConfidenceTask::new(detector.clone(), head, store, source, (method, settings), key.split("train")))
}

fn random_detector(
    config: &DetectorConfig,
    device: &Device,
) -> Result<(std::collections::BTreeMap<String, Tensor>, FasterRcnn)> {
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))?;
    Ok((store.tensors()?, detector))
}
