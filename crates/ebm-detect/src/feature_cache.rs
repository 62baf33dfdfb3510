//! Cache of the features that frozen layers compute from images.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_data::loader::{Batch, Loader};
use ebm_ops::{boxes::BoxConvention, device::Uploader};
use ebm_train::Progress;
use rand::seq::SliceRandom;

use crate::faster_rcnn::{FasterRcnn, ImageBatch, Objects};
use crate::input::objects;
use crate::parametric_head::ForegroundPool;
use crate::{Error, Result};

/// Cache of the maps of each image (a body's, or levels P2 … P6), with its size and objects but not its pixels.
#[derive(Default)]
pub(crate) struct FeatureCache {
    images: Vec<CachedImage>,
}

struct CachedImage {
    /// Maps, `(1, C, h, w)` each, detached.
    maps: Vec<Tensor>,
    size: (usize, usize),
    objects: Objects,
    /// Proposals of the image's objects, computed when a density first needs them.
    foreground: OnceCell<Rc<ForegroundPool>>,
}

/// Batch of images with their objects, and perhaps cached maps.
pub struct CachedBatch {
    /// Cached levels of a pyramid, `(N, C, h, w)` each, or maps of a body, `(N, h, w, C)` each; empty without a cache.
    pub maps: Vec<Tensor>,
    /// Images.
    pub images: ImageBatch,
    /// Objects of each image.
    pub objects: Vec<Objects>,
}

impl CachedBatch {
    /// Returns the batches of the loader's first epoch, without maps.
    pub(crate) fn each(
        loader: &Loader,
        convention: BoxConvention,
        device: &Device,
    ) -> Result<impl Iterator<Item = Result<Self>>> {
        let mut uploader = Uploader::new(device);
        Ok(loader.epoch(0)?.map(move |batch| Self::of(&batch?, convention, &mut uploader)))
    }

    /// Converts a loader's batch, without maps.
    pub(crate) fn of(batch: &Batch, convention: BoxConvention, uploader: &mut Uploader) -> Result<Self> {
        let objects = batch.samples.iter().map(|sample| objects(sample, convention)).collect();
        Ok(Self { maps: Vec::new(), images: ImageBatch::uploaded(batch, uploader)?, objects })
    }

    /// Returns the cached pyramid P2 … P6, or else computes it with `detector`.
    pub(crate) fn pyramid(&self, detector: &FasterRcnn) -> Result<Vec<Tensor>> {
        match self.maps.as_slice() {
            [] => detector.features(&self.images.pixels, false),
            levels => Ok(levels.to_vec()),
        }
    }

    /// Computes the proposals of objects in each image with `detector`.
    pub(crate) fn foreground(&self, detector: &FasterRcnn) -> Result<Vec<Rc<ForegroundPool>>> {
        let pools = detector.foreground(&self.pyramid(detector)?, &self.images, &self.objects)?;
        Ok(pools.into_iter().map(Rc::new).collect())
    }
}

/// Order of cached images in batches; they are reshuffled in every epoch.
#[derive(Clone, Debug)]
pub(crate) struct BatchOrder {
    /// Number of images per batch.
    pub batch_size: usize,
    /// Range of the images of each batch that are used.
    pub part: Range<usize>,
    /// Key of the order and of mirroring.
    pub key: Key,
}

impl BatchOrder {
    /// Returns the indices of the images of `step`, out of `count`.
    pub fn chosen(&self, count: usize, step: usize) -> Vec<usize> {
        shuffled(count, step, self.batch_size, self.key)[self.part.clone()].to_vec()
    }
}

impl FeatureCache {
    /// Number of images that the frozen layers are run on at a time. A training is reproducible to the digit only if
    /// all caches use the same number.
    pub const BATCH_SIZE: usize = 10;

    /// Adds the maps that `maps` computes from the pixels of `loader`'s images; `progress` gets the number of images.
    pub fn add(
        &mut self,
        loader: &Loader,
        convention: BoxConvention,
        device: &Device,
        maps: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        for batch in CachedBatch::each(loader, convention, device)? {
            let CachedBatch { images, objects, .. } = batch?;
            self.push(&maps(&images.pixels)?, &images.sizes, objects)?;
            progress.advance(self.len(), "");
        }
        Ok(())
    }

    /// Adds images of these `sizes` (height, width) with their `maps (N, C, h, w)`.
    pub fn push(&mut self, maps: &[Tensor], sizes: &[(usize, usize)], objects: Vec<Objects>) -> Result<()> {
        for (i, (&size, objects)) in sizes.iter().zip(objects).enumerate() {
            // Rows share their batch's storage; `copy` would duplicate all of it for each row.
            let row = |t: &Tensor| -> Result<Tensor> { Ok(t.detach().narrow(0, i, 1)?) };
            let maps = maps.iter().map(row).collect::<Result<_>>()?;
            self.images.push(CachedImage { maps, size, objects, foreground: OnceCell::new() });
        }
        Ok(())
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Returns width over height of the image at this position.
    pub(crate) fn aspect(&self, position: usize) -> f64 {
        let (height, width) = self.images[position].size;
        width as f64 / height as f64
    }

    /// Returns the positions of the images that hold an object.
    pub fn with_objects(&self) -> Vec<usize> {
        (0..self.len()).filter(|&i| !self.images[i].objects.boxes.is_empty()).collect()
    }

    /// Returns the proposals of objects in the image at `position`; `detector` computes them at the first call.
    pub(crate) fn foreground(&self, position: usize, detector: &FasterRcnn) -> Result<Rc<ForegroundPool>> {
        let known = &self.images[position].foreground;
        if let Some(pool) = known.get() {
            return Ok(pool.clone());
        }
        let found = self.batch(&[position])?.foreground(detector)?.pop();
        let found = found.ok_or_else(|| Error::config("training", "the cache holds no such image"))?;
        Ok(known.get_or_init(|| found).clone())
    }

    /// Returns the batch of the images at `positions`, each padded with zeros to the largest size.
    pub fn batch(&self, positions: &[usize]) -> Result<CachedBatch> {
        let images: Vec<&CachedImage> = positions.iter().map(|&i| &self.images[i]).collect();
        let levels = images.first().map_or(0, |image| image.maps.len());
        let stack = |level| stack(&images.iter().map(|image| &image.maps[level]).collect::<Vec<_>>());
        Ok(CachedBatch {
            maps: (0..levels).map(stack).collect::<Result<_>>()?,
            images: ImageBatch::without_pixels(images.iter().map(|image| image.size).collect())?,
            objects: images.iter().map(|image| image.objects.clone()).collect(),
        })
    }
}

/// Joins maps `(1, C, h, w)` to one `(N, C, H, W)` with the channels innermost, padded with zeros at the right and
/// bottom.
fn stack(maps: &[&Tensor]) -> Result<Tensor> {
    let extent = |axis: usize| maps.iter().filter_map(|map| map.dims().get(axis)).copied().max().unwrap_or(0);
    let (height, width) = (extent(2), extent(3));
    let padded = |map: &&Tensor| -> Result<Tensor> {
        let map = ebm_ops::nhwc::from_nchw(map)?;
        let (_, rows, columns, _) = map.dims4()?;
        let map = if rows < height { map.pad_with_zeros(1, 0, height - rows)? } else { map };
        Ok(if columns < width { map.pad_with_zeros(2, 0, width - columns)? } else { map })
    };
    let maps = maps.iter().map(padded).collect::<Result<Vec<_>>>()?;
    Ok(ebm_ops::nhwc::to_nchw(&Tensor::cat(&maps, 0)?)?)
}

/// Returns the images of `step` out of `count`, which are reshuffled in every epoch.
pub(crate) fn shuffled(count: usize, step: usize, batch_size: usize, key: Key) -> Vec<usize> {
    // Batches may span two epochs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;

    #[test]
    fn images_of_several_sizes_form_a_batch() {
        let ones = |h, w| Tensor::ones((1, 2, h, w), DType::F32, &Device::Cpu).unwrap();
        let innermost = |map: &Tensor| {
            let map = map.permute((0, 2, 3, 1)).unwrap().contiguous().unwrap();
            map.permute((0, 3, 1, 2)).unwrap()
        };
        for stored in [&|map: &Tensor| map.clone(), &innermost as &dyn Fn(&Tensor) -> Tensor] {
            let mut cache = FeatureCache::default();
            let objects = || vec![Objects { boxes: vec![[0.0, 0.0, 4.0, 4.0]], classes: vec![1] }];
            cache.push(&[stored(&ones(3, 2))], &[(12, 8)], objects()).unwrap();
            cache.push(&[stored(&ones(2, 4))], &[(8, 16)], objects()).unwrap();
            let batch = cache.batch(&[1, 0]).unwrap();
            assert_eq!(batch.images.sizes, [(8, 16), (12, 8)]);
            assert_eq!(batch.maps[0].dims(), [2, 2, 3, 4]);
            let sums = batch.maps[0].sum((2, 3)).unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(sums, [[8.0, 8.0], [6.0, 6.0]]);
            let first = batch.maps[0].get(1).unwrap().get(0).unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(first, [[1.0, 1.0, 0.0, 0.0]; 3]);
        }
    }
}
