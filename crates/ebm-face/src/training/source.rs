//! Where training batches come from: the loader, or features computed before.

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

/// A sequence of batches; the batch of a step depends on that step alone.
pub trait BatchSource {
    /// The batch of `step`.
    ///
    /// # Errors
    /// When an image can not be read or a device runs out of memory.
    fn batch(&mut self, step: usize) -> Result<Batch>;

    /// The number of images in an epoch.
    fn count(&self) -> usize;
}

/// Batches of features or of a frozen part's maps, in an order of each epoch's own, each image in one of its views
/// drawn anew in each epoch.
pub struct CachedSource {
    views: Rc<Vec<FeatureTable>>,
    batch_size: usize,
    key: Key,
    /// The epoch whose order is at hand.
    order: Option<(usize, Vec<(usize, usize)>)>,
}

impl CachedSource {
    /// Batches of the images of `views`, tables of the same images.
    ///
    /// # Errors
    /// [`Error::Config`] without a view or an image, or when views are not of the same images.
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

    /// Image and view at each place of an epoch.
    fn order(&self, epoch: usize) -> Vec<(usize, usize)> {
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.shuffle(&mut self.key.split("order").index(epoch as u64).rng());
        let mut rng = self.key.split("view").index(epoch as u64).rng();
        order.into_iter().map(|image| (image, rng.random_range(0..self.views.len()))).collect()
    }
}

impl BatchSource for CachedSource {
    fn batch(&mut self, step: usize) -> Result<Batch> {
        // The stream of images runs on from epoch to epoch; a batch may span two.
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
    /// Batches of `loader`, which has `count` images, uploaded to `device`.
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

/// The images of a batch, `(B, 3, H, W)`.
pub(crate) fn images(batch: &FaceBatch, device: &Device) -> Result<Tensor> {
    Ok(Tensor::from_slice(&batch.data, batch.shape, device)?)
}

/// The targets of a batch, `(B, D)`.
pub(crate) fn targets(batch: &FaceBatch, device: &Device) -> Result<Tensor> {
    let dim = batch.samples.first().map_or(0, |sample| sample.target.len());
    let targets: Vec<f32> = batch.samples.iter().flat_map(|sample| sample.target.iter().copied()).collect();
    Ok(Tensor::from_vec(targets, (batch.samples.len(), dim), device)?)
}
