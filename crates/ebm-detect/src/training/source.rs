//! Where training batches come from: the loader, or features computed before.

use std::rc::Rc;

use candle_core::Device;
use ebm_data::loader::{ByStep, Loader};
use ebm_data::transform::padded_size;
use ebm_ops::{boxes::BoxConvention, device::Uploader};

use crate::{
    Error, Result,
    faster_rcnn::{FasterRcnn, ImageBatch, Objects},
    feature_cache::{BatchOrder, CachedBatch, FeatureCache, shuffled},
    foreground::ForegroundPool,
    input::objects,
};

/// A sequence of batches; the batch of a step depends on that step alone.
pub trait BatchSource {
    /// The batch of `step`. Its `maps` are empty where nothing was computed before.
    ///
    /// # Errors
    /// When an image cannot be read or an operation fails.
    fn batch(&mut self, step: usize) -> Result<CachedBatch>;

    /// The images of a step's batch, each by itself and without the padding that the others needed.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    fn images(&mut self, step: usize) -> Result<Vec<CachedBatch>> {
        singly(&self.batch(step)?)
    }

    /// The proposals of objects in each image of a step's batch, as the frozen `detector` makes them.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    fn foreground(&mut self, step: usize, detector: &FasterRcnn) -> Result<Vec<Rc<ForegroundPool>>> {
        self.batch(step)?.foreground(detector)
    }
}

/// The images of a batch without maps.
fn singly(batch: &CachedBatch) -> Result<Vec<CachedBatch>> {
    let image = |(i, (&size, objects)): (usize, (&(usize, usize), &Objects))| {
        let (height, width) = padded_size([size]);
        let pixels = batch.images.pixels.narrow(0, i, 1)?.narrow(2, 0, height)?.narrow(3, 0, width)?;
        let images = ImageBatch { pixels: pixels.contiguous()?, sizes: vec![size] };
        Ok(CachedBatch { maps: vec![], images, objects: vec![objects.clone()] })
    };
    batch.images.sizes.iter().zip(&batch.objects).enumerate().map(image).collect()
}

/// Batches of cached pyramids, of the images that hold an object.
pub struct CachedSource {
    cache: Rc<FeatureCache>,
    positions: Vec<usize>,
    order: BatchOrder,
}

impl CachedSource {
    /// Batches in this order.
    ///
    /// # Errors
    /// When no image holds an object.
    pub fn new(cache: Rc<FeatureCache>, order: BatchOrder) -> Result<Self> {
        let (positions, batch_size) = (cache.with_objects(), order.batch_size);
        if positions.is_empty() || batch_size == 0 {
            let reason =
                format!("{} images with objects cannot form batches of {batch_size}", positions.len());
            return Err(Error::config("training", reason));
        }
        Ok(Self { cache, positions, order })
    }

    fn chosen(&self, step: usize) -> Vec<usize> {
        let BatchOrder { batch_size, part, key } = &self.order;
        let order = shuffled(self.positions.len(), step, *batch_size, *key);
        order[part.clone()].iter().map(|&i| self.positions[i]).collect()
    }
}

impl BatchSource for CachedSource {
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        self.cache.batch(&self.chosen(step))
    }

    fn foreground(&mut self, step: usize, detector: &FasterRcnn) -> Result<Vec<Rc<ForegroundPool>>> {
        self.chosen(step).into_iter().map(|position| self.cache.foreground(position, detector)).collect()
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
    pub fn new(loader: Loader, device: &Device, convention: BoxConvention) -> Self {
        Self { batches: ByStep::new(loader), uploader: Uploader::new(device), convention }
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
