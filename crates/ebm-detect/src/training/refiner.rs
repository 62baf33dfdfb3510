//! Training of a refiner: pyramid and head, and perhaps the end of the body, by any objective. Images are
//! seen one by one, each padded as it is in prediction.

use candle_core::{DType, Device, Tensor};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_data::transform::padded_size;
use ebm_nn::{
    boxes::{BBox, BoxConvention},
    ops::sum_of_losses,
    params::ParamStore,
};
use ebm_seed::{Key, Rng};
use ebm_train::{GradientTask, Group, Learner, Loss};
use rand::Rng as _;

use super::{BatchSource, MirroredMaps, branch::mean_loss};
use crate::{
    Error, Result,
    body::is_of_body,
    config::RefinerConfig,
    energy_head::BoxFeatures,
    faster_rcnn::{ImageBatch, Objects},
    feature_cache::CachedBatch,
    refiner::RefinerNetwork,
};

/// Where a refiner's batches come from.
pub enum RefinerSource {
    /// Images from the loader, half of them mirrored as it is told to.
    Images(Box<dyn BatchSource>),
    /// What a frozen body made of them before.
    Maps(MirroredMaps),
}

impl RefinerSource {
    /// The images of a step's batch, each by itself.
    fn images(&mut self, step: usize) -> Result<Vec<CachedBatch>> {
        match self {
            Self::Images(source) => singly(&source.batch(step)?),
            Self::Maps(maps) => maps.images(step),
        }
    }
}

/// The images of a batch, each without the padding that the others needed.
fn singly(batch: &CachedBatch) -> Result<Vec<CachedBatch>> {
    let image = |(i, (&size, objects)): (usize, (&(usize, usize), &Objects))| {
        let (height, width) = padded_size([size]);
        let pixels = batch.images.pixels.narrow(0, i, 1)?.narrow(2, 0, height)?.narrow(3, 0, width)?;
        let images = ImageBatch { pixels: pixels.contiguous()?, sizes: vec![size] };
        Ok(CachedBatch { maps: vec![], images, objects: vec![objects.clone()] })
    };
    batch.images.sizes.iter().zip(&batch.objects).enumerate().map(image).collect()
}

/// A refiner under its objective.
pub struct RefinerTask {
    network: RefinerNetwork,
    source: RefinerSource,
    objective: AnyObjective<Box<dyn Proposal>>,
    config: RefinerConfig,
    learner: Learner,
    key: Key,
}

impl RefinerTask {
    /// Trains the trainable parameters of `store`, which `network` was built from.
    ///
    /// # Errors
    /// When the objective's proposal is not possible, or maps were kept of a body that is trained.
    pub fn new(
        network: RefinerNetwork,
        store: ParamStore,
        source: RefinerSource,
        config: &RefinerConfig,
        key: Key,
    ) -> Result<Self> {
        if matches!(source, RefinerSource::Maps(_)) && config.trained_stages > 0 {
            let reason = "maps can be kept of a frozen body alone; train without them";
            return Err(Error::config("trained_stages", reason));
        }
        let objective = config.objective.build(&mut key.split("pool").rng())?;
        let rate = |name: &str| if is_of_body(name) { config.body_rate } else { 1.0 };
        let updater = config.training.updater_by(store.trainable(), rate);
        let learner = Learner::new(store, updater);
        Ok(Self { network, source, objective, config: config.clone(), learner, key })
    }

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own.
    /// Every object counts alike, however many a share has.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// The mean loss of the network as it is now on `images`, one in each batch, with samples drawn from
    /// `key`. Every object counts alike. NaN where there is none.
    ///
    /// # Errors
    /// When an image cannot be read or an operation fails.
    pub fn validation_loss(
        &self,
        images: impl Iterator<Item = Result<CachedBatch>>,
        key: Key,
    ) -> Result<f64> {
        mean_loss(images, key, |image, key| self.loss_of(image, key))
    }

    /// The network's parameters.
    pub fn store(&self) -> &ParamStore {
        self.learner.store()
    }

    /// The mean loss of an image's objects, and how many there are.
    fn loss_of(&self, image: &CachedBatch, key: Key) -> Result<(Tensor, usize)> {
        let maps = match image.maps.as_slice() {
            [] => self.network.maps(&image.images.pixels)?,
            maps => maps.to_vec(),
        };
        let pyramid = self.network.pyramid(&maps)?;
        let large = self.large_enough(&image.objects);
        let mut rng = key.split("objects").rng();
        let (count, power) = (self.config.objects, self.config.size_power);
        let objects: Vec<Objects> =
            large.iter().map(|of_image| drawn(of_image, count, power, &mut rng)).collect();
        let boxes: Vec<BBox> = objects.iter().flat_map(|of_image| &of_image.boxes).copied().collect();
        let agnostic = self.config.network.is_class_agnostic();
        let classes = objects.iter().flat_map(|of_image| &of_image.classes);
        let labels = classes.map(|&class| if agnostic { 0 } else { class as u32 }).collect();
        let images = vec![0; boxes.len()];
        let features = BoxFeatures::with_history(&pyramid, images, labels, &boxes, BoxConvention::HalfOpen)?;
        let y = features.targets()?.squeeze(1)?;
        let loss =
            self.objective.loss(self.network.head(), &features, &y, &mut key.split("proposal").rng())?;
        Ok((loss, boxes.len()))
    }

    /// The objects that are trained on: those of some size, or else the largest.
    fn large_enough(&self, objects: &[Objects]) -> Vec<Objects> {
        let side = |[x0, y0, x1, y1]: BBox| (x1 - x0).min(y1 - y0);
        let of_image = |Objects { boxes, classes }: &Objects| -> Objects {
            let largest = boxes.iter().copied().map(side).fold(0.0, f32::max);
            let least = self.config.min_object.min(largest);
            let kept = boxes.iter().copied().zip(classes.iter().copied());
            kept.filter(|(bbox, _)| side(*bbox) >= least).collect()
        };
        objects.iter().map(of_image).collect()
    }
}

/// At most `count` of an image's objects in their order, drawn one after the other with weights that are the
/// root of their area to the `power` (Efraimidis and Spirakis, 2006).
fn drawn(objects: &Objects, count: usize, power: f64, rng: &mut Rng) -> Objects {
    let key = |&[x0, y0, x1, y1]: &BBox| {
        let weight = f64::from((x1 - x0) * (y1 - y0)).sqrt().powf(power);
        rng.random::<f64>().ln() / weight
    };
    let mut keys: Vec<(f64, usize)> = objects.boxes.iter().map(key).zip(0..).collect();
    keys.sort_by(|a, b| b.0.total_cmp(&a.0));
    objects.chosen(keys.into_iter().take(count).map(|(_, place)| place).collect())
}

impl GradientTask for RefinerTask {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let (images, mut terms) = (self.source.images(step)?, 0);
        let losses = (0u64..).zip(images).filter_map(|(number, image)| {
            if image.objects.iter().all(|of_image| of_image.boxes.is_empty()) {
                return None;
            }
            let loss = self.loss_of(&image, self.key.split("image").index(step as u64).index(number));
            Some(loss.and_then(|(loss, count)| {
                terms += count;
                Ok((loss * count as f64)?)
            }))
        });
        let mean = match sum_of_losses(losses)? {
            Some(sum) => (sum / terms as f64)?,
            None => Tensor::zeros((), DType::F32, &Device::Cpu)?,
        };
        Ok(Loss::mean_over(terms, mean))
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_are_drawn_more_often() {
        let boxes: Vec<BBox> = [1f32, 2.0, 3.0, 4.0].map(|side| [0.0, 0.0, side, side]).to_vec();
        let image = Objects { boxes, classes: vec![1, 2, 3, 4] };
        let mut rng = Key::new(1).rng();
        assert_eq!(drawn(&image, 9, 1.0, &mut rng), image);
        const DRAWS: usize = 20_000;
        for power in [0.0, 1.0, 2.0] {
            let mut counts = [0; 4];
            for _ in 0..DRAWS {
                let Objects { classes, .. } = drawn(&image, 1, power, &mut rng);
                counts[classes[0] - 1] += 1;
            }
            let weights = [1.0, 2.0, 3.0, 4.0].map(|side: f64| side.powf(power));
            for (count, weight) in counts.into_iter().zip(weights) {
                let expected = weight / weights.iter().sum::<f64>();
                assert!((count as f64 / DRAWS as f64 - expected).abs() < 0.015, "{power} {counts:?}");
            }
        }
        let Objects { boxes: two, classes } = drawn(&image, 2, 1.0, &mut rng);
        assert!(two.len() == 2 && classes[0] < classes[1]);
    }
}
