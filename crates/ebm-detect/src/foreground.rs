//! What the densities of Table 2 are trained on: proposals of objects as the frozen box head sees them.

use std::borrow::Borrow;

use candle_core::Tensor;
use rand::RngCore;

use crate::{
    Error, Result,
    layers::rows_of_four,
    matcher::{BalancedSampler, Match},
};

/// Proposals of objects, each with the offset that leads to the object.
pub struct Foreground {
    /// Feat-Box of each, `(R, representation)`, without history.
    pub hidden: Tensor,
    /// Their classes.
    pub labels: Vec<u32>,
    /// The box coder's offsets, `(R, 4)`.
    pub targets: Tensor,
    /// How many proposals they were drawn with, background included.
    pub sample_size: usize,
}

/// All proposals of objects in one image. The detector is frozen, so that they are the same in every epoch.
pub struct ForegroundPool {
    /// Of every proposal.
    pub(crate) matches: Vec<Match>,
    pub(crate) sampler: BalancedSampler,
    /// Of the proposals of objects alone, in their order.
    pub(crate) hidden: Tensor,
    pub(crate) labels: Vec<u32>,
    pub(crate) targets: Vec<[f32; 4]>,
}

impl ForegroundPool {
    /// The objects in balanced samples, one of each image, joined.
    ///
    /// # Errors
    /// When there is no image.
    pub fn sample(pools: &[impl Borrow<Self>], rng: &mut dyn RngCore) -> Result<Foreground> {
        let pools: Vec<&Self> = pools.iter().map(Borrow::borrow).collect();
        let first =
            pools.first().ok_or_else(|| Error::config("training", "a sample of no image was asked for"))?;
        let device = first.hidden.device();
        let (mut hidden, mut labels, mut targets, mut sample_size) = (vec![], vec![], vec![], 0);
        for pool in &pools {
            let (positives, negatives) = pool.sampler.sample(&pool.matches, rng);
            sample_size += positives.len() + negatives.len();
            if positives.is_empty() {
                continue;
            }
            let objects = (0..pool.matches.len()).filter(|&i| matches!(pool.matches[i], Match::Object(_)));
            let objects: Vec<usize> = objects.collect();
            // Both ascend.
            let rows: Vec<usize> = positives.iter().filter_map(|i| objects.binary_search(i).ok()).collect();
            labels.extend(rows.iter().map(|&row| pool.labels[row]));
            targets.extend(rows.iter().map(|&row| pool.targets[row]));
            let rows = Tensor::from_iter(rows.iter().map(|&row| row as u32), device)?;
            hidden.push(pool.hidden.index_select(&rows, 0)?);
        }
        let hidden = match hidden.as_slice() {
            [] => first.hidden.narrow(0, 0, 0)?,
            rows => Tensor::cat(rows, 0)?,
        };
        Ok(Foreground { hidden, labels, targets: rows_of_four(&targets, device)?, sample_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use ebm_base::Key;
    use ebm_nn::params::ParamStore;
    use rand::Rng;
    use std::rc::Rc;

    use crate::{
        FasterRcnn, FeatureCache, ImageBatch, Objects,
        config::{ExperimentConfig, Settings},
        feature_cache::{BatchOrder, shuffled},
        training::{BatchSource, CachedSource},
    };

    #[test]
    fn cached_proposals_are_those_of_the_batch() {
        let (config, device) = (ExperimentConfig::embedded("mini").unwrap().detector, Device::Cpu);
        let store = ParamStore::new(Key::new(3));
        let detector = FasterRcnn::new(&config, store.var_builder(DType::F32, &device)).unwrap();
        let mut rng = Key::new(4).rng();
        let noise: Vec<f32> = (0..2 * 3 * 96 * 96).map(|_| rng.random_range(-1.0..1.0)).collect();
        let pixels = Tensor::from_vec(noise, (2, 3, 96, 96), &device).unwrap();
        let images = ImageBatch { pixels, sizes: vec![(96, 96); 2] };
        let objects = vec![
            Objects { boxes: vec![[5., 5., 50., 60.], [40., 30., 90., 80.]], classes: vec![2, 3] },
            Objects { boxes: vec![[10., 20., 70., 80.]], classes: vec![1] },
        ];
        let pyramid = detector.features(&images.pixels, false).unwrap();
        let together = detector.foreground(&pyramid, &images, &objects).unwrap();
        let mut cache = FeatureCache::default();
        cache.push(&pyramid, &images.sizes, objects).unwrap();

        let order = BatchOrder { batch_size: 2, part: 0..2, key: Key::new(5) };
        let chosen = shuffled(2, 7, 2, order.key);
        let mut source = CachedSource::new(Rc::new(cache), order).unwrap();
        let from_cache = source.foreground(7, &detector).unwrap();
        let again = source.foreground(7, &detector).unwrap();
        assert!(from_cache.iter().zip(&again).all(|(a, b)| Rc::ptr_eq(a, b)));
        let from_cache = ForegroundPool::sample(&from_cache, &mut Key::new(6).rng()).unwrap();
        let pools: Vec<&ForegroundPool> = chosen.iter().map(|&i| &together[i]).collect();
        let from_batch = ForegroundPool::sample(&pools, &mut Key::new(6).rng()).unwrap();
        assert!(from_cache.labels.len() >= 3);
        assert_eq!(from_cache.labels, from_batch.labels);
        assert_eq!(from_cache.sample_size, from_batch.sample_size);
        let targets = |sample: &Foreground| sample.targets.to_vec2::<f32>().unwrap();
        assert_eq!(targets(&from_cache), targets(&from_batch));
        let apart = (from_cache.hidden - from_batch.hidden).unwrap().abs().unwrap().max_all().unwrap();
        assert!(apart.to_scalar::<f32>().unwrap() < 1e-4);
    }

    #[test]
    fn every_image_is_drawn_once_in_an_epoch() {
        let mut drawn: Vec<usize> = (0..5).flat_map(|step| shuffled(10, step, 2, Key::new(1))).collect();
        assert_ne!(drawn, (0..10).collect::<Vec<_>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..10).collect::<Vec<_>>());
    }
}
