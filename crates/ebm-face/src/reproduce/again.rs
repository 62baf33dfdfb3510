//! Saved networks on any images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use ebm_core::GradientAscent;
use ebm_data::faces::Faces;
use ebm_train::Progress;

use super::Outcome;
use super::densities::{FEWEST, coordinate_densities};
use super::networks::Entry;
use super::table::{choose_step_length, compare};
use crate::features::Viewer;
use crate::network::ENERGY;
use crate::saved::{BackboneSource, RunConfig, Saved};
use crate::training::Batch;
use crate::{Error, Result};

/// The runs of one network each that `path` stands for: itself and the energy model of its seed beside it,
/// or, where it is the directory of a table, all runs in it but those of the ablation.
///
/// # Errors
/// [`Error::Input`] when there is no run, [`Error::Data`].
pub fn runs(path: &Path) -> Result<Vec<PathBuf>> {
    // What was packed has no settings but those in the model's file.
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
        // The ablation's runs are energy models too, and the backbone's has no head.
        if let Ok(config) = RunConfig::of_model(&dir)
            && dir.file_name() == Some(format!("{}-{}", config.method, config.seed).as_ref())
        {
            found.push(dir);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Error::input(path.display(), "there is no run of a face network in it"));
    }
    Ok(found)
}

/// The rows of `saved` networks on `faces`, refined with the energy models among them. `ascent` replaces what
/// these recorded. With the faces `held_out`, which taught the networks nothing, densities are calibrated on
/// them.
///
/// # Errors
/// [`Error::Config`] when the networks are not of one task, or nothing says how to refine; else when an image
/// or a network fails.
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
    if held_out.is_some_and(|faces| faces.faces.len() < FEWEST) {
        return Err(fail("densities are calibrated on 9 validation images or more"));
    }
    let recorded = saved.iter().find_map(|saved| saved.refinement.clone());
    let ascent = match ascent.or(recorded) {
        Some(ascent) => ascent,
        None if !saved.iter().any(|saved| saved.head.is_energy()) => config.refinement.ascent(0.0),
        None => return Err(fail("the energy model says no step length; give one")),
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
            let results = see(&saved, faces, "images", progress)?;
            let held_out = held_out.map(|faces| see(&saved, faces, "images", progress)).transpose()?;
            tables.insert(name.clone(), [held_out.unwrap_or_else(|| Rc::clone(&results)), results]);
        }
        let [validation, results] = tables[&name].clone();
        let Saved { config: RunConfig { method, seed, .. }, head, .. } = saved;
        entries.push(Entry { method, seed, head, validation, results });
    }
    compare(&config, &entries, &ascent, "given")
}

/// What a saved network sees of `faces`.
fn see(saved: &Saved, faces: &Arc<Faces>, stage: &str, progress: &mut dyn Progress) -> Result<Rc<Batch>> {
    let input = &saved.config.experiment.input;
    let viewer = Viewer { trunk: &*saved.trunk, input, maps: false, device: &Device::Cpu };
    viewer.table(stage, faces, 0, progress)?.seen(None)
}

/// Algorithm S2 with the λ that comes nearest to the targets of `faces` for a saved energy model alone, which
/// ascends from the modes of its density's coordinates.
///
/// # Errors
/// [`Error::Config`] when it is a baseline; else when an image or the network fails.
pub fn choose_refinement(
    saved: &Saved,
    faces: &Arc<Faces>,
    progress: &mut dyn Progress,
) -> Result<GradientAscent> {
    let (config, head) = (&saved.config.experiment, &saved.head);
    if !head.is_energy() {
        return Err(Error::config("of the refinement", "a baseline does not ascend"));
    }
    let all = see(saved, faces, "validation images", progress)?;
    let densities = coordinate_densities(head, &all, &config.density)?;
    let modes: Vec<f32> = densities.iter().flatten().map(|density| density.mode() as f32).collect();
    let count = densities.len();
    let modes = Tensor::from_vec(modes, (count, config.dim()), &Device::Cpu)?;
    let seen = Batch { x: all.x.narrow(0, 0, count)?, y: all.y.narrow(0, 0, count)? };
    let choice = choose_step_length(&config.refinement, head, &seen, &[modes])?;
    Ok(config.refinement.ascent(choice.step_length))
}
