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
use super::heads::{Entry, Seen, ablation, conclude, other_proposals, report_clamped};
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
    let trainer = Trainer { data, weights, device, options };
    let mut entries = Vec::new();
    for seed in 0..options.seeds {
        for method in methods(config) {
            let trained = trainer.train(config, (&method, &format!("{method}-{seed}")), seed, progress)?;
            let validation = Rc::new(trained.see(config, &data.validation, progress)?);
            let results = match &data.test {
                Some(test) => Rc::new(trained.see(config, test, progress)?),
                None => Rc::clone(&validation),
            };
            entries.push(Entry { method, seed, head: trained.head, validation, results });
        }
    }
    let mut outcome = conclude(config, &entries, data.part(), options, progress)?;
    if options.ablation {
        outcome.ablation = ablation(config, &entries, |name, other| {
            let trained = trainer.train(other, (ENERGY, name), 0, progress)?;
            let seen = Rc::new(trained.see(other, &data.validation, progress)?);
            let (validation, results) = (Rc::clone(&seen), seen);
            Ok(Entry { method: ENERGY.to_owned(), seed: 0, head: trained.head, validation, results })
        })?;
    }
    Ok(outcome)
}

/// The keys of all rows, and of the energy model.
fn methods(config: &ExperimentConfig) -> Vec<String> {
    config.methods.iter().map(|method| method.key.clone()).chain([ENERGY.to_owned()]).collect()
}

/// Trains whole networks.
struct Trainer<'a> {
    data: &'a Data,
    weights: &'a Path,
    device: &'a Device,
    options: &'a Options,
}

/// A network after its training.
struct Trained {
    trunk: Box<dyn Backbone>,
    /// Where the trunk computes.
    device: Device,
    head: TrainedHead,
}

impl Trainer<'_> {
    /// Trains `method` in the run `name` and saves it there.
    fn train(
        &self,
        config: &ExperimentConfig,
        (method, name): (&str, &str),
        seed: u64,
        progress: &mut dyn Progress,
    ) -> Result<Trained> {
        let NewTask { mut task, steps, form, .. } =
            new_task(config, method, seed, &self.data.train, self.weights, self.device)?;
        let trunk = TrunkSource::Own(form.clone());
        let saved = RunConfig { method: method.to_owned(), seed, trunk, experiment: config.clone() };
        let text = saved.to_toml()?;
        let spec = RunSpec::new((&self.options.run, name), &text, steps, seed);
        let run = train_run(&RunSpec { resume: self.options.resume, ..spec }, &mut task, progress)?;
        let (_, store) = task.into_network();
        save(&store, run.path())?;
        // A residual network is fast enough on the CPU.
        let device = match form {
            BackboneConfig::Resnet(_) => Device::Cpu,
            _ => self.device.clone(),
        };
        let trunk = form.build(&store.constants()?, TRUNK, DType::F32, &device)?;
        let head = TrainedHead::new(config, method, trunk.num_features(), &store)?;
        Ok(Trained { trunk, device, head })
    }
}

impl Trained {
    /// g_x of a split.
    fn see(
        &self,
        config: &ExperimentConfig,
        faces: &Arc<Faces>,
        progress: &mut dyn Progress,
    ) -> Result<Seen> {
        let loader = FaceLoaderConfig::in_order(config.input.transform(false), 8);
        let loader = FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?;
        let stage = ("features", faces.faces.len());
        let table = FeatureTable::compute((&*self.trunk, &self.device), &loader, stage, progress)?;
        Ok(Seen { g_x: table.features()?, y: table.targets()? })
    }
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
    /// The losses of two steps of each network, by its name.
    pub losses: Vec<(String, Vec<f64>)>,
}

/// Builds every network, those of the ablation included where `options` ask for it, runs two steps of each and trains nothing to
/// the end.
///
/// # Errors
/// When an image, a file or a step fails.
pub fn dry_run(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    device: &Device,
    options: &Options,
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
    let rows = methods(config).into_iter().map(|method| (method.clone(), method, config.clone()));
    let others = if options.ablation { other_proposals(config) } else { Vec::new() };
    let others = others.into_iter().map(|(name, config)| (name, ENERGY.to_owned(), config));
    let networks: Vec<(String, String, ExperimentConfig)> = rows.chain(others).collect();
    progress.begin("two steps of each network", networks.len());
    for (done, (name, method, config)) in networks.into_iter().enumerate() {
        let mut new = new_task(&config, &method, 0, &data.train, weights, device)?;
        let mut found = Vec::new();
        for step in 0..2 {
            let (report, update) =
                new.task.step(step).map_err(|source| ebm_train::Error::Task { step, source })?;
            new.task.apply(step, update).map_err(|source| ebm_train::Error::Task { step, source })?;
            found.push(report.loss);
        }
        let updates = if name == method { "updates a seed" } else { "updates of seed 0" };
        let sigmas =
            if method == ENERGY { format!(", σ = {:?}", config.energy.sigmas) } else { String::new() };
        lines.push(format!("{name}: {} parameters, {} {updates}{sigmas}", new.parameters, new.steps));
        losses.push((name, found));
        progress.advance(done + 1, "");
    }
    progress.end();
    Ok(Plan { lines, losses })
}
