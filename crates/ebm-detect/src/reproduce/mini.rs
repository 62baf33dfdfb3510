//! Mini scale: generated scenes and a small detector; minutes on a CPU and no download.

use std::path::PathBuf;

use ebm_data::coco::Purpose;
use ebm_seed::Key;
use ebm_synth::scenes::{self, GeneratedSet, SceneConfig};
use ebm_train::Progress;

use super::{
    base::BaseOptions,
    frozen::Splits,
    setup::{Setup, Split, StudyOptions, load_dataset},
};
use crate::{
    config::{DetectorConfig, ExperimentConfig},
    error::Result,
    feature_cache::FeatureCache,
};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// The detector.
    pub base: BaseOptions,
    /// The scenes are generated here, and found again next time.
    pub data: PathBuf,
    /// What every scale is told.
    pub study: StudyOptions,
}

/// Root of all seeds of the data and the detector: the same for every run, so that results compare.
const DATA_SEED: u64 = 2020;
const BATCH: usize = 10;

/// Generates the scenes, makes the detector and its features; see the crate's `configs/mini.toml` for the
/// settings.
///
/// # Errors
/// When data can not be made or read, the detector's weights are not of the configured architecture, or its
/// training fails.
pub fn mini(config: &ExperimentConfig, options: &MiniOptions, progress: &mut dyn Progress) -> Result<Setup> {
    let study = &options.study;
    progress.begin("generating scenes", 3);
    // The branches never need more than the detector saw; without it their share is enough.
    let scenes = config.scenes()?;
    let count = if options.base.from_scratch { scenes.base } else { scenes.heads };
    let train = options.generate(&format!("train-{count}"), count)?;
    progress.advance(1, "train");
    let validation = options.split("validation", scenes.validation, &config.detector)?;
    progress.advance(2, "validation");
    let test = options.split("test", scenes.test, &config.detector)?;
    progress.end();

    let load = || load_dataset(&train.annotations, &train.images, Purpose::Train, &config.detector);
    let weights = options.base.open(config, load, DATA_SEED, study, progress)?;
    let mut train = load()?;
    train.images.truncate(scenes.heads);
    Setup::frozen(config, weights, Splits { train, validation, test }, FeatureCache::AT_ONCE, study)
}

impl MiniOptions {
    fn split(&self, name: &str, count: usize, detector: &DetectorConfig) -> Result<Split> {
        let set = self.generate(name, count)?;
        Split::open(name, set.annotations, &set.images, BATCH, detector)
    }

    fn generate(&self, name: &str, count: usize) -> Result<GeneratedSet> {
        let key = Key::new(DATA_SEED).split("scenes").split(name);
        Ok(scenes::generate(&self.data.join(name), &SceneConfig::default(), count, key)?)
    }
}
