//! What a run at paper scale would do, and what two of its steps did.

use std::{collections::BTreeMap, path::Path, rc::Rc, sync::Arc};

use candle_core::{DType, Device, Tensor};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_synth::scenes::{self, SceneConfig};
use ebm_train::{Progress, TrainTask};

use super::{
    paper::{PaperOptions, streamed},
    table1::{ABLATION, with_sigmas},
    workplace::{eval_loader, load_dataset},
};
use crate::{
    branch::Branch,
    config::{DetectorConfig, ExperimentConfig, ProposalConfig},
    error::Result,
    faster_rcnn::{FasterRcnn, ImageBatch},
    method::Method,
    training::BranchTask,
    weights::{load_detector, read},
};

/// The plan with proof that its steps work.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The plan, a fact a line.
    pub lines: Vec<String>,
    /// Losses of the steps that were run: a key, a title, the losses.
    pub losses: Vec<(String, String, Vec<f64>)>,
}

/// Images per step of a dry run; the plan's own batch size is for a GPU.
const DRY_BATCH: usize = 2;
const DRY_STEPS: usize = 2;

/// Builds the network at full size and runs two steps of each of `methods`, or with `ablation` of the energy model with each
/// proposal of Table 1, on whatever images are there: COCO's, or a few generated scenes written below `scratch`.
///
/// # Errors
/// When weights or images are there and can not be read.
pub fn dry_run(
    config: &ExperimentConfig,
    options: &PaperOptions,
    methods: &[Method],
    ablation: bool,
    scratch: &Path,
    progress: &mut dyn Progress,
) -> Result<Plan> {
    let found = options.detector();
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
    let parameters: usize = weights.values().map(Tensor::elem_count).sum();
    plan.lines.push(format!("parameters of the detector, frozen: {parameters}"));

    let (annotations, images) = options.split("train");
    let (dataset, origin) = if annotations.is_file() {
        let dataset = load_dataset((&annotations, &images), Purpose::Train, &config.detector)?;
        (dataset, annotations.display().to_string())
    } else {
        let set = scenes::generate(&scratch.join("dry-run"), &SceneConfig::default(), 4, Key::new(0))?;
        let origin = "generated scenes, in place of COCO's".to_owned();
        // Fewer categories than the detector knows serve as well here.
        (CocoDataset::load(&set.annotations, &set.images, &LoadOptions::new(Purpose::Train))?, origin)
    };
    plan.lines.push(format!("images: {} in {origin}", dataset.images.len()));
    let dataset = Arc::new(dataset);
    if let Some(batch) =
        eval_loader(&dataset, config, DRY_BATCH, options.workers)?.epoch(0)?.next().transpose()?
    {
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&images.pixels, false)?;
        let bytes: usize = pyramid.iter().map(|level| 4 * level.elem_count()).sum();
        let shapes: Vec<String> = pyramid.iter().map(|level| format!("{:?}", level.dims())).collect();
        plan.lines.push(format!("input {:?} -> P2 … P6 {}", images.pixels.dims(), shapes.join(" ")));
        plan.lines
            .push(format!("features of {DRY_BATCH} images: {:.0} MiB", bytes as f64 / (1 << 20) as f64));
    }

    let source = streamed(config, dataset, device, options.workers);
    for (key, title, method, config) in works(config, methods, ablation) {
        plan.lines.push(format!("{title}: {}", settings(&config, method)));
        let seed = Key::new(0).split(&key);
        let branch = Branch::new(method, &config.detector, &weights, device, seed.split("init"))?;
        plan.lines.push(format!("{title}: {} new parameters", branch.1.num_elements()));
        let batches = source(method, DRY_BATCH, seed.split("data"), progress)?;
        let mut task =
            BranchTask::new(detector.clone(), branch, batches, (method, &config), seed.split("train"))?;
        progress.begin(&format!("two steps of {title}"), DRY_STEPS);
        let mut losses = Vec::new();
        for step in 0..DRY_STEPS {
            let (report, gradients) = task.step(step).map_err(ebm_core::Error::model)?;
            task.apply(step, gradients).map_err(ebm_core::Error::model)?;
            losses.push(report.loss);
            progress.advance(step + 1, &format!("loss {:.4}", report.loss));
        }
        progress.end();
        plan.losses.push((key, title, losses));
    }
    Ok(plan)
}

/// Key, title, method and configuration of what is to be trained.
fn works(
    config: &ExperimentConfig,
    methods: &[Method],
    ablation: bool,
) -> Vec<(String, String, Method, ExperimentConfig)> {
    if ablation {
        let work = |(i, (sigmas, _)): (usize, (&[f64], f64))| {
            let config = ExperimentConfig { ebm: with_sigmas(&config.ebm, sigmas), ..config.clone() };
            (format!("ablation-{i:02}"), format!("EBM with σ {sigmas:?}"), Method::Ebm, config)
        };
        return ABLATION.into_iter().enumerate().map(work).collect();
    }
    let trained = methods.iter().filter(|&&method| config.training(method).is_some());
    trained.map(|&m| (m.key().to_owned(), m.title().to_owned(), m, config.clone())).collect()
}

fn settings(config: &ExperimentConfig, method: Method) -> String {
    let Some(training) = config.training(method) else { return String::new() };
    let mut text = format!(
        "{} updates of {} images, learning rate {}",
        training.steps, training.batch_size, training.learning_rate
    );
    if let Some(branch) = config.confidence(method) {
        let proposal = match &branch.proposal {
            ProposalConfig::Gaussian { sigmas } => format!("and the true box, sigmas {sigmas:?}"),
            ProposalConfig::IouStratified { pool } => format!("spread over the IoU, from {pool}"),
        };
        text.push_str(&format!(
            ", {} boxes per object {proposal}; T {}, step lengths {:?}, decay {}",
            branch.samples, branch.steps_per_ascent, branch.step_length, branch.step_decay
        ));
    }
    text
}

fn random_detector(
    config: &DetectorConfig,
    device: &Device,
) -> Result<(BTreeMap<String, Tensor>, FasterRcnn)> {
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))?;
    Ok((store.tensors()?, detector))
}
