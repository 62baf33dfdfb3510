//! The paper scale: a pretrained ResNet-50 is trained with each head, end to end.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_experiment::plan::Plan;
use ebm_train::{Group, Progress};

use super::data::Data;
use super::heads::{Entry, Seen, Wanted, methods, reproduce};
use super::{Options, Outcome};
use crate::config::ExperimentConfig;
use crate::features::FeatureTable;
use crate::network::{ENERGY, TRUNK};
use crate::saved::{BackboneSource, TrainedHead};
use crate::training::{WholeNetwork, WholeTraining};
use crate::{BackboneConfig, Error, Result};

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
    let trainer = Trainer { data, weights, device, options };
    reproduce(config, data, options, &mut |wanted, progress| trainer.entry(wanted, progress), progress)
}

/// Trains whole networks.
struct Trainer<'a> {
    data: &'a Data,
    weights: &'a Path,
    device: &'a Device,
    options: &'a Options,
}

impl Trainer<'_> {
    /// Trains a network and shows it the splits.
    fn entry(&self, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<Entry> {
        let Wanted { config, method, seed, measured, .. } = *wanted;
        let (faces, weights) = (&self.data.train, Some(self.weights));
        let (device, group) = (self.device, &Group::alone());
        let training = WholeTraining { config, method, seed, faces, weights, device, group };
        let WholeNetwork { task, steps, run } = training.start()?;
        let BackboneSource::Own(form) = &run.trunk else {
            let reason = "it is trained end to end, and has no trunk of its own".to_owned();
            return Err(Error::Config { part: "network", reason });
        };
        let store = wanted.train(task, steps, run.trunk.clone(), self.options, progress)?;
        // A residual network is fast enough on the CPU.
        let device = match form {
            BackboneConfig::Resnet(_) => &Device::Cpu,
            _ => self.device,
        };
        let trunk = form.build(&store.constants()?, TRUNK, DType::F32, device)?;
        let mut see = |faces: &Arc<Faces>| -> Result<Rc<Seen>> {
            let plain = config.input.transform(false);
            let table = FeatureTable::of_faces(&*trunk, device, plain, faces, "features", progress)?;
            Ok(Rc::new(Seen { g_x: table.features(None)?, y: table.targets().clone() }))
        };
        let validation = see(&self.data.validation)?;
        let results = match &self.data.test {
            Some(test) if measured => see(test)?,
            _ => Rc::clone(&validation),
        };
        let head = TrainedHead::new(config, method, trunk.num_features(), &store)?;
        Ok(Entry { method: method.to_owned(), seed, head, validation, results })
    }
}

/// Builds every network, those of the ablation included where `options` ask for it, runs two steps of each
/// and trains nothing to the end.
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
    let mut others = Vec::new();
    for ablation in &options.ablations {
        let variants = ablation.variants(config)?.into_iter();
        others.extend(variants.filter_map(|other| Some((other.name, ENERGY.to_owned(), other.config?))));
    }
    for (name, method, config) in rows.chain(others) {
        let (faces, weights, group) = (&data.train, Some(weights), &Group::alone());
        let training =
            WholeTraining { config: &config, method: &method, seed: 0, faces, weights, device, group };
        let mut new = training.start()?;
        let parameters = new.task.store().num_elements();
        plan.take_steps(&name, &name, &mut new.task, progress)?;
        let updates = if name == method { "updates a seed" } else { "updates of seed 0" };
        let sigmas = config.energy.objective.gaussian().filter(|_| method == ENERGY);
        let sigmas = sigmas.map_or_else(String::new, |mixture| format!(", σ = {:?}", mixture.sigmas()));
        plan.line(format!("{name}: {parameters} parameters, {} {updates}{sigmas}", new.steps));
    }
    Ok(plan)
}
