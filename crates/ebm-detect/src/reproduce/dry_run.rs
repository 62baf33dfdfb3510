//! What a run at paper scale would do, and what two of its steps did.

use std::{collections::BTreeMap, path::Path, rc::Rc, sync::Arc};

use candle_core::{DType, Device, Tensor};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_experiment::plan::Plan;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_synth::scenes::{self, SceneConfig};
use ebm_train::Progress;

use super::{
    paper::{PaperOptions, streamed},
    setup::{Wanted, eval_loader, load_dataset},
    table1::ablated,
};
use crate::{
    branch::Branch,
    config::{AblationConfig, DetectorConfig, ExperimentConfig, MethodConfig, TrainingConfig},
    error::Result,
    faster_rcnn::{FasterRcnn, ImageBatch},
    training::BranchTask,
    weights::WeightFile,
};

/// Images per step of a dry run; the plan's own batch size is for a GPU.
const DRY_BATCH: usize = 2;

/// Builds the network at full size and runs two steps of each of `methods`, or with `ablation` of the energy
/// model with each proposal of Table 1, on whatever images are there: COCO's, or a few generated scenes
/// written below `scratch`.
///
/// # Errors
/// When weights or images are there and can not be read.
pub fn dry_run(
    config: &ExperimentConfig,
    options: &PaperOptions,
    methods: &[MethodConfig],
    ablation: bool,
    scratch: &Path,
    progress: &mut dyn Progress,
) -> Result<Plan> {
    let found = options.detector();
    let device = &options.study.device;
    let mut plan = Plan::default();
    let path = found.as_ref().map(|(path, _)| path.as_path());
    let (weights, detector) = frozen_detector(path, &config.detector, device)?;
    let detector = Rc::new(detector);
    plan.line(match &found {
        Some((path, name)) => format!("detector: {} ({name} convention)", path.display()),
        None => "detector: no published weights here; random ones of the same architecture".to_owned(),
    });
    let parameters: usize = weights.values().map(Tensor::elem_count).sum();
    plan.line(format!("parameters of the detector, frozen: {parameters}"));

    let (annotations, images) = options.split("train");
    let (dataset, origin) = if annotations.is_file() {
        let dataset = load_dataset(&annotations, &images, Purpose::Train, &config.detector)?;
        (dataset, annotations.display().to_string())
    } else {
        let set = scenes::generate(&scratch.join("dry-run"), &SceneConfig::default(), 4, Key::new(0))?;
        let origin = "generated scenes, in place of COCO's".to_owned();
        // Fewer categories than the detector knows serve as well here.
        (CocoDataset::load(&set.annotations, &set.images, &LoadOptions::new(Purpose::Train))?, origin)
    };
    plan.line(format!("images: {} in {origin}", dataset.images.len()));
    let dataset = Arc::new(dataset);
    if let Some(batch) =
        eval_loader(&dataset, config, DRY_BATCH, options.study.workers)?.epoch(0)?.next().transpose()?
    {
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&images.pixels, false)?;
        let bytes: usize = pyramid.iter().map(|level| 4 * level.elem_count()).sum();
        let shapes: Vec<String> = pyramid.iter().map(|level| format!("{:?}", level.dims())).collect();
        plan.line(format!("input {:?} -> P2 … P6 {}", images.pixels.dims(), shapes.join(" ")));
        plan.line(format!("features of {DRY_BATCH} images: {:.0} MiB", bytes as f64 / (1 << 20) as f64));
    }

    let source = streamed(config, dataset, device, options.study.workers);
    for (title, Wanted { method, name: key, .. }) in works(config, methods, ablation)? {
        let Some(training) = config.training(&method) else { continue };
        plan.line(format!("{title}: {}", settings(&method, &training)));
        let (seed, density) = (Key::new(0).split(&key), method.density.as_ref());
        let (branch, store) = Branch::new(density, &config.detector, &weights, device, seed.split("init"))?;
        plan.line(format!("{title}: {} new parameters", store.num_elements()));
        let batches = source(&method, DRY_BATCH, seed.split("data"), progress)?;
        let (detector, key_of_training) = (detector.clone(), seed.split("train"));
        let mut task =
            BranchTask::new(detector, branch, store, batches, &method, &training, key_of_training)?;
        plan.take_steps(&key, &title, &mut task, progress)?;
    }
    Ok(plan)
}

/// The title of each branch that is to be trained, with its key as its name.
fn works(
    config: &ExperimentConfig,
    methods: &[MethodConfig],
    ablation: bool,
) -> Result<Vec<(String, Wanted)>> {
    if ablation {
        let titled = |(i, (wanted, row)): (usize, (Wanted, &AblationConfig<f64>))| {
            (format!("EBM with σ {:?}", row.sigmas), Wanted { name: format!("ablation-{i:02}"), ..wanted })
        };
        return Ok(ablated(config, 1)?.into_iter().zip(&config.ablation).enumerate().map(titled).collect());
    }
    let trained = methods.iter().filter(|method| method.is_trained());
    let of = |method: &MethodConfig| Wanted { name: method.key.clone(), ..Wanted::new(method, 0) };
    Ok(trained.map(|method| (method.title.clone(), of(method))).collect())
}

fn settings(method: &MethodConfig, training: &TrainingConfig) -> String {
    let TrainingConfig { steps, batch_size, learning_rate, .. } = training;
    let mut text = format!("{steps} updates of {batch_size} images, learning rate {learning_rate}");
    if let Some(branch) = &method.confidence {
        text.push_str(&format!(
            ", {:?}; T {}, step lengths {:?}, decay {}",
            branch.objective, branch.steps_per_ascent, branch.step_length, branch.step_decay
        ));
    }
    text
}

/// The parameters and the network of the detector in a file, or of a random one.
fn frozen_detector(
    path: Option<&Path>,
    config: &DetectorConfig,
    device: &Device,
) -> Result<(BTreeMap<String, Tensor>, FasterRcnn)> {
    if let Some(path) = path {
        let file = WeightFile::open(path, device)?;
        let detector = file.detector(config)?;
        return Ok((file.into_tensors(), detector));
    }
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))?;
    Ok((store.tensors()?, detector))
}
