//! Features of frozen layers, computed once for all images and kept in memory.

use candle_core::{Device, Tensor};
use ebm_data::loader::{Batch, Loader};
use ebm_nn::boxes::BoxConvention;
use ebm_seed::Key;
use ebm_train::Progress;
use rand::seq::SliceRandom;

use crate::{
    error::{Error, Result},
    faster_rcnn::{ImageBatch, Objects},
    input::objects,
};

/// Maps of each image (stages C2 … C5 or levels P2 … P6) with its size and objects.
///
/// All images were padded to the same extent, so that any of them can form a batch.
#[derive(Default)]
pub struct FeatureCache {
    images: Vec<CachedImage>,
}

struct CachedImage {
    /// `(1, C, h, w)` each, without history.
    maps: Vec<Tensor>,
    pixels: Tensor,
    size: (usize, usize),
    objects: Objects,
}

/// A batch put together from the cache.
pub struct CachedBatch {
    /// `(N, C, h, w)` of each stage or level.
    pub maps: Vec<Tensor>,
    /// The images themselves.
    pub images: ImageBatch,
    /// Their objects.
    pub objects: Vec<Objects>,
}

impl CachedBatch {
    /// A batch of the loader, of which nothing was computed before.
    ///
    /// # Errors
    /// When the images have no extent.
    pub fn of_images(batch: &Batch, convention: BoxConvention, device: &Device) -> Result<Self> {
        let objects = batch.samples.iter().map(|sample| objects(sample, convention)).collect();
        Ok(Self { maps: Vec::new(), images: ImageBatch::new(batch, device)?, objects })
    }
}

/// How many images' maps are computed at a time: what a machine holds beside the cache itself.
const AT_ONCE: usize = 10;

impl FeatureCache {
    /// What `maps` makes of the `total` images of `loader`, whose batches are all padded to the same extent;
    /// as the stage `stage`.
    ///
    /// # Errors
    /// When an image can not be read, or a network fails.
    pub fn compute(
        loader: &Loader,
        convention: BoxConvention,
        device: &Device,
        maps: &dyn Fn(&ImageBatch) -> Result<Vec<Tensor>>,
        (stage, total): (&str, usize),
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let mut cache = Self::default();
        progress.begin(stage, total);
        for batch in loader.epoch(0)? {
            let batch = batch?;
            let images = ImageBatch::new(&batch, device)?;
            for (i, samples) in batch.samples.chunks(AT_ONCE).enumerate() {
                let sizes = samples.iter().map(|sample| (sample.height, sample.width)).collect();
                let pixels = images.pixels.narrow(0, i * AT_ONCE, samples.len())?;
                let images = ImageBatch { pixels, sizes };
                let objects = samples.iter().map(|sample| objects(sample, convention)).collect();
                cache.push(&maps(&images)?, &images, objects)?;
                progress.advance(cache.len(), "");
            }
        }
        progress.end();
        Ok(cache)
    }

    /// Adds the images of a batch with the `maps` computed from it.
    ///
    /// # Errors
    /// When the images are padded to another extent than those before.
    pub fn push(&mut self, maps: &[Tensor], images: &ImageBatch, objects: Vec<Objects>) -> Result<()> {
        if let Some(first) = self.images.first() {
            let (here, before) = (&images.pixels.dims()[1..], &first.pixels.dims()[1..]);
            if here != before {
                let reason =
                    format!("images of shape {here:?} cannot form batches with others of {before:?}");
                return Err(Error::Config { name: "feature cache".into(), reason });
            }
        }
        for (i, (size, objects)) in images.sizes.iter().zip(objects).enumerate() {
            // Rows share their batch's storage; `copy` would duplicate all of it for each.
            let row = |t: &Tensor| -> Result<Tensor> { Ok(t.detach().narrow(0, i, 1)?) };
            let maps = maps.iter().map(row).collect::<Result<_>>()?;
            self.images.push(CachedImage { maps, pixels: row(&images.pixels)?, size: *size, objects });
        }
        Ok(())
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Positions of the images that hold an object.
    pub fn with_objects(&self) -> Vec<usize> {
        (0..self.len()).filter(|&i| !self.images[i].objects.0.is_empty()).collect()
    }

    /// The batch of these images, by position.
    pub fn batch(&self, positions: &[usize]) -> Result<CachedBatch> {
        let images: Vec<&CachedImage> = positions.iter().map(|&i| &self.images[i]).collect();
        let levels = images.first().map_or(0, |image| image.maps.len());
        let stack = |level: usize| -> Result<Tensor> {
            let maps: Vec<&Tensor> = images.iter().map(|image| &image.maps[level]).collect();
            let innermost: Vec<Tensor> =
                maps.iter().map(|map| map.permute((0, 2, 3, 1))).collect::<candle_core::Result<_>>()?;
            // Maps that are stored with the channels innermost stay so.
            Ok(if innermost.iter().all(Tensor::is_contiguous) {
                Tensor::cat(&innermost, 0)?.permute((0, 3, 1, 2))?
            } else {
                Tensor::cat(&maps, 0)?
            })
        };
        let pixels = Tensor::cat(&images.iter().map(|image| &image.pixels).collect::<Vec<_>>(), 0)?;
        Ok(CachedBatch {
            maps: (0..levels).map(stack).collect::<Result<_>>()?,
            images: ImageBatch { pixels, sizes: images.iter().map(|image| image.size).collect() },
            objects: images.iter().map(|image| image.objects.clone()).collect(),
        })
    }
}

/// The batch of `step` out of `count` images that are shuffled anew in every epoch.
pub(crate) fn shuffled(count: usize, step: usize, batch_size: usize, key: Key) -> Vec<usize> {
    // The stream of images runs on from epoch to epoch; a batch may span two.
    let first = step * batch_size;
    let mut chosen = Vec::with_capacity(batch_size);
    let mut epoch = None;
    for place in first..first + batch_size {
        let current = place / count;
        let order = match epoch.take() {
            Some((known, order)) if known == current => order,
            _ => {
                let mut order: Vec<usize> = (0..count).collect();
                order.shuffle(&mut key.split("order").index(current as u64).rng());
                order
            }
        };
        chosen.push(order[place % count]);
        epoch = Some((current, order));
    }
    chosen
}
