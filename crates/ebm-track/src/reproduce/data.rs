//! Training data of box modules.

use std::path::Path;
use std::sync::Arc;

use ebm_base::Key;
use ebm_data::sequences::Sequence;
use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
use ebm_synth::videos::{VideoConfig, generate};

use crate::Result;
use crate::config::ExperimentConfig;

/// Seed of all generated videos, the same for every run, so that results can be compared.
const DATA_SEED: u64 = 2020;

/// Returns `count` generated videos of the part `name`, which are generated below `dir` if they are missing.
///
/// # Errors
/// When a file cannot be written, or `dir` holds something else.
pub(super) fn generated(dir: &Path, video: &VideoConfig, name: &str, count: usize) -> Result<Vec<Sequence>> {
    Ok(generate(&dir.join(name), video, count, Key::new(DATA_SEED).split("videos").split(name))?)
}

/// Creates the sampler of pairs from `sources`, which loaders can share.
pub(crate) fn pair_sampler(
    config: &ExperimentConfig,
    pairs_per_epoch: usize,
    sources: Vec<Source>,
) -> Result<Arc<PairSampler>> {
    let sampling = PairSampling { pairs_per_epoch, max_gap: config.pairs.max_gap };
    Ok(Arc::new(PairSampler::new(sources, sampling)?))
}

/// Returns the key of the pairs of a seed and of their order, the same for all methods.
pub(crate) fn pairs_key(seed: u64) -> Key {
    Key::new(seed).split("pairs")
}

#[cfg(test)]
mod tests {
    use ebm_data::loader::{ByStep, Loader, LoaderConfig};
    use ebm_data::sequences::pairs::PairRecipe;

    use super::*;
    use crate::config::Settings;

    #[test]
    fn every_seed_draws_its_own_pairs_in_its_own_order() {
        let dir = tempfile::tempdir().unwrap();
        let video = VideoConfig { frames: 24, ..VideoConfig::default() };
        let sequences = generated(dir.path(), &video, "train", 2).unwrap();
        let config = ExperimentConfig::embedded("mini").unwrap();
        let pairs = |seed| {
            let source = Source { sequences: sequences.clone(), weight: 1.0 };
            let sampler = pair_sampler(&config, 8, vec![source]).unwrap();
            let loader = LoaderConfig::in_order(PairRecipe::ATOM, 4);
            let mut batches = ByStep::new(Loader::new(sampler, loader, pairs_key(seed)).unwrap());
            let samples = (0..2).flat_map(|step| batches.batch(step).unwrap().samples);
            samples.map(|sample| sample.test_box).collect::<Vec<_>>()
        };
        assert_eq!(pairs(0), pairs(0));
        let (first, second) = (pairs(0), pairs(1));
        assert!(first.iter().all(|pair| !second.contains(pair)), "{first:?} {second:?}");
    }
}
