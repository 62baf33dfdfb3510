//! What mini scale learns from and is measured on.

use std::path::Path;
use std::sync::Arc;

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
use ebm_data::sequences::{Sequence, coco};
use ebm_seed::Key;
use ebm_synth::videos::{VideoConfig, generate};

use crate::Result;
use crate::config::{ExperimentConfig, GeneratedConfig};

/// Root of the seeds of all generated videos: the same for every run, so that results compare.
const DATA_SEED: u64 = 2020;

/// Generated videos.
pub struct Videos {
    /// To train on.
    pub train: Vec<Sequence>,
    /// To choose step lengths on.
    pub validation: Vec<Sequence>,
    /// To measure on.
    pub test: Vec<Sequence>,
}

impl Videos {
    /// Makes the videos below `dir`, or finds them there.
    ///
    /// # Errors
    /// When a file can not be written, or `dir` holds something else.
    pub fn generate(dir: &Path, counts: &GeneratedConfig, video: &VideoConfig) -> Result<Self> {
        let key = Key::new(DATA_SEED).split("videos");
        let make = |name: &str, count| {
            Ok::<_, crate::Error>(generate(&dir.join(name), video, count, key.split(name))?)
        };
        Ok(Self {
            train: make("train", counts.train)?,
            validation: make("validation", counts.validation)?,
            test: make("test", counts.test)?,
        })
    }
}

/// The objects of COCO's training images in `dir`, if they are there: videos of one frame.
///
/// # Errors
/// When the annotations are there and can not be read.
pub fn coco_sequences(dir: &Path) -> Result<Option<Vec<Sequence>>> {
    let annotations = dir.join("annotations/instances_train2017.json");
    if !annotations.is_file() {
        return Ok(None);
    }
    let dataset = CocoDataset::load(&annotations, &dir.join("train2017"), &LoadOptions::new(Purpose::Train))?;
    Ok(Some(coco::sequences(&dataset)))
}

/// A loader of pairs: from the videos, and from single images where there are any.
pub(super) fn pair_loader(
    config: &ExperimentConfig,
    recipe: PairRecipe,
    batch_size: usize,
    videos: Vec<Sequence>,
    images: Option<Vec<Sequence>>,
    key: Key,
) -> Result<Loader<PairRecipe>> {
    let mut sources = vec![Source { sequences: videos, weight: 1.0 }];
    if let Some(sequences) = images.filter(|_| config.pairs.coco_weight > 0.0) {
        sources.push(Source { sequences, weight: config.pairs.coco_weight });
    }
    loader_of(recipe, batch_size, pair_sampler(config, batch_size, sources)?, key)
}

/// Draws pairs from any sources; loaders share it.
pub(crate) fn pair_sampler(
    config: &ExperimentConfig,
    batch_size: usize,
    sources: Vec<Source>,
) -> Result<Arc<PairSampler>> {
    let pairs_per_epoch = config.training.pairs_per_epoch.max(batch_size);
    let sampling = PairSampling { pairs_per_epoch, max_gap: config.pairs.max_gap };
    Ok(Arc::new(PairSampler::new(sources, sampling)?))
}

/// What the pairs of a seed and their order are drawn from, the same for all methods.
pub(crate) fn pairs_key(seed: u64) -> Key {
    Key::new(seed).split("pairs")
}

/// A loader of the pairs of a sampler.
pub(super) fn loader_of(
    recipe: PairRecipe,
    batch_size: usize,
    sampler: Arc<PairSampler>,
    key: Key,
) -> Result<Loader<PairRecipe>> {
    Ok(Loader::new(sampler, LoaderConfig::in_order(recipe, batch_size), key)?)
}

#[cfg(test)]
mod tests {
    use ebm_data::loader::ByStep;

    use super::*;
    use crate::config::Settings;

    #[test]
    fn every_seed_draws_its_own_pairs_in_its_own_order() {
        let dir = tempfile::tempdir().unwrap();
        let video = VideoConfig { frames: 24, ..VideoConfig::default() };
        let videos = generate(dir.path(), &video, 2, Key::new(1)).unwrap();
        let config = ExperimentConfig::embedded("mini").unwrap();
        let pairs = |seed| {
            let (videos, key) = (videos.clone(), pairs_key(seed));
            let loader = pair_loader(&config, PairRecipe::ATOM, 4, videos, None, key).unwrap();
            let mut batches = ByStep::new(loader);
            let samples = (0..2).flat_map(|step| batches.batch(step).unwrap().samples);
            samples.map(|sample| sample.test_box).collect::<Vec<_>>()
        };
        assert_eq!(pairs(0), pairs(0));
        let (first, second) = (pairs(0), pairs(1));
        assert!(first.iter().all(|pair| !second.contains(pair)), "{first:?} {second:?}");
    }
}
