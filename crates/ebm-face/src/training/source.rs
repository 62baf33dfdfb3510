//! Sources of training batches: the loader, or features computed before.

use std::rc::Rc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::faces::loader::{FaceBatch, FaceLoader, FaceTransform};
use ebm_data::loader::ByStep;
use ebm_ops::device::Uploader;
use rand::Rng;
use rand::seq::SliceRandom;

use crate::features::FeatureTable;
use crate::{Error, Result};

/// Inputs with their targets.
pub struct Batch {
    /// Images `(B, 3, H, W)`, features g_x `(B, X)` or maps `(B, …)`.
    pub x: Tensor,
    /// Targets `(B, D)`.
    pub y: Tensor,
}

/// A sequence of batches. The batch of a step depends on that step alone.
pub trait BatchSource {
    /// Returns the batch of `step`.
    ///
    /// # Errors
    /// When an image cannot be read or a device runs out of memory.
    fn batch(&mut self, step: usize) -> Result<Batch>;

    /// Returns the number of images in an epoch.
    fn count(&self) -> usize;
}

/// Batches of features or of a frozen part's maps. Each epoch draws a new order and, for each image, one of its views.
pub struct CachedSource {
    views: Rc<Vec<FeatureTable>>,
    batch_size: usize,
    key: Key,
    /// Cached order of one epoch, with the epoch's number.
    order: Option<(usize, Vec<(usize, usize)>)>,
}

impl CachedSource {
    /// Makes batches of `views`, which are tables of the same images.
    ///
    /// # Errors
    /// [`Error::Config`] without a view or an image, or when the views have different numbers of images.
    pub fn new(views: Rc<Vec<FeatureTable>>, batch_size: usize, key: Key) -> Result<Self> {
        let sizes: Vec<usize> = views.iter().map(FeatureTable::count).collect();
        if batch_size == 0
            || sizes.first().is_none_or(|&first| first == 0 || sizes != vec![first; sizes.len()])
        {
            let reason = format!("views of {sizes:?} images cannot form batches of {batch_size}");
            return Err(Error::config("of the feature source", reason));
        }
        Ok(Self { views, batch_size, key, order: None })
    }

    /// Returns image and view at each position of the epoch `epoch`.
    fn order(&self, epoch: usize) -> Vec<(usize, usize)> {
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.shuffle(&mut self.key.split("order").index(epoch as u64).rng());
        let mut rng = self.key.split("view").index(epoch as u64).rng();
        order.into_iter().map(|image| (image, rng.random_range(0..self.views.len()))).collect()
    }
}

impl BatchSource for CachedSource {
    fn batch(&mut self, step: usize) -> Result<Batch> {
        // The stream of images continues from epoch to epoch, so a batch may span two.
        let (count, first) = (self.count(), step * self.batch_size);
        let mut rows = Vec::with_capacity(self.batch_size);
        for place in first..first + self.batch_size {
            let epoch = place / count;
            let order = match self.order.take() {
                Some((known, order)) if known == epoch => order,
                _ => self.order(epoch),
            };
            let (image, view) = order[place % count];
            rows.push(self.views[view].row(image)?);
            self.order = Some((epoch, order));
        }
        let (x, y): (Vec<_>, Vec<_>) = rows.into_iter().map(|[x, y]| (x, y)).unzip();
        Ok(Batch { x: Tensor::cat(&x, 0)?.to_dtype(DType::F32)?, y: Tensor::cat(&y, 0)? })
    }

    fn count(&self) -> usize {
        self.views.first().map_or(0, FeatureTable::count)
    }
}

/// Batches of images from the loader.
pub struct StreamSource {
    batches: ByStep<FaceTransform>,
    count: usize,
    uploader: Uploader,
}

impl StreamSource {
    /// Makes batches of `loader`, which has `count` images, and uploads them to `device`.
    pub fn new(loader: FaceLoader, count: usize, device: Device) -> Self {
        Self { batches: ByStep::new(loader), count, uploader: Uploader::new(&device) }
    }
}

impl BatchSource for StreamSource {
    fn batch(&mut self, step: usize) -> Result<Batch> {
        let batch = self.batches.batch(step)?;
        let x = self.uploader.upload(&batch.data, batch.shape)?;
        Ok(Batch { x, y: targets(&batch, self.uploader.device())? })
    }

    fn count(&self) -> usize {
        self.count
    }
}

/// Returns the images of `batch` `(B, 3, H, W)` on `device`.
pub(crate) fn images(batch: &FaceBatch, device: &Device) -> Result<Tensor> {
    Ok(Tensor::from_slice(&batch.data, batch.shape, device)?)
}

/// Returns the targets of `batch` `(B, D)` on `device`.
pub(crate) fn targets(batch: &FaceBatch, device: &Device) -> Result<Tensor> {
    let dim = batch.samples.first().map_or(0, |sample| sample.target.len());
    let targets: Vec<f32> = batch.samples.iter().flat_map(|sample| sample.target.iter().copied()).collect();
    Ok(Tensor::from_vec(targets, (batch.samples.len(), dim), device)?)
}
