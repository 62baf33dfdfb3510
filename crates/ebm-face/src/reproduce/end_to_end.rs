//! The paper scale: a pretrained ResNet-50 is trained with each head, end to end.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::Device;
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_experiment::plan::Plan;
use ebm_seed::Key;
use ebm_train::{Group, Progress, RunSpec, train_run};

use super::data::Data;
use super::heads::{Entry, Seen, ablation, conclude, other_proposals, report_clamped};
use super::{Options, Outcome};
use crate::config::ExperimentConfig;
use crate::features::FeatureTable;
use crate::network::ENERGY;
use crate::saved::{TrainedHead, save};
use crate::training::{WholeNetwork, WholeTraining};
use crate::{Backbone, Error, Result};

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
        let (faces, weights) = (&self.data.train, Some(self.weights));
        let (device, group) = (self.device, &Group::alone());
        let training = WholeTraining { config, method, seed, faces, weights, device, group };
        let WholeNetwork { mut task, steps, run: saved } = training.start()?;
        let text = saved.to_toml()?;
        let spec = RunSpec::new((&self.options.run, name), &text, steps, seed);
        let run = train_run(&RunSpec { resume: self.options.resume, ..spec }, &mut task, progress)?;
        let (network, store) = task.into_network();
        save(&store, run.path(), &saved)?;
        let Some(trunk) = network.trunk else {
            let reason = "it is trained end to end, and has no trunk".to_owned();
            return Err(Error::Config { part: "network", reason });
        };
        // What is packed computes on the CPU.
        let (trunk, device) = match trunk.pack()? {
            Some(packed) => (packed, Device::Cpu),
            None => (trunk, self.device.clone()),
        };
        Ok(Trained { trunk, device, head: TrainedHead::new(network.head)? })
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
    let mut plan = Plan::default();
    let [train, validation] = [&data.train, &data.validation].map(|faces| faces.faces.len());
    plan.line(format!("{train} training, {validation} validation images"));
    plan.line(match &data.test {
        Some(test) => format!("{} test images", test.faces.len()),
        None => "no test images: the results would be the validation split's".to_owned(),
    });
    plan.line(format!("trunk from {}", weights.display()));
    let rows = methods(config).into_iter().map(|method| (method.clone(), method, config.clone()));
    let others = if options.ablation { other_proposals(config)? } else { Vec::new() };
    let others = others.into_iter().map(|(name, config)| (name, ENERGY.to_owned(), config));
    for (name, method, config) in rows.chain(others) {
        let (faces, weights, group) = (&data.train, Some(weights), &Group::alone());
        let training =
            WholeTraining { config: &config, method: &method, seed: 0, faces, weights, device, group };
        let mut new = training.start()?;
        let parameters = new.task.store().num_elements();
        plan.take_steps((&name, &name), &mut new.task, progress)?;
        let updates = if name == method { "updates a seed" } else { "updates of seed 0" };
        let sigmas = config.energy.objective.gaussian().filter(|_| method == ENERGY);
        let sigmas = sigmas.map_or_else(String::new, |mixture| format!(", σ = {:?}", mixture.sigmas()));
        plan.line(format!("{name}: {parameters} parameters, {} {updates}{sigmas}", new.steps));
    }
    Ok(plan)
}
