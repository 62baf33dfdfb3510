//! What a frozen body makes of every image and of its mirror image, kept in half precision.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::{
    coco::CocoDataset,
    loader::{DetectionRecipe, Loader, LoaderConfig},
};
use ebm_ops::boxes::BoxConvention;
use ebm_train::Progress;
use rand::Rng as _;

use super::BatchSource;
use crate::{
    Result,
    feature_cache::{BatchOrder, CachedBatch, FeatureCache, shuffled},
};

/// The body's maps of every image and of its mirror image.
pub struct MirroredMaps {
    /// All images as they are, then all mirrored.
    cache: FeatureCache,
    order: BatchOrder,
}

impl MirroredMaps {
    /// Makes `maps`, with the channels innermost, of the images of `dataset` as `loader` reads them, one by
    /// one.
    ///
    /// # Errors
    /// When an image cannot be read, or the network fails.
    pub fn compute(
        dataset: &Arc<CocoDataset>,
        loader: &LoaderConfig,
        convention: BoxConvention,
        maps: &dyn Fn(&Tensor) -> Result<Vec<Tensor>>,
        order: BatchOrder,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        progress.begin("maps of the frozen body", 2 * dataset.images.len());
        let mut cache = FeatureCache::default();
        let half = |pixels: &Tensor| -> Result<Vec<Tensor>> {
            let half = |map: &Tensor| Ok(ebm_ops::nhwc::to_nchw(&map.detach().to_dtype(DType::F16)?)?);
            maps(pixels)?.iter().map(half).collect()
        };
        for flip_probability in [0.0, 1.0] {
            let recipe = DetectionRecipe { flip_probability, ..loader.recipe };
            let one_by_one = LoaderConfig { recipe, batch_size: 1, shuffle: false, ..loader.clone() };
            let loader = Loader::new(dataset.clone(), one_by_one, Key::new(0))?;
            cache.add(&loader, convention, device, &half, progress)?;
        }
        progress.end();
        Ok(Self { cache, order })
    }

    /// Half of the cached ones.
    fn count(&self) -> usize {
        self.cache.len() / 2
    }

    /// The position of an image at this place of a step's batch, or of its mirror image.
    fn mirrored(&self, step: usize, place: usize, image: usize) -> usize {
        let key = self.order.key.split("mirror").index(step as u64).index(place as u64);
        if key.rng().random_bool(0.5) { image + self.count() } else { image }
    }

    /// Maps in single precision, `(N, h, w, C)`.
    fn batch_of(&self, positions: &[usize]) -> Result<CachedBatch> {
        let mut batch = self.cache.batch(positions)?;
        for map in &mut batch.maps {
            *map = ebm_ops::nhwc::from_nchw(map)?.to_dtype(DType::F32)?;
        }
        Ok(batch)
    }
}

impl BatchSource for MirroredMaps {
    /// Images of like shapes stand together, so that little of a batch is padding: of the images of several
    /// steps, each step has those that follow by their shape.
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
        let BatchOrder { batch_size, part, key } = &self.order;
        let order = shuffled(self.count(), step, *batch_size, *key);
        let image = |place: usize| self.batch_of(&[self.mirrored(step, place, order[place])]);
        part.clone().map(image).collect()
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
