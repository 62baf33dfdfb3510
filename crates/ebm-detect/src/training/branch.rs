//! Training of what a method adds, on frozen features: a confidence by its objective, Eq. 4 for the energy
//! model, a density by its own likelihood.

use std::rc::Rc;

use candle_core::{Device, Tensor};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_data::loader::Loader;
use ebm_nn::{boxes::BBox, ops::sum_of_losses, params::ParamStore};
use ebm_seed::{Key, Rng};
use ebm_train::{GradientTask, Group, Learner, Loss};
use rand::seq::index;

use super::BranchSource;
use crate::{
    Error, Result,
    branch::Branch,
    config::{MethodConfig, TrainingConfig},
    energy_head::BoxFeatures,
    faster_rcnn::{FasterRcnn, Objects},
    feature_cache::CachedBatch,
    foreground::ForegroundPool,
};

/// A confidence is trained on so many objects of an image in a step. Where there are more, they are drawn
/// anew each time: a step's time grows with the samples of all its objects.
const OBJECTS_OF_AN_IMAGE: usize = 128;

/// The samples of so many objects are scored at a time: a step's memory grows with these.
const OBJECTS_AT_A_TIME: usize = 32;

/// A branch under its objective; the detector only provides features.
pub struct BranchTask {
    detector: Rc<FasterRcnn>,
    branch: Branch,
    source: BranchSource,
    /// The method's key, for messages.
    method: String,
    /// What a confidence is trained by.
    objective: Option<AnyObjective<Box<dyn Proposal>>>,
    learner: Learner,
    key: Key,
}

impl BranchTask {
    /// Trains `branch`, built from `store`, whose trainable parameters are the branch's alone.
    ///
    /// Batches with maps are taken to hold the pyramid P2 … P6.
    ///
    /// # Errors
    /// When the method's proposal is not possible.
    pub fn new(
        detector: Rc<FasterRcnn>,
        branch: Branch,
        store: ParamStore,
        source: BranchSource,
        method: &MethodConfig,
        training: &TrainingConfig,
        key: Key,
    ) -> Result<Self> {
        let objective =
            method.confidence.as_ref().map(|own| own.objective.build(&mut key.split("pool").rng()));
        let (objective, method) = (objective.transpose()?, method.key.clone());
        let updater = training.updater(store.trainable());
        let learner = Learner::new(store, updater);
        Ok(Self { detector, branch, learner, source, method, objective, key })
    }

    /// The same as one of the processes of `group`, on its share of each batch and with draws of its own.
    /// Every object counts alike (for a density every sampled proposal), however many a share has.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { learner: self.learner.over(group), key: group.key(self.key), ..self }
    }

    /// The mean loss of the branch as it is now on the images of `loader`, which are read one by one and
    /// whole, with samples drawn from `key`. Every object counts alike (for a density every sampled
    /// proposal). NaN where there is none.
    ///
    /// # Errors
    /// When an image cannot be read or an operation fails.
    pub fn validation_loss(&self, loader: &Loader, device: &Device, key: Key) -> Result<f64> {
        let convention = self.detector.config().convention.into();
        let batches = loader.epoch(0)?.map(|batch| CachedBatch::of_images(&batch?, convention, device));
        let sum = |losses: &mut dyn Iterator<Item = Result<Tensor>>| -> Result<Option<Tensor>> {
            losses.map(|loss| Ok(loss?.detach())).reduce(|sum, loss| Ok((sum? + loss?)?)).transpose()
        };
        mean_loss(batches, key, |batch, key| self.loss_of(batch, |name| key.split(name).rng(), sum))
    }

    /// The branch's parameters.
    pub fn store(&self) -> &ParamStore {
        self.learner.store()
    }

    /// The branch, trained so far.
    pub fn into_branch(self) -> (Branch, ParamStore) {
        (self.branch, self.learner.into_store())
    }

    /// The mean loss of a batch, and over how many terms; `sum` adds up those of parts of it.
    fn loss_of(
        &self,
        batch: &CachedBatch,
        rng: impl Fn(&str) -> Rng,
        sum: impl Fn(&mut dyn Iterator<Item = Result<Tensor>>) -> Result<Option<Tensor>>,
    ) -> Result<(Tensor, usize)> {
        let pyramid = match batch.maps.as_slice() {
            [] => self.detector.features(&batch.images.pixels, false)?,
            levels => levels.to_vec(),
        };
        match (&self.branch, &self.objective) {
            // The paper's training step: the true boxes y_i, their samples, and the objective.
            (Branch::Confidence(head), Some(objective)) => {
                let objects = listed(&drawn(&batch.objects, &mut rng("objects")));
                let (pyramid, mut rng) = (BoxFeatures::readable(&pyramid)?, rng("proposal"));
                let mut losses = objects.chunks(OBJECTS_AT_A_TIME).map(|some| {
                    let features = self.true_boxes(&pyramid, some)?;
                    let y = features.targets()?.squeeze(1)?;
                    let loss = objective.loss(head, &features, &y, &mut rng)?;
                    Ok((loss * (some.len() as f64 / objects.len() as f64))?)
                });
                let loss = sum(&mut losses)?;
                let loss = loss.ok_or_else(|| self.refuse("a step's images hold no object"))?;
                Ok((loss, objects.len()))
            }
            (Branch::Density(head), _) => {
                let pools = self.detector.foreground(&pyramid, &batch.images, &batch.objects)?;
                let pools: Vec<&ForegroundPool> = pools.iter().collect();
                let sample = ForegroundPool::sample(&pools, &mut rng("sample"))?;
                Ok((head.loss(&sample, &mut rng("latent"))?, sample.sample_size))
            }
            (Branch::Confidence(_), None) => {
                Err(self.refuse("a confidence is trained by an objective, which the method has not got"))
            }
        }
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::config(&self.method, reason)
    }

    fn true_boxes(&self, pyramid: &[Tensor], objects: &[Object]) -> Result<BoxFeatures> {
        let (images, labels) = objects.iter().map(|object| (object.image, object.class)).unzip();
        let boxes: Vec<BBox> = objects.iter().map(|object| object.bbox).collect();
        BoxFeatures::with_history(pyramid, images, labels, &boxes, self.detector.config().convention.into())
    }
}

/// An object of a batch.
struct Object {
    /// The number of its image.
    image: u32,
    class: u32,
    bbox: BBox,
}

/// The objects of all images, image after image.
fn listed(objects: &[Objects]) -> Vec<Object> {
    let of_image = |(image, Objects { boxes, classes }): (u32, &Objects)| -> Vec<Object> {
        let both = boxes.iter().zip(classes);
        both.map(|(&bbox, &class)| Object { image, class: class as u32, bbox }).collect()
    };
    (0u32..).zip(objects).flat_map(of_image).collect()
}

/// The mean over all terms of `loss`, which gives a batch's mean loss with how many terms it has, of those
/// batches that hold an object; batch i draws with `key.index(i)`. NaN where there is none.
pub(super) fn mean_loss(
    batches: impl Iterator<Item = Result<CachedBatch>>,
    key: Key,
    loss: impl Fn(&CachedBatch, Key) -> Result<(Tensor, usize)>,
) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for (number, batch) in (0u64..).zip(batches) {
        let batch = batch?;
        if batch.objects.iter().all(|of_image| of_image.boxes.is_empty()) {
            continue;
        }
        let (loss, terms) = loss(&batch, key.index(number))?;
        sum += terms as f64 * f64::from(loss.to_scalar::<f32>()?);
        count += terms;
    }
    Ok(sum / count as f64)
}

/// At most [`OBJECTS_OF_AN_IMAGE`] objects of each image, in their order; nothing is drawn where there are no
/// more.
fn drawn(objects: &[Objects], rng: &mut Rng) -> Vec<Objects> {
    let some = |of_image: &Objects| match of_image.boxes.len() {
        0..=OBJECTS_OF_AN_IMAGE => of_image.clone(),
        count => of_image.chosen(index::sample(rng, count, OBJECTS_OF_AN_IMAGE).into_vec()),
    };
    objects.iter().map(some).collect()
}

impl GradientTask for BranchTask {
    type Error = Error;

    fn loss(&mut self, step: usize) -> Result<Loss> {
        let key = self.key;
        let rng = |name: &str| key.split(name).index(step as u64).rng();
        let batch = match (&mut self.source, &self.branch) {
            (BranchSource::Images(source), _) => source.batch(step)?,
            (BranchSource::Foreground(source), Branch::Density(head)) => {
                let sample = source.sample(step, &mut rng("sample"))?;
                return Ok(Loss::mean_over(sample.sample_size, head.loss(&sample, &mut rng("latent"))?));
            }
            (BranchSource::Foreground(_), Branch::Confidence(_)) => {
                return Err(self.refuse("a confidence is trained on features, not on proposals"));
            }
        };
        let (loss, terms) = self.loss_of(&batch, rng, |losses| sum_of_losses(losses))?;
        Ok(Loss::mean_over(terms, loss))
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
    fn a_crowded_image_gives_a_bounded_part_of_its_objects() {
        let image = |count: usize| -> Objects {
            (0..count).map(|i| ([i as f32, 0.0, i as f32 + 2.0, 2.0], i)).collect()
        };
        let draw = |seed| drawn(&[image(5), image(10_000)], &mut Key::new(seed).rng());
        let objects = draw(1);
        assert_eq!(objects[0], image(5));
        let Objects { boxes, classes } = &objects[1];
        assert_eq!((boxes.len(), classes.len()), (OBJECTS_OF_AN_IMAGE, OBJECTS_OF_AN_IMAGE));
        assert!(classes.is_sorted_by(|a, b| a < b), "each once");
        assert!(boxes.iter().zip(classes).all(|(bbox, &class)| bbox[0] == class as f32));
        assert_eq!(objects, draw(1));
        assert_ne!(objects, draw(2));
    }
}
