//! Sources of training batches: the loader, or cached features.

use std::rc::Rc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::loader::{ByStep, DetectionRecipe, Loader, LoaderConfig};
use ebm_data::transform::padded_size;
use ebm_experiment::Session;
use ebm_ops::{boxes::BoxConvention, device::Uploader};
use rand::Rng as _;

use super::Batches;
use crate::faster_rcnn::{FasterRcnn, ImageBatch, Objects};
use crate::feature_cache::{BatchOrder, CachedBatch, FeatureCache, shuffled};
use crate::parametric_head::ForegroundPool;
use crate::{Error, Result};

/// Sequence of batches. The batch of a step depends on that step alone.
pub trait BatchSource {
    /// Returns the batch of `step`. Its `maps` are empty without a cache.
    ///
    /// # Errors
    /// When an image cannot be read or an operation fails.
    fn batch(&mut self, step: usize) -> Result<CachedBatch>;

    /// Returns the images of a step's batch without maps as batches of one image, without the padding to a common size.
    fn images(&mut self, step: usize) -> Result<Vec<CachedBatch>> {
        let batch = self.batch(step)?;
        let image = |(i, (&size, objects)): (usize, (&(usize, usize), &Objects))| {
            let (height, width) = padded_size([size]);
            let pixels = batch.images.pixels.narrow(0, i, 1)?.narrow(2, 0, height)?.narrow(3, 0, width)?;
            let images = ImageBatch { pixels: pixels.contiguous()?, sizes: vec![size] };
            Ok(CachedBatch { maps: vec![], images, objects: vec![objects.clone()] })
        };
        batch.images.sizes.iter().zip(&batch.objects).enumerate().map(image).collect()
    }

    /// Returns the proposals of objects in each image of a step's batch, from the frozen `detector`.
    fn foreground(&mut self, step: usize, detector: &FasterRcnn) -> Result<Vec<Rc<ForegroundPool>>> {
        self.batch(step)?.foreground(detector)
    }
}

/// Source of cached pyramids of the images that hold an object.
pub(crate) struct CachedSource {
    cache: Rc<FeatureCache>,
    positions: Vec<usize>,
    order: BatchOrder,
}

impl CachedSource {
    /// Creates a source of batches in this `order`.
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
        let chosen = self.order.chosen(self.positions.len(), step);
        chosen.into_iter().map(|i| self.positions[i]).collect()
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

/// Source of images from the loader.
pub(crate) struct StreamSource {
    batches: ByStep,
    uploader: Uploader,
    convention: BoxConvention,
}

impl StreamSource {
    /// Creates a source of the batches of `loader`, uploaded to `device`.
    pub fn new(loader: Loader, device: &Device, convention: BoxConvention) -> Self {
        Self { batches: ByStep::new(loader), uploader: Uploader::new(device), convention }
    }
}

impl BatchSource for StreamSource {
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        CachedBatch::of(&self.batches.batch(step)?, self.convention, &mut self.uploader)
    }
}

/// Source of a frozen body's maps of every image and its mirror image, cached in half precision.
pub(crate) struct MirroredMaps {
    /// Maps of all images, then of all mirror images.
    cache: FeatureCache,
    order: BatchOrder,
}

impl MirroredMaps {
    /// Computes `maps`, with the channels innermost, of the images of `batches`, which are read one by one with the
    /// settings of `loader`.
    pub(crate) fn compute(
        batches: &Batches<'_>,
        loader: &LoaderConfig,
        maps: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
        session: &mut Session<'_>,
    ) -> Result<Self> {
        let order = batches.order(session)?;
        let Session { device, progress, .. } = session;
        progress.begin("maps of the frozen body", 2 * batches.images.images.len());
        let mut cache = FeatureCache::default();
        let half = |pixels: &Tensor| -> Result<Vec<Tensor>> {
            let half = |map: &Tensor| Ok(ebm_ops::nhwc::to_nchw(&map.detach().to_dtype(DType::F16)?)?);
            maps(pixels)?.iter().map(half).collect()
        };
        for flip_probability in [0.0, 1.0] {
            let recipe = DetectionRecipe { flip_probability, ..loader.recipe };
            let one_by_one = LoaderConfig { recipe, batch_size: 1, shuffle: false, ..loader.clone() };
            let loader = Loader::new(batches.images.clone(), one_by_one, Key::new(0))?;
            cache.add(&loader, batches.convention, device, &half, *progress)?;
        }
        progress.end();
        Ok(Self { cache, order })
    }

    /// Returns the number of images, which is half of the cached ones.
    fn count(&self) -> usize {
        self.cache.len() / 2
    }

    /// Returns the position of `image` or, at random, of its mirror image, for this `place` in a step's batch.
    fn mirrored(&self, step: usize, place: usize, image: usize) -> usize {
        let key = self.order.key.split("mirror").index(step as u64).index(place as u64);
        if key.rng().random_bool(0.5) { image + self.count() } else { image }
    }

    /// Returns the batch of the images at `positions`, with maps in single precision, `(N, h, w, C)`.
    fn batch_of(&self, positions: &[usize]) -> Result<CachedBatch> {
        let mut batch = self.cache.batch(positions)?;
        for map in &mut batch.maps {
            *map = ebm_ops::nhwc::from_nchw(map)?.to_dtype(DType::F32)?;
        }
        Ok(batch)
    }
}

impl BatchSource for MirroredMaps {
    /// Returns a batch of images with similar shapes, which need little padding: the images of several steps are sorted
    /// by their aspect ratio and divided among these steps.
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        const STEPS: usize = 8;
        let BatchOrder { batch_size, part, key } = &self.order;
        let mut images = shuffled(self.count(), step / STEPS, STEPS * batch_size, *key);
        images.sort_by(|a, b| self.cache.aspect(*a).total_cmp(&self.cache.aspect(*b)));
        let batch = &images[(step % STEPS) * batch_size..][part.clone()];
        let positions = part.clone().zip(batch).map(|(place, image)| self.mirrored(step, place, *image));
        self.batch_of(&positions.collect::<Vec<_>>())
    }

    fn images(&mut self, step: usize) -> Result<Vec<CachedBatch>> {
        let chosen = self.order.part.clone().zip(self.order.chosen(self.count(), step));
        chosen.map(|(place, image)| self.batch_of(&[self.mirrored(step, place, image)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_comes_once_beside_others_of_its_shape() {
        const IMAGES: usize = 16;
        let mut cache = FeatureCache::default();
        // Wide and high images in turn; a map's value is the image's number.
        for number in 0..2 * IMAGES {
            let (height, width) = if number % 2 == 0 { (2, 4) } else { (4, 2) };
            let map = Tensor::full(number as f32, (1, height, width, 3), &Device::Cpu).unwrap();
            let map = ebm_ops::nhwc::to_nchw(&map.to_dtype(DType::F16).unwrap()).unwrap();
            cache.push(&[map], &[(8 * height, 8 * width)], vec![Default::default()]).unwrap();
        }
        let order = BatchOrder { batch_size: 2, part: 0..2, key: Key::new(1) };
        let mut maps = MirroredMaps { cache, order };
        let (mut seen, mut mirrored) = (Vec::new(), 0);
        for step in 0..IMAGES / 2 {
            let batch = maps.batch(step).unwrap();
            assert_eq!(batch.maps[0].dtype(), DType::F32);
            let shape = batch.maps[0].dims();
            assert!(shape == [2, 2, 4, 3] || shape == [2, 4, 2, 3], "{shape:?}");
            for image in 0..2 {
                let values = batch.maps[0].get(image).unwrap().flatten_all().unwrap();
                let number = values.to_vec1::<f32>().unwrap()[0] as usize;
                mirrored += usize::from(number >= IMAGES);
                seen.push(number % IMAGES);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..IMAGES).collect::<Vec<_>>());
        assert!((2..IMAGES - 2).contains(&mirrored), "{mirrored}");
        for step in 0..4 {
            assert_eq!(maps.images(step).unwrap().len(), 2);
        }
    }
}
