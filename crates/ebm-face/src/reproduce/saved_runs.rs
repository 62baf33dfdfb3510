//! Evaluation of saved networks on any images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use ebm_core::GradientAscent;
use ebm_data::faces::Faces;
use ebm_train::{ModelFile, Progress};

use super::Outcome;
use super::densities::{MIN_VALIDATION, coordinate_densities};
use super::networks::TrainedHead;
use super::table::{choose_step_length, compare};
use crate::features::FeatureExtractor;
use crate::network::ENERGY;
use crate::saved::{BackboneSource, RunConfig, Saved};
use crate::training::Batch;
use crate::{Error, Result};

/// Returns the folders of networks that `path` stands for. The run of one network stands for itself and the energy model
/// of its seed beside it. The folder of a table stands for all its runs except the ablation.
///
/// # Errors
/// [`Error::Input`] when there is no run; [`Error::Data`] when the folder cannot be read; [`Error::Train`] when
/// a model's file in it is damaged.
pub fn runs(path: &Path) -> Result<Vec<PathBuf>> {
    // A packed network has no config.toml; its settings are in the model's file.
    let is_run = |dir: &Path| ["config.toml", "model.safetensors"].iter().any(|name| dir.join(name).exists());
    if is_run(path) {
        let config = RunConfig::of_model(path)?;
        let energy = path.with_file_name(format!("{ENERGY}-{}", config.seed));
        let beside = (config.method != ENERGY && is_run(&energy)).then_some(energy);
        return Ok(std::iter::once(path.to_owned()).chain(beside).collect());
    }
    let fail = |source| ebm_data::Error::io("read", path, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let dir = entry.map_err(fail)?.path();
        // The name excludes the ablation's runs, which hold energy models too. The backbone's run has no head.
        if !dir.join(ModelFile::NAME).exists() {
            continue;
        }
        match RunConfig::of_model(&dir) {
            Ok(config) if dir.file_name() == Some(format!("{}-{}", config.method, config.seed).as_ref()) => {
                found.push(dir);
            }
            // Models of other tasks may lie beside the runs. A damaged file must not, since the figures would change.
            Ok(_) | Err(Error::Input { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Error::input(path.display(), "there is no run of a face network in it"));
    }
    Ok(found)
}

/// Evaluates the networks `saved` on `faces`, before and after refinement with the energy models among them. `ascent`
/// replaces the refinement that these stored. The faces `held_out`, on which no network was trained, calibrate the
/// densities.
///
/// # Errors
/// [`Error::Config`] when the networks have different tasks or no refinement; else when an image or a network fails.
pub fn evaluate(
    saved: Vec<Saved>,
    faces: &Arc<Faces>,
    held_out: Option<&Arc<Faces>>,
    ascent: Option<GradientAscent>,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let fail = |reason: &str| Error::config("of the evaluation", reason);
    let Some(config) = saved.first().map(|saved| saved.config.experiment.clone()) else {
        return Err(fail("there is no network to evaluate"));
    };
    if saved.iter().any(|saved| saved.config.experiment.coordinates != config.coordinates) {
        return Err(fail("the networks are of different tasks"));
    }
    if held_out.is_some_and(|faces| faces.faces.len() < MIN_VALIDATION) {
        return Err(fail("densities are calibrated on 9 validation images or more"));
    }
    let recorded = saved.iter().find_map(|saved| saved.refinement.clone());
    let ascent = match ascent.or(recorded) {
        Some(ascent) => ascent,
        None if !saved.iter().any(|saved| saved.head.is_energy()) => config.refinement.ascent(0.0),
        None => return Err(fail("the energy model has no stored step length; give one")),
    };
    // Heads on one backbone share its features.
    let mut tables: BTreeMap<String, [Rc<Batch>; 2]> = BTreeMap::new();
    let mut entries = Vec::new();
    for (number, saved) in saved.into_iter().enumerate() {
        let name = match &saved.config.trunk {
            BackboneSource::File { sha256, .. } => sha256.clone(),
            BackboneSource::Own(_) => number.to_string(),
        };
        if !tables.contains_key(&name) {
            let results = extract(&saved, faces, "images", progress)?;
            let held_out = held_out.map(|faces| extract(&saved, faces, "images", progress)).transpose()?;
            tables.insert(name.clone(), [held_out.unwrap_or_else(|| Rc::clone(&results)), results]);
        }
        let [validation, results] = tables[&name].clone();
        let Saved { config: RunConfig { method, seed, .. }, head, .. } = saved;
        entries.push(TrainedHead { method, seed, head, validation, results });
    }
    compare(&config, &entries, &ascent, "given")
}

/// Computes g_x of `faces` with the backbone of a saved network.
fn extract(saved: &Saved, faces: &Arc<Faces>, stage: &str, progress: &mut dyn Progress) -> Result<Rc<Batch>> {
    let input = &saved.config.experiment.input;
    let extractor = FeatureExtractor { trunk: &*saved.trunk, input, maps: false, device: &Device::Cpu };
    extractor.extract(stage, faces, 0, progress)?.batch_of_all(None)
}

/// Returns Algorithm S2 with the λ that gives the saved energy model the lowest error on `faces`. The ascent starts
/// from the mode of each coordinate's density.
///
/// # Errors
/// [`Error::Config`] when `saved` is a baseline; else when an image or the network fails.
pub fn choose_refinement(
    saved: &Saved,
    faces: &Arc<Faces>,
    progress: &mut dyn Progress,
) -> Result<GradientAscent> {
    let (config, head) = (&saved.config.experiment, &saved.head);
    if !head.is_energy() {
        return Err(Error::config("of the refinement", "a baseline has no refinement; give an energy model"));
    }
    let all = extract(saved, faces, "validation images", progress)?;
    let densities = coordinate_densities(head, &all, &config.density)?;
    let modes: Vec<f32> = densities.iter().flatten().map(|density| density.mode() as f32).collect();
    let count = densities.len();
    let modes = Tensor::from_vec(modes, (count, config.dim()), &Device::Cpu)?;
    let batch = Batch { x: all.x.narrow(0, 0, count)?, y: all.y.narrow(0, 0, count)? };
    let choice = choose_step_length(&config.refinement, head, &batch, &[modes])?;
    Ok(config.refinement.ascent(choice.step_length))
}
