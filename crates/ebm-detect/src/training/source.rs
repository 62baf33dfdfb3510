//! Where training batches come from: the loader, or features computed before.

use std::ops::Range;
use std::rc::Rc;

use candle_core::Device;
use ebm_data::loader::{ByStep, Loader};
use ebm_nn::{boxes::BoxConvention, device::Uploader};
use ebm_seed::Key;
use rand::RngCore;

use crate::{
    Error, Result,
    faster_rcnn::ImageBatch,
    feature_cache::{CachedBatch, FeatureCache, shuffled},
    foreground::{Foreground, ForegroundCache},
    input::objects,
};

/// Where a branch's batches come from.
pub enum BranchSource {
    /// Images, with their features or without.
    Images(Box<dyn BatchSource>),
    /// For a density: proposals of objects, computed before.
    Foreground(ForegroundSource),
}

/// A sequence of batches; the batch of a step depends on that step alone.
pub trait BatchSource {
    /// The batch of `step`. Its `maps` are empty where nothing was computed before.
    fn batch(&mut self, step: usize) -> Result<CachedBatch>;
}

impl BatchSource for Box<dyn BatchSource> {
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        (**self).batch(step)
    }
}

/// Batches of cached features, shuffled anew in every epoch.
pub struct CachedSource {
    cache: Rc<FeatureCache>,
    positions: Vec<usize>,
    batch_size: usize,
    /// Which of a batch's images are given out.
    part: Range<usize>,
    key: Key,
}

impl CachedSource {
    /// Batches of the images that hold an object.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(cache: Rc<FeatureCache>, batch_size: usize, key: Key) -> Result<Self> {
        let positions = cache.with_objects();
        if positions.is_empty() || batch_size == 0 {
            let reason =
                format!("{} images with objects cannot form batches of {batch_size}", positions.len());
            return Err(Error::config("training", reason));
        }
        Ok(Self { cache, positions, batch_size, part: 0..batch_size, key })
    }

    /// The same batches, of which only these images are given out.
    ///
    /// # Errors
    /// When a batch has no such images.
    pub fn part(self, part: Range<usize>) -> Result<Self> {
        check_part(&part, self.batch_size)?;
        Ok(Self { part, ..self })
    }
}

/// Proposals of objects, computed before, of the same images as a [`CachedSource`]'s with the same key.
pub struct ForegroundSource {
    cache: Rc<ForegroundCache>,
    batch_size: usize,
    /// Which of a batch's images are sampled from.
    part: Range<usize>,
    key: Key,
}

impl ForegroundSource {
    /// Batches of `batch_size` images, shuffled with `key`.
    pub fn new(cache: Rc<ForegroundCache>, batch_size: usize, key: Key) -> Self {
        Self { cache, batch_size, part: 0..batch_size, key }
    }

    /// The same batches, of which only these images are sampled from.
    ///
    /// # Errors
    /// When a batch has no such images.
    pub fn part(self, part: Range<usize>) -> Result<Self> {
        check_part(&part, self.batch_size)?;
        Ok(Self { part, ..self })
    }

    pub(crate) fn sample(&self, step: usize, rng: &mut dyn RngCore) -> Result<Foreground> {
        let chosen = shuffled(self.cache.len(), step, self.batch_size, self.key);
        self.cache.sample(&chosen[self.part.clone()], rng)
    }
}

fn check_part(part: &Range<usize>, batch_size: usize) -> Result<()> {
    if part.is_empty() || part.end > batch_size {
        return Err(Error::config("training", format!("a batch of {batch_size} has no images {part:?}")));
    }
    Ok(())
}

impl BatchSource for CachedSource {
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        let order = shuffled(self.positions.len(), step, self.batch_size, self.key);
        let chosen: Vec<usize> = order[self.part.clone()].iter().map(|&i| self.positions[i]).collect();
        self.cache.batch(&chosen)
    }
}

/// Batches of images from the loader.
pub struct StreamSource {
    batches: ByStep,
    uploader: Uploader,
    convention: BoxConvention,
}

impl StreamSource {
    /// Batches of `loader`, uploaded to `device`.
    pub fn new(loader: Loader, device: Device, convention: BoxConvention) -> Self {
        Self { batches: ByStep::new(loader), uploader: Uploader::new(&device), convention }
    }
}

impl BatchSource for StreamSource {
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        let batch = self.batches.batch(step)?;
        Ok(CachedBatch {
            maps: Vec::new(),
            images: ImageBatch::uploaded(&batch, &mut self.uploader)?,
            objects: batch.samples.iter().map(|sample| objects(sample, self.convention)).collect(),
        })
    }
}
