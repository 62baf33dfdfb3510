//! Training of branches on frozen features: a confidence by its objective (Eq. 4 for the energy model), a density by
//! its likelihood.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use ebm_base::{Key, Rng};
use ebm_core::{AnyObjective, Objective, Proposal};
use ebm_data::loader::Loader;
use ebm_experiment::{Built, Inputs, Measure, Opened, Session, Training};
use ebm_nn::params::ParamStore;
use ebm_ops::{boxes::BBox, sum_of_losses};
use ebm_train::{GradientTask, Learner, Loss, ModelMetadata};
use rand::seq::index;

use super::{BatchSource, Batches, CachedSource, StepLoss, Task, TrainingData, TrainingOptions, mean_loss};
use crate::branch::Branch;
use crate::config::{ExperimentConfig, MethodConfig, Settings, TrainingConfig};
use crate::energy_head::BoxFeatures;
use crate::evaluation::{Annotated, STEP_FACTORS};
use crate::faster_rcnn::{FasterRcnn, Objects};
use crate::feature_cache::{CachedBatch, FeatureCache};
use crate::parametric_head::ForegroundPool;
use crate::weights::{WeightFile, branch_metadata, classes};
use crate::{Error, Result};

/// Largest number of objects of an image that a confidence is trained on in a step. If there are more, a new sample is
/// drawn in each step: a step's time grows with the number of objects.
const OBJECTS_OF_AN_IMAGE: usize = 128;

/// Number of objects whose samples are scored at a time: a step's memory grows with it.
const OBJECTS_AT_A_TIME: usize = 32;

/// Loss of a branch; the frozen detector only provides features.
pub struct BranchLoss {
    detector: Rc<FasterRcnn>,
    branch: Branch,
    /// Key of the method, for messages.
    method: String,
    /// Objective of a confidence.
    objective: Option<AnyObjective<Box<dyn Proposal>>>,
}

/// Branch in training.
pub type BranchTask = Task<BranchLoss>;

impl BranchTask {
    /// Creates the training of `branch`, built from `store`, whose trainable parameters all belong to the branch.
    ///
    /// If batches have maps, these must be the pyramid P2 … P6.
    ///
    /// # Errors
    /// When the settings of the method's proposal are invalid.
    pub fn new(
        detector: Rc<FasterRcnn>,
        branch: Branch,
        store: ParamStore,
        source: Box<dyn BatchSource>,
        method: &MethodConfig,
        training: &TrainingConfig,
        key: Key,
    ) -> Result<Self> {
        let objective =
            method.confidence.as_ref().map(|own| own.objective.build(&mut key.split("pool").rng()));
        let (objective, method) = (objective.transpose()?, method.key.clone());
        let updater = training.updater(store.trainable());
        let loss = BranchLoss { detector, branch, method, objective };
        Ok(Self { loss, learner: Learner::new(store, updater), source, key })
    }

    /// Creates the training of new layers of `method` for the detector with the parameters `weights`, on `device`. All
    /// random numbers are derived from `key`.
    pub(crate) fn begin(
        detector: Rc<FasterRcnn>,
        weights: &BTreeMap<String, Tensor>,
        source: Box<dyn BatchSource>,
        method: &MethodConfig,
        training: &TrainingConfig,
        device: &Device,
        key: Key,
    ) -> Result<Self> {
        let (density, init) = (method.density.as_ref(), key.split("init"));
        let (branch, store) = Branch::new(density, detector.config(), weights, device, init)?;
        Self::new(detector, branch, store, source, method, training, key.split("train"))
    }
}

impl BranchLoss {
    /// Computes the mean loss of the branch on the images of `loader`, with samples drawn from `key`. All objects have
    /// the same weight (for a density, all sampled proposals). Returns NaN if there are none.
    fn validation_loss(&self, loader: &Loader, device: &Device, key: Key) -> Result<f64> {
        let convention = self.detector.config().convention;
        let sum = |losses: &mut dyn Iterator<Item = Result<Tensor>>| -> Result<Option<Tensor>> {
            losses.map(|loss| Ok(loss?.detach())).reduce(|sum, loss| Ok((sum? + loss?)?)).transpose()
        };
        let batches = CachedBatch::each(loader, convention, device)?;
        mean_loss(batches, key, |batch, key| {
            let rng = |name: &str| key.split(name).rng();
            match &self.branch {
                Branch::Confidence(_) => self.confidence_loss(batch, rng, sum),
                Branch::Density(_) => self.density_loss(&batch.foreground(&self.detector)?, rng),
            }
        })
    }

    /// Computes the mean loss of a confidence on a batch, and returns it with the number of objects; `sum` adds up the
    /// losses of groups of objects.
    fn confidence_loss(
        &self,
        batch: &CachedBatch,
        rng: impl Fn(&str) -> Rng,
        sum: impl Fn(&mut dyn Iterator<Item = Result<Tensor>>) -> Result<Option<Tensor>>,
    ) -> Result<(Tensor, usize)> {
        let (Branch::Confidence(head), Some(objective)) = (&self.branch, &self.objective) else {
            return Err(self.refuse("a confidence is trained by an objective; give the method one"));
        };
        // The paper's training step: the true boxes y_i, their samples, and the objective.
        let objects = listed(&drawn(&batch.objects, &mut rng("objects")));
        let pyramid = BoxFeatures::readable(&batch.pyramid(&self.detector)?)?;
        let mut rng = rng("proposal");
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

    /// Computes the mean loss of a density on a sample of the proposals, and returns it with the sample's size.
    fn density_loss(
        &self,
        pools: &[Rc<ForegroundPool>],
        rng: impl Fn(&str) -> Rng,
    ) -> Result<(Tensor, usize)> {
        let Branch::Density(head) = &self.branch else {
            return Err(self.refuse("a confidence is trained on features, not on proposals"));
        };
        let sample = ForegroundPool::sample(pools, &mut rng("sample"))?;
        Ok((head.loss(&sample, &mut rng("latent"))?, sample.sample_size))
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::config(&self.method, reason)
    }

    fn true_boxes(&self, pyramid: &[Tensor], objects: &[Object]) -> Result<BoxFeatures> {
        let (images, labels) = objects.iter().map(|object| (object.image, object.class)).unzip();
        let boxes: Vec<BBox> = objects.iter().map(|object| object.bbox).collect();
        BoxFeatures::with_history(pyramid, images, labels, &boxes, self.detector.config().convention)
    }
}

/// Object of a batch.
struct Object {
    /// Index of its image.
    image: u32,
    class: u32,
    bbox: BBox,
}

/// Returns the objects of all images, image by image.
fn listed(objects: &[Objects]) -> Vec<Object> {
    let of_image = |(image, Objects { boxes, classes }): (u32, &Objects)| -> Vec<Object> {
        let both = boxes.iter().zip(classes);
        both.map(|(&bbox, &class)| Object { image, class: class as u32, bbox }).collect()
    };
    (0u32..).zip(objects).flat_map(of_image).collect()
}

/// Draws at most [`OBJECTS_OF_AN_IMAGE`] objects of each image, in their order. Images with fewer objects use no random
/// numbers.
fn drawn(objects: &[Objects], rng: &mut Rng) -> Vec<Objects> {
    let some = |of_image: &Objects| match of_image.boxes.len() {
        0..=OBJECTS_OF_AN_IMAGE => of_image.clone(),
        count => of_image.chosen(index::sample(rng, count, OBJECTS_OF_AN_IMAGE).into_vec()),
    };
    objects.iter().map(some).collect()
}

impl StepLoss for BranchLoss {
    fn at(&self, step: usize, source: &mut dyn BatchSource, key: Key) -> Result<Loss> {
        let rng = |name: &str| key.split(name).index(step as u64).rng();
        let (loss, terms) = match &self.branch {
            Branch::Confidence(_) => {
                self.confidence_loss(&source.batch(step)?, rng, |losses| sum_of_losses(losses))?
            }
            Branch::Density(_) => self.density_loss(&source.foreground(step, &self.detector)?, rng)?,
        };
        Ok(Loss::mean_over(terms, loss))
    }
}

/// Training of a method's branch for a trained detector, on annotated images.
#[derive(Clone, Debug)]
pub struct BranchTraining {
    /// Settings of the detector and the methods.
    pub config: ExperimentConfig,
    /// Key of the method.
    pub method: String,
    /// Path of the detector's weights.
    pub detector: PathBuf,
    /// Factor of a confidence's configured step lengths; `None` to choose it, on held-out images if need be.
    pub step_factor: Option<f64>,
    /// Images, seed and file.
    pub options: TrainingOptions,
}

/// Detector, and settings of its branch.
pub struct BranchSetup {
    method: MethodConfig,
    training: TrainingConfig,
    detector: Rc<FasterRcnn>,
    weights: WeightFile,
}

impl Training for BranchTraining {
    type Error = Error;
    type Data = TrainingData<BranchSetup>;
    type Network = BranchTask;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = TrainingOptions::LENGTH;

    fn settings(&self, _: Option<&Self::Data>) -> Result<Option<String>> {
        self.config.to_toml().map(Some)
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<Opened<Self::Data>> {
        let (config, options) = (&self.config, &self.options);
        let method = config.method(&self.method)?.clone();
        let nothing =
            || Error::config(&self.method, "it adds nothing that could be trained; name another method");
        let training = config.training(&method).ok_or_else(nothing)?;
        let weights = WeightFile::open(&self.detector, session.device)?;
        let detector = Rc::new(weights.detector(&config.detector)?);
        let labels = config.detector.labels();
        let mut images = options.images.train(Some(labels))?;
        let classes = classes(&images);
        if let Some(said) = &weights.metadata {
            said.check_classes(&self.detector, &options.images.name(), &classes)?;
        }
        let metadata = branch_metadata(&method, options.seed, config, &weights.digest()?, &classes)?;
        let mut held_out = options.validation(labels)?;
        // Step lengths are chosen on images that are not trained on.
        if held_out.is_none() && method.confidence.is_some() && self.step_factor.is_none() {
            held_out = Annotated::split_off_fifth(&mut images, options.workers);
        }
        let inputs = Inputs::from([("data_sha256", images.digest()), ("weights_sha256", weights.digest()?)]);
        let config = BranchSetup { method, training, detector, weights };
        let data = TrainingData { config, metadata, images: Some(Arc::new(images)), held_out };
        Ok(Opened { is_judged: data.held_out.is_some(), data, inputs })
    }

    fn build(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<Built<BranchTask>> {
        let (images, options) = (data.images()?, &self.options);
        let BranchSetup { method, training, detector, weights } = &data.config;
        // `ebm reproduce detection` uses the same keys, so that both train the same branch.
        let key = Key::new(options.seed).split(&method.key);
        let (size, data) = (training.batch_size, key.split("data"));
        let batches = Batches::of(&self.config.detector, images, size, data);
        let source: Box<dyn BatchSource> = if options.cache {
            let maps = |pixels: &Tensor| detector.features(pixels, false);
            let features = options.features(&batches, FeatureCache::BATCH_SIZE, &maps, session)?;
            Box::new(CachedSource::new(features, batches.order(session)?)?)
        } else {
            options.stream(batches, session)?
        };
        let (detector, weights, device) = (Rc::clone(detector), &weights.tensors, session.device);
        let task = BranchTask::begin(detector, weights, source, method, training, device, key)?;
        let (network, settings) = (task.over(session.group), self.config.to_toml()?);
        Ok(Built { network, settings, steps: training.steps })
    }

    fn score(&mut self, data: &mut Self::Data, task: &BranchTask, session: &mut Session<'_>) -> Result<f64> {
        let loader = data.held_out()?.loader(&self.config.detector.input)?;
        let key = Key::new(self.options.seed).split("validation");
        task.loss.validation_loss(&loader, session.device, key)
    }

    fn keep(&mut self, data: &Self::Data, network: &BranchTask) -> Result<()> {
        let step_factor = self.step_factor.filter(|_| data.config.method.confidence.is_some());
        let metadata = ModelMetadata { step_factor, ..data.metadata.clone() };
        self.options.save(network.store(), &metadata)
    }

    /// Chooses the best factor of the step lengths, among the configured ones, or the usual ones if the configuration
    /// has no choice.
    fn finish(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<()> {
        let (Some(held_out), None) = (&data.held_out, self.step_factor) else { return Ok(()) };
        let BranchSetup { method, detector, .. } = &data.config;
        let file = WeightFile::open(&self.options.file, session.device)?;
        let branch = Branch::load(method.density.as_ref(), &self.config.detector, &file)?;
        let (Branch::Confidence(head), Some(ascent)) = (branch, method.ascent()) else { return Ok(()) };
        let configured = &self.config.step_factors[..];
        let factors = if configured.len() > 1 { configured } else { &STEP_FACTORS };
        let (device, name) = (session.device, &held_out.name);
        let (factor, ap) =
            held_out.best_step_factor(detector, &head, &ascent, factors, device, session.progress)?;
        session.progress.message(&format!("step lengths × {factor}: AP {:.1} on {name}", 100.0 * ap));
        let metadata = ModelMetadata { step_factor: Some(factor), ..data.metadata.clone() };
        Ok(metadata.save(&self.options.file, &file.tensors)?)
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
