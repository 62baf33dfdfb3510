//! What a frozen body makes of every image and of its mirror image, kept in half precision.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_data::{
    coco::CocoDataset,
    loader::{DetectionRecipe, Loader, LoaderConfig},
};
use ebm_nn::{boxes::BoxConvention, ops};
use ebm_seed::Key;
use ebm_train::Progress;
use rand::Rng as _;

use super::BatchSource;
use crate::{
    Result,
    feature_cache::{CachedBatch, FeatureCache, shuffled},
};

/// The body's maps of every image and of its mirror image.
pub struct MirroredMaps {
    /// All images as they are, then all mirrored.
    cache: FeatureCache,
    order: MapOrder,
}

/// In which order kept maps form batches.
#[derive(Clone, Debug)]
pub struct MapOrder {
    /// Images of a batch.
    pub batch_size: usize,
    /// Which of a batch's images are given out.
    pub part: Range<usize>,
    /// Of the order, and of which images are mirrored.
    pub key: Key,
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
        order: MapOrder,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        progress.begin("maps of the frozen body", 2 * dataset.images.len());
        let mut cache = FeatureCache::default();
        for flip_probability in [0.0, 1.0] {
            let recipe = DetectionRecipe { flip_probability, ..loader.recipe };
            let one_by_one = LoaderConfig { recipe, batch_size: 1, shuffle: false, ..loader.clone() };
            let loader = Loader::new(dataset.clone(), one_by_one, Key::new(0))?;
            for image in each_image(&loader, convention, device)? {
                let CachedBatch { images, objects, .. } = image?;
                let maps = maps(&images.pixels)?;
                let half =
                    maps.iter().map(|map| Ok(ops::of_channels_last(&map.detach().to_dtype(DType::F16)?)?));
                cache.push(&half.collect::<Result<Vec<_>>>()?, &images.sizes, objects)?;
                progress.advance(cache.len(), "");
            }
        }
        progress.end();
        Ok(Self { cache, order })
    }

    /// The images of a step's batch, each by itself.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn images(&self, step: usize) -> Result<Vec<CachedBatch>> {
        let order = shuffled(self.count(), step, self.order.batch_size, self.order.key);
        let image = |place: usize| self.batch_of(&[self.mirrored(step, place, order[place])]);
        self.order.part.clone().map(image).collect()
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
            *map = ops::to_channels_last(map)?.to_dtype(DType::F32)?;
        }
        Ok(batch)
    }
}

impl BatchSource for MirroredMaps {
    /// Images of like shapes stand together, so that little of a batch is padding: of the images of several
    /// steps, each step has those that follow by their shape.
    fn batch(&mut self, step: usize) -> Result<CachedBatch> {
        const STEPS: usize = 8;
        let MapOrder { batch_size, part, key } = &self.order;
        let mut images = shuffled(self.count(), step / STEPS, STEPS * batch_size, *key);
        images.sort_by(|a, b| self.cache.aspect(*a).total_cmp(&self.cache.aspect(*b)));
        let batch = &images[(step % STEPS) * batch_size..][part.clone()];
        let positions = part.clone().zip(batch).map(|(place, image)| self.mirrored(step, place, *image));
        self.batch_of(&positions.collect::<Vec<_>>())
    }
}

/// The images of a loader that reads them one by one.
///
/// # Errors
/// When the loader's threads do not start; the items, when an image cannot be read.
pub fn each_image(
    loader: &Loader,
    convention: BoxConvention,
    device: &Device,
) -> Result<impl Iterator<Item = Result<CachedBatch>>> {
    let device = device.clone();
    let image = move |batch: ebm_data::Result<ebm_data::loader::Batch>| {
        CachedBatch::of_images(&batch?, convention, &device)
    };
    Ok(loader.epoch(0)?.map(image))
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
            let map = ops::of_channels_last(&map.to_dtype(DType::F16).unwrap()).unwrap();
            cache.push(&[map], &[(8 * height, 8 * width)], vec![Default::default()]).unwrap();
        }
        let order = MapOrder { batch_size: 2, part: 0..2, key: Key::new(1) };
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
