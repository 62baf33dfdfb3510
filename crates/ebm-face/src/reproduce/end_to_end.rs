//! The paper scale: a pretrained ResNet-50 is trained with each head, end to end.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, RunSpec, TrainTask, train_run};

use super::data::Data;
use super::heads::{Entry, Seen, conclude, report_clamped};
use super::{Options, Outcome};
use crate::config::{ExperimentConfig, TrainingConfig};
use crate::features::FeatureTable;
use crate::network::{ENERGY, Head, Network, TRUNK};
use crate::saved::{RunConfig, TrainedHead, TrunkSource, save};
use crate::training::{BatchSource, FaceTask, StreamSource};
use crate::{Backbone, BackboneConfig, Result, TrunkFile, preload_backbone, preload_trunk};

/// Trains all rows from the pretrained `weights` on `device` and compares them.
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
    report_clamped(config, &data.train, progress);
    let mut entries = Vec::new();
    for seed in 0..options.seeds {
        for method in methods(config) {
            let new = new_task(config, &method, seed, &data.train, weights, device)?;
            let saved = RunConfig {
                method: method.clone(),
                seed,
                trunk: TrunkSource::Own(new.form.clone()),
                experiment: config.clone(),
            };
            let name = format!("{method}-{seed}");
            let (mut task, steps) = (new.task, new.steps);
            let text = saved.to_toml()?;
            let spec = RunSpec::new((&options.run, &name), &text, steps, seed);
            let run = train_run(&RunSpec { resume: options.resume, ..spec }, &mut task, progress)?;
            let (network, store) = task.into_network();
            save(&store, run.path())?;
            let Some(trunk) = network.trunk else { continue };
            // What is packed computes on the CPU.
            let (trunk, device) = match trunk.pack()? {
                Some(packed) => (packed, &Device::Cpu),
                None => (trunk, device),
            };
            let validation = Rc::new(see(config, (&*trunk, device), &data.validation, progress)?);
            let results = match &data.test {
                Some(test) => Rc::new(see(config, (&*trunk, device), test, progress)?),
                None => Rc::clone(&validation),
            };
            entries.push(Entry { method, seed, head: TrainedHead::new(network.head)?, validation, results });
        }
    }
    conclude(config, &entries, data.part(), options, progress)
}

/// The keys of all rows, and of the energy model.
fn methods(config: &ExperimentConfig) -> Vec<String> {
    config.methods.iter().map(|method| method.key.clone()).chain([ENERGY.to_owned()]).collect()
}

/// g_x of a split, by the trained trunk.
fn see(
    config: &ExperimentConfig,
    trunk: (&dyn Backbone, &Device),
    faces: &Arc<Faces>,
    progress: &mut dyn Progress,
) -> Result<Seen> {
    let loader = FaceLoaderConfig::in_order(config.input.transform(false), 8);
    let loader = FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?;
    let table = FeatureTable::compute(trunk, &loader, ("features", faces.faces.len()), progress)?;
    Ok(Seen { g_x: table.features()?, y: table.targets()? })
}

/// A network that is about to be trained.
struct NewTask {
    task: FaceTask<StreamSource>,
    steps: usize,
    form: BackboneConfig,
    parameters: usize,
}

fn new_task(
    config: &ExperimentConfig,
    method: &str,
    seed: u64,
    faces: &Arc<Faces>,
    weights: &Path,
    device: &Device,
) -> Result<NewTask> {
    let key = Key::new(seed).split(method);
    let store = ParamStore::new(key.split("init"));
    let form = match &config.trunk {
        BackboneConfig::Resnet(_) => {
            BackboneConfig::Resnet(preload_trunk(&store, TRUNK, weights, TrunkFile::default(), device)?)
        }
        other => {
            preload_backbone(&store, TRUNK, other, weights, device)?;
            other.clone()
        }
    };
    let trunk = form.build(&store, TRUNK, DType::F32, device)?;
    let num_features = trunk.num_features();
    let (head, training): (Head, &TrainingConfig) = if method == ENERGY {
        (Head::energy(config, num_features, &store, device)?, &config.energy.training)
    } else {
        let head = Head::baseline(config, config.method(method)?, num_features, &store, device)?;
        (head, &config.training)
    };
    let loader = FaceLoaderConfig::shuffled(config.input.transform(true), training.batch_size);
    let loader = FaceLoader::new(Arc::clone(faces), loader, key.split("data"))?;
    let source = StreamSource::new(loader, faces.faces.len(), device.clone());
    let steps = training.steps(source.len());
    let parameters = store.num_elements();
    let network = Network { trunk: Some(trunk), head };
    let task = FaceTask::new(network, store, source, training, key.split("train"));
    Ok(NewTask { task, steps, form, parameters })
}

/// What the paper scale would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In words.
    pub lines: Vec<String>,
    /// The losses of two steps of each method.
    pub losses: Vec<(String, Vec<f64>)>,
}

/// Builds every network, runs two steps of each and trains nothing to the end.
///
/// # Errors
/// When an image, a file or a step fails.
pub fn dry_run(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<Plan> {
    let mut lines = vec![
        format!("{} training, {} validation images", data.train.faces.len(), data.validation.faces.len()),
        match &data.test {
            Some(test) => format!("{} test images", test.faces.len()),
            None => "no test images: the results would be the validation split's".to_owned(),
        },
        format!("trunk from {}", PathBuf::from(weights).display()),
    ];
    let mut losses = Vec::new();
    let methods = methods(config);
    progress.begin("two steps of each method", methods.len());
    for (done, method) in methods.into_iter().enumerate() {
        let mut new = new_task(config, &method, 0, &data.train, weights, device)?;
        let mut found = Vec::new();
        for step in 0..2 {
            let (report, update) =
                new.task.step(step).map_err(|source| ebm_train::Error::Task { step, source })?;
            new.task.apply(step, update).map_err(|source| ebm_train::Error::Task { step, source })?;
            found.push(report.loss);
        }
        lines.push(format!("{method}: {} parameters, {} updates a seed", new.parameters, new.steps));
        losses.push((method, found));
        progress.advance(done + 1, "");
    }
    progress.end();
    Ok(Plan { lines, losses })
}
