//! What the densities of Table 2 are trained on: proposals of objects as the frozen box head sees them.

use candle_core::Tensor;
use ebm_seed::Key;
use rand::RngCore;

use crate::{
    error::{Error, Result},
    faster_rcnn::FasterRcnn,
    feature_cache::{FeatureCache, shuffled},
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
    pub fn sample(pools: &[&ForegroundPool], rng: &mut dyn RngCore) -> Result<Foreground> {
        let first = pools.first().ok_or_else(|| Error::Config {
            name: "training".into(),
            reason: "a sample of no image was asked for".into(),
        })?;
        let device = first.hidden.device();
        let (mut hidden, mut labels, mut targets, mut sample_size) = (vec![], vec![], vec![], 0);
        for pool in pools {
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

/// The pools of cached images, computed once.
pub struct ForegroundCache(Vec<ForegroundPool>);

impl ForegroundCache {
    /// Of all images of `cache` that hold an object; `progress` is told how many are done.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(detector: &FasterRcnn, cache: &FeatureCache, progress: &mut dyn FnMut(usize)) -> Result<Self> {
        let mut pools = Vec::new();
        for position in cache.with_objects() {
            let batch = cache.batch(&[position])?;
            pools.extend(detector.foreground(&batch.maps, &batch.images, &batch.objects)?);
            progress(pools.len());
        }
        if pools.is_empty() {
            let reason = "no image holds an object".into();
            return Err(Error::Config { name: "training".into(), reason });
        }
        Ok(Self(pools))
    }

    /// The batch of `step`: images in the order of a [`CachedSource`](crate::training::CachedSource) with the same key.
    pub fn sample(
        &self,
        step: usize,
        batch_size: usize,
        order: Key,
        rng: &mut dyn RngCore,
    ) -> Result<Foreground> {
        let chosen = shuffled(self.0.len(), step, batch_size, order);
        ForegroundPool::sample(&chosen.iter().map(|&i| &self.0[i]).collect::<Vec<_>>(), rng)
    }
}
