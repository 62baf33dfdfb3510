//! Training of box modules on still images with boxes, as ATOM does with COCO, and on generated videos. All methods
//! train side by side on the same pairs.

use std::path::PathBuf;

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::LoaderConfig;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_data::sequences::{Sequence, coco};
use ebm_eval::tracking::Convention;
use ebm_synth::videos::VideoConfig;
use ebm_train::Progress;

use super::comparison::{Comparison, Options, Test};
use super::data::{generated, pair_sampler, pairs_key};
use super::method_trainer::{MethodTrainer, Pairs};
use crate::config::{ExperimentConfig, StillsConfig};
use crate::training::{PairSource, PoolSize, PooledPairs, StreamPairs};
use crate::{Error, Result};

/// Images with annotated boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// Path of the annotations in COCO's format.
    pub annotations: PathBuf,
    /// Folder of the images.
    pub images: PathBuf,
}

/// Data to train and to measure box modules on.
#[derive(Clone, Debug)]
pub struct StillsData {
    /// Folder of the generated videos, which later runs find again.
    pub generated: PathBuf,
    /// Settings of the generated videos.
    pub video: VideoConfig,
    /// Sets of images to train on, each with the same weight. Without any, training, held-out boxes and tracking use
    /// generated videos alone.
    pub stills: Vec<Annotated>,
    /// Images to measure on during training, and to choose step lengths on.
    pub held_out: Vec<Annotated>,
    /// Sequences to track.
    pub real: Vec<Test>,
}

/// Name of the generated videos in results.
const GENERATED: &str = "generated";

/// Trains the box modules side by side, measures them on held-out boxes during training, and compares them in the
/// tracker. The settings are those in the crate's `configs/stills.toml` and `configs/mini.toml`.
///
/// # Errors
/// When data cannot be generated or read, or a training fails.
pub fn stills(
    config: &ExperimentConfig,
    options: &Options,
    data: &StillsData,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let (Some(stills), Some(counts)) = (&config.stills, &config.generated) else {
        return Err(Error::config("stills", "this scale needs [stills] and [generated]"));
    };
    let mut trainer = MethodTrainer::new(config, options)?;
    progress.begin("generating videos", 1);
    let videos = |name: &str, count| generated(&data.generated, &data.video, name, count);
    let train = videos("train", counts.train)?;
    let (mut held_out, mut tests) = (Vec::new(), data.real.clone());
    if data.stills.is_empty() {
        held_out.push((GENERATED.to_owned(), videos("validation", counts.validation)?));
        let (sequences, convention) = (videos("test", counts.test)?, Convention::pytracking());
        tests.insert(0, Test { name: GENERATED.to_owned(), sequences, convention });
    }
    progress.end();
    let mut sources = Vec::new();
    for set in &data.stills {
        sources.push(Source { sequences: set.sequences(stills.least_side)?, weight: 1.0 });
    }
    let weight = if sources.is_empty() { 1.0 } else { stills.video_weight };
    sources.push(Source { sequences: train, weight });
    for set in &data.held_out {
        held_out.push((set.name(), set.sequences(stills.least_side)?));
    }
    let boxes = stills.held_out / held_out.len().max(1);
    for (name, sequences) in held_out {
        trainer.hold_out(&name, sequences, boxes)?;
    }
    trainer.compare(&tests, |seed| pairs(&trainer, stills, sources.clone(), seed), progress)
}

/// Returns the pairs of a seed, the same for all methods. All methods use a pool before it is refilled.
fn pairs(
    trainer: &MethodTrainer<'_>,
    stills: &StillsConfig,
    sources: Vec<Source>,
    seed: u64,
) -> Result<Pairs> {
    let StillsConfig { objects, views, .. } = *stills;
    let MethodTrainer { config, options, backbone, .. } = trainer;
    let size = PoolSize { objects, views, batch_size: config.training.batch_size };
    // One epoch of the loader fills one pool.
    let sampler = pair_sampler(config, objects * views, sources)?;
    let recipe = PairRecipe { views, ..PairRecipe::STILLS };
    let (loader, key) = (LoaderConfig::in_order(recipe, size.batch_size), pairs_key(seed));
    let stream = StreamPairs::new(&sampler, loader, key, backbone, &options.device)?;
    let pool = PooledPairs::new(Box::new(stream), size, key.split("pool"))?;
    let each = config.methods.iter().map(|_| Box::new(pool.clone()) as Box<dyn PairSource>);
    Ok((each.collect(), size.steps()))
}

impl Annotated {
    /// Returns the name of the set in results, which is the stem of the annotations' file name.
    fn name(&self) -> String {
        self.annotations.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Reads the objects with √(w h) of at least `least_side` pixels, as videos of one frame.
    fn sequences(&self, least_side: f64) -> Result<Vec<Sequence>> {
        let options = LoadOptions::new(Purpose::Train);
        let mut all = coco::sequences(&CocoDataset::load(&self.annotations, &self.images, &options)?);
        all.retain(|one| one.boxes.iter().all(|[_, _, width, height]| (width * height).sqrt() >= least_side));
        Ok(all)
    }
}
