//! Mini scale: box modules trained on generated videos, and on COCO's images where they are there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use ebm_data::sequences::Sequence;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_eval::tracking::Convention;
use ebm_seed::Key;
use ebm_synth::videos::VideoConfig;
use ebm_train::Progress;

use super::backbone::BackboneSource;
use super::chosen::choose;
use super::compare::{Comparison, Setup, Test};
use super::data::{Videos, coco_sequences, pair_loader, pairs_key};
use super::study::Study;
use crate::Backbone;
use crate::box_module::BoxModule;
use crate::config::ExperimentConfig;
use crate::training::{CropStream, KeptPairs, PairSource, StreamPairs};
use crate::{Error, Result};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// Seeds 0 … `seeds` − 1 of each box module and its tracker.
    pub seeds: u64,
    /// The backbone.
    pub backbone: BackboneSource,
    /// The videos are generated here, and found again next time.
    pub data: PathBuf,
    /// Kind of videos.
    pub video: VideoConfig,
    /// COCO's directory.
    pub coco: PathBuf,
    /// Sequences to measure on beside the generated ones.
    pub real: Vec<Test>,
    /// Other trackers: a name and a folder of boxes.
    pub results: Vec<(String, PathBuf)>,
    /// What is compared.
    pub study: Study,
    /// Checkpoints, metrics, trained modules.
    pub run: PathBuf,
    /// Whether an interrupted run in `run` goes on.
    pub resume: bool,
    /// Where box modules are trained. Trackers run on the CPU.
    pub device: Device,
}

/// The name of the generated videos in results.
const GENERATED: &str = "generated";
/// Batches of validation pairs.
const VALIDATION_BATCHES: usize = 8;

/// Trains and compares the box modules; see the crate's `configs/mini.toml` for the settings.
///
/// # Errors
/// When data can not be made or read, or a training fails.
pub fn mini(
    config: &ExperimentConfig,
    options: &MiniOptions,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let (device, run): (&Device, &Path) = (&options.device, &options.run);
    let Some(counts) = &config.generated else {
        return Err(Error::config("generated", "mini scale needs [generated]"));
    };
    progress.begin("generating videos", 1);
    let Videos { train, validation, test } = Videos::generate(&options.data, counts, &options.video)?;
    progress.end();
    let (path, backbone) = options.backbone.open(config, &train, run, options.resume, device, progress)?;
    let place =
        Setup { config, run, device, backbone: Arc::new(backbone), path: &path, resume: options.resume };

    let images = coco_sequences(&options.coco)?;
    let (cpu, backbone, key) = (&Device::Cpu, place.tracking_backbone()?, Key::new(0).split("validation"));
    let recipe = PairRecipe::ATOM_VALIDATION;
    let mut held_out = stream(&place, cpu, &backbone, recipe, validation, None, key)?;
    let batches = if config.step_factors.is_empty() { 0 } else { VALIDATION_BATCHES };
    let held_out = (0..batches).map(|step| held_out.batch(step)).collect::<Result<Vec<_>>>()?;

    let convention = Convention::pytracking();
    let mut tests = vec![Test { name: GENERATED.to_owned(), sequences: test, convention }];
    tests.extend(options.real.iter().cloned());
    let variants = options.study.variants(config)?;
    let (mut outcome, mut chosen) = (Comparison::default(), HashMap::new());
    for seed in 0..options.seeds {
        // All methods of a seed learn from the same features, and every seed from pairs of its own in an
        // order of its own.
        let (videos, images, key) = (train.clone(), images.clone(), pairs_key(seed));
        let pairs = stream(&place, device, &place.backbone, PairRecipe::ATOM, videos, images, key)?;
        let pairs = KeptPairs::new(Box::new(pairs), config.pairs.kept_batches);
        for variant in &variants {
            // Chosen once for all seeds of a method.
            let key = variant.key();
            let choice = |network: &BoxModule, progress: &mut dyn Progress| match chosen.get(&key) {
                Some(&chosen) => Ok(chosen),
                None => choose(config, &variant.method, &key, network, &held_out, progress),
            };
            let trained = place.train(variant, seed, pairs.clone(), choice, progress)?;
            chosen.insert(key, trained.chosen);
            place.measure(&tests, variant, trained, &mut outcome, progress)?;
        }
    }
    outcome.finish(&tests, &options.results)
}

fn stream(
    place: &Setup<'_>,
    device: &Device,
    backbone: &Arc<Backbone>,
    recipe: PairRecipe,
    videos: Vec<Sequence>,
    images: Option<Vec<Sequence>>,
    key: Key,
) -> Result<StreamPairs> {
    let loader = pair_loader(place.config, recipe, place.config.training.batch_size, videos, images, key)?;
    Ok(StreamPairs::new(CropStream::new(loader, device.clone()), Arc::clone(backbone)))
}
