//! What frozen layers make of images, computed once and kept in memory.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_data::loader::{Batch, Loader};
use ebm_ops::{boxes::BoxConvention, device::Uploader};
use ebm_train::Progress;
use rand::seq::SliceRandom;

use crate::{
    Error, Result,
    faster_rcnn::{FasterRcnn, ImageBatch, Objects},
    input::objects,
    parametric_head::ForegroundPool,
};

/// Maps of each image (a body's, or levels P2 … P6) with its size and objects. The images themselves are
/// not kept.
#[derive(Default)]
pub(crate) struct FeatureCache {
    images: Vec<CachedImage>,
}

struct CachedImage {
    /// `(1, C, h, w)` each, without history.
    maps: Vec<Tensor>,
    size: (usize, usize),
    objects: Objects,
    /// The proposals of its objects, found when a density asks for them.
    foreground: OnceCell<Rc<ForegroundPool>>,
}

/// Images with their objects, and what was computed of them before.
pub struct CachedBatch {
    /// `(N, C, h, w)` of each level of a pyramid, or `(N, h, w, C)` of each of a body's maps; none where nothing
    /// was computed before.
    pub maps: Vec<Tensor>,
    /// The images themselves.
    pub images: ImageBatch,
    /// Their objects.
    pub objects: Vec<Objects>,
}

impl CachedBatch {
    /// The batches of the loader's first epoch, of which nothing was computed before.
    pub(crate) fn each(
        loader: &Loader,
        convention: BoxConvention,
        device: &Device,
    ) -> Result<impl Iterator<Item = Result<Self>>> {
        let mut uploader = Uploader::new(device);
        Ok(loader.epoch(0)?.map(move |batch| Self::of(&batch?, convention, &mut uploader)))
    }

    /// The images of a loader's batch, of which nothing was computed before.
    pub(crate) fn of(batch: &Batch, convention: BoxConvention, uploader: &mut Uploader) -> Result<Self> {
        let objects = batch.samples.iter().map(|sample| objects(sample, convention)).collect();
        Ok(Self { maps: Vec::new(), images: ImageBatch::uploaded(batch, uploader)?, objects })
    }

    /// The pyramid P2 … P6 of `detector`, unless it is there.
    pub(crate) fn pyramid(&self, detector: &FasterRcnn) -> Result<Vec<Tensor>> {
        match self.maps.as_slice() {
            [] => detector.features(&self.images.pixels, false),
            levels => Ok(levels.to_vec()),
        }
    }

    /// The proposals of objects in each image, as `detector` makes them.
    pub(crate) fn foreground(&self, detector: &FasterRcnn) -> Result<Vec<Rc<ForegroundPool>>> {
        let pools = detector.foreground(&self.pyramid(detector)?, &self.images, &self.objects)?;
        Ok(pools.into_iter().map(Rc::new).collect())
    }
}

/// In which order kept images form batches: shuffled anew in every epoch.
#[derive(Clone, Debug)]
pub(crate) struct BatchOrder {
    /// Images of a batch.
    pub batch_size: usize,
    /// Which of a batch's images are given out.
    pub part: Range<usize>,
    /// Of the order, and of which images are mirrored.
    pub key: Key,
}

impl BatchOrder {
    /// The numbers of a step's images, out of `count`.
    pub fn chosen(&self, count: usize, step: usize) -> Vec<usize> {
        shuffled(count, step, self.batch_size, self.key)[self.part.clone()].to_vec()
    }
}

impl FeatureCache {
    /// How many images the frozen layers are run on at a time, whoever fills the cache: the same branch is
    /// trained to the same digits only on maps that were computed alike.
    pub const AT_ONCE: usize = 10;

    /// Adds what `maps` makes of the pixels of `loader`'s images; `progress` is told how many there are then.
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

    /// Adds images of these sizes (height, width) with the `maps (N, C, h, w)` computed from them.
    pub fn push(&mut self, maps: &[Tensor], sizes: &[(usize, usize)], objects: Vec<Objects>) -> Result<()> {
        for (i, (&size, objects)) in sizes.iter().zip(objects).enumerate() {
            // Rows share their batch's storage; `copy` would duplicate all of it for each.
            let row = |t: &Tensor| -> Result<Tensor> { Ok(t.detach().narrow(0, i, 1)?) };
            let maps = maps.iter().map(row).collect::<Result<_>>()?;
            self.images.push(CachedImage { maps, size, objects, foreground: OnceCell::new() });
        }
        Ok(())
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Width over height of the image at this position.
    pub(crate) fn aspect(&self, position: usize) -> f64 {
        let (height, width) = self.images[position].size;
        width as f64 / height as f64
    }

    /// Positions of the images that hold an object.
    pub fn with_objects(&self) -> Vec<usize> {
        (0..self.len()).filter(|&i| !self.images[i].objects.boxes.is_empty()).collect()
    }

    /// The proposals of objects in the image at this position, which `detector` finds the first time.
    pub(crate) fn foreground(&self, position: usize, detector: &FasterRcnn) -> Result<Rc<ForegroundPool>> {
        let known = &self.images[position].foreground;
        if let Some(pool) = known.get() {
            return Ok(pool.clone());
        }
        let found = self.batch(&[position])?.foreground(detector)?.pop();
        let found = found.ok_or_else(|| Error::config("training", "the cache holds no such image"))?;
        Ok(known.get_or_init(|| found).clone())
    }

    /// The batch of these images, by position, each padded with zeros to the largest of them.
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

/// Maps `(1, C, h, w)` as one `(N, C, H, W)` with the channels innermost, and with zeros to the right and below.
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
