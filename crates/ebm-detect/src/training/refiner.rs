//! Training of a refiner by any objective: pyramid and head, and optionally the last stages of the body. Images are
//! processed one by one, each padded as in prediction.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::{Key, Rng};
use ebm_core::{AnyObjective, GaussianMixture, Objective, Proposal};
use ebm_data::loader::Loader;
use ebm_eval::{Detection, detections::check_ids, read_results};
use ebm_experiment::{Built, Inputs, Measure, Opened, Session, Training};
use ebm_nn::params::ParamStore;
use ebm_ops::boxes::{BBox, BoxConvention};
use ebm_ops::sum_of_losses;
use ebm_train::model_file::file_digest;
use ebm_train::{GradientTask, Learner, Loss, ModelMetadata};
use rand::Rng as _;

use super::{BatchSource, Batches, StepLoss, Task, TrainingData, TrainingOptions, mean_loss};
use crate::body::is_of_body;
use crate::config::{ExperimentConfig, RefinerConfig, Settings};
use crate::energy_head::BoxFeatures;
use crate::evaluation::Annotated;
use crate::faster_rcnn::Objects;
use crate::feature_cache::CachedBatch;
use crate::refiner::{CalibrationOptions, RefinedResults, RefinerFit, RefinerNetwork, jittered};
use crate::weights::{REFINER, classes, model_metadata};
use crate::{Error, Result};

/// Number of samples per density of a calibration.
const SAMPLES: usize = 1024;

/// Loss of a refiner by its objective.
pub struct RefinerLoss {
    network: RefinerNetwork,
    objective: AnyObjective<Box<dyn Proposal>>,
    config: RefinerConfig,
}

/// Refiner in training.
pub type RefinerTask = Task<RefinerLoss>;

impl RefinerTask {
    /// Creates the training of the trainable parameters of `store`, which `network` was built from. If batches have
    /// maps, these must come from the frozen body.
    ///
    /// # Errors
    /// When the settings of the objective's proposal are invalid.
    pub fn new(
        network: RefinerNetwork,
        store: ParamStore,
        source: Box<dyn BatchSource>,
        config: &RefinerConfig,
        key: Key,
    ) -> Result<Self> {
        let objective = config.objective.build(&mut key.split("pool").rng())?;
        let rate = |name: &str| if is_of_body(name) { config.body_rate } else { 1.0 };
        let updater = config.training.updater_by(store.trainable(), rate);
        let loss = RefinerLoss { network, objective, config: config.clone() };
        Ok(Self { loss, learner: Learner::new(store, updater), source, key })
    }
}

impl RefinerLoss {
    /// Computes the mean loss of the network on the images of `loader`, which reads them one by one, with samples drawn
    /// from `key`. All objects have the same weight. Returns NaN if there are none.
    fn validation_loss(&self, loader: &Loader, device: &Device, key: Key) -> Result<f64> {
        let images = CachedBatch::each(loader, BoxConvention::HalfOpen, device)?;
        mean_loss(images, key, |image, key| self.loss_of(image, key))
    }

    /// Computes the mean loss of an image's objects, and returns it with their number.
    fn loss_of(&self, image: &CachedBatch, key: Key) -> Result<(Tensor, usize)> {
        let maps = match image.maps.as_slice() {
            [] => self.network.maps(&image.images.pixels)?,
            maps => maps.to_vec(),
        };
        let pyramid = self.network.pyramid(&maps)?;
        let mut rng = key.split("objects").rng();
        let (count, power) = (self.config.objects, self.config.size_power);
        let mut drawn = |of_image: &Objects| drawn(&self.large_enough(of_image), count, power, &mut rng);
        let objects: Vec<Objects> = image.objects.iter().map(&mut drawn).collect();
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

    /// Returns the objects of an image to train on: those above the least size, or else the largest.
    fn large_enough(&self, Objects { boxes, classes }: &Objects) -> Objects {
        let side = |[x0, y0, x1, y1]: BBox| (x1 - x0).min(y1 - y0);
        let largest = boxes.iter().copied().map(side).fold(0.0, f32::max);
        let least = self.config.min_object.min(largest);
        let kept = boxes.iter().copied().zip(classes.iter().copied());
        kept.filter(|(bbox, _)| side(*bbox) >= least).collect()
    }
}

/// Draws at most `count` of an image's objects without replacement, with √area to the `power` as weights (Efraimidis
/// and Spirakis, 2006). Returns them in their original order.
fn drawn(objects: &Objects, count: usize, power: f64, rng: &mut Rng) -> Objects {
    let key = |&[x0, y0, x1, y1]: &BBox| {
        let weight = f64::from((x1 - x0) * (y1 - y0)).sqrt().powf(power);
        rng.random::<f64>().ln() / weight
    };
    let mut keys: Vec<(f64, usize)> = objects.boxes.iter().map(key).zip(0..).collect();
    keys.sort_by(|a, b| b.0.total_cmp(&a.0));
    objects.chosen(keys.into_iter().take(count).map(|(_, place)| place).collect())
}

impl StepLoss for RefinerLoss {
    fn at(&self, step: usize, source: &mut dyn BatchSource, key: Key) -> Result<Loss> {
        let (images, mut terms) = (source.images(step)?, 0);
        let losses = (0u64..).zip(images).filter_map(|(number, image)| {
            if image.objects.iter().all(|of_image| of_image.boxes.is_empty()) {
                return None;
            }
            let loss = self.loss_of(&image, key.split("image").index(step as u64).index(number));
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
}

/// Training of a refiner of any detector's boxes, on annotated images.
#[derive(Clone, Debug)]
pub struct RefinerTraining {
    /// Settings of the network and its training.
    pub config: RefinerConfig,
    /// Path of weights of the body, or of a refiner of the same network to continue training from.
    pub body: PathBuf,
    /// A detector's boxes on the validation images, as a COCO result file. Step lengths are chosen, and intervals and
    /// scores calibrated by them. Without it, step lengths are chosen by perturbed annotated boxes.
    pub results: Option<PathBuf>,
    /// Whether to train a class-specific refiner for the classes of the images.
    pub per_class: bool,
    /// Factor of the configured step lengths; `None` to choose it, on held-out images if need be.
    pub step_factor: Option<f64>,
    /// Images, seed and file.
    pub options: TrainingOptions,
}

/// Settings, and a detector's boxes on the validation images.
pub struct RefinerSetup {
    config: RefinerConfig,
    results: Option<Vec<Detection>>,
}

impl RefinerTraining {
    /// Returns the boxes that step lengths are chosen by.
    fn boxes(&self, data: &RefinerSetup, held_out: &Annotated) -> Result<Vec<Detection>> {
        if let Some(results) = &data.results {
            return Ok(results.clone());
        }
        let usual = || GaussianMixture::isotropic(&[0.0375, 0.075, 0.15], 4);
        let mixture = data.config.objective.gaussian().map_or_else(usual, Ok)?;
        jittered(&held_out.dataset, &mixture, &mut Key::new(self.options.seed).split("jitter").rng())
    }
}

impl Training for RefinerTraining {
    type Error = Error;
    type Data = TrainingData<RefinerSetup>;
    type Network = RefinerTask;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = TrainingOptions::LENGTH;

    /// Returns the settings; with `per_class`, they are known only once the data are.
    fn settings(&self, data: Option<&Self::Data>) -> Result<Option<String>> {
        match data {
            Some(data) => data.config.config.to_toml().map(Some),
            None if self.per_class => Ok(None),
            None => self.config.to_toml().map(Some),
        }
    }

    fn open(&mut self, _: &mut Session<'_>) -> Result<Opened<Self::Data>> {
        let (mut config, options) = (self.config.clone(), &self.options);
        let mut images = options.images.train(None)?;
        let classes = classes(&images);
        if self.per_class {
            config.network.num_classes = classes.len() + 1;
        }
        let metadata =
            model_metadata(REFINER, ExperimentConfig::ENERGY, Some(options.seed), &config, &classes)?;
        let mut held_out = options.validation(classes.len())?;
        if held_out.is_none() && self.step_factor.is_none() {
            held_out = Annotated::split_off_fifth(&mut images, options.workers);
        }
        let results = match (&self.results, &held_out) {
            (Some(path), Some(held_out)) => {
                let found = read_results(path)?;
                check_ids(&found, &held_out.truth, &path.display().to_string())?;
                Some(found)
            }
            _ => None,
        };
        let inputs =
            Inputs::from([("data_sha256", images.digest()), ("weights_sha256", file_digest(&self.body)?)]);
        let config = RefinerSetup { config, results };
        let data = TrainingData { config, metadata, images: Some(Arc::new(images)), held_out };
        Ok(Opened { is_judged: data.held_out.is_some(), data, inputs })
    }

    fn build(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<Built<RefinerTask>> {
        let (images, options) = (data.images()?, &self.options);
        let (config, key) = (&data.config.config, Key::new(options.seed));
        let (network, store) =
            RefinerNetwork::with_body(config, &self.body, session.device, key.split("init"))?;
        if options.cache && config.trained_stages > 0 {
            let reason = "it needs a frozen body, and trained_stages is not 0: leave it out";
            return Err(Error::config("--cache", reason));
        }
        let batches = Batches {
            input: &config.input,
            convention: BoxConvention::HalfOpen,
            images,
            size: config.training.batch_size,
            key: key.split("data"),
            drop_last: false,
        };
        let source = options.source(batches, &|pixels| network.maps(pixels), session)?;
        let task = RefinerTask::new(network, store, source, config, key.split("train"))?;
        let network = task.over(session.group);
        Ok(Built { network, settings: config.to_toml()?, steps: config.training.steps })
    }

    fn score(&mut self, data: &mut Self::Data, task: &RefinerTask, session: &mut Session<'_>) -> Result<f64> {
        let config = &data.config.config;
        let loader = data.held_out()?.subset(config.validation_images).loader(&config.input)?;
        let key = Key::new(self.options.seed).split("validation");
        task.loss.validation_loss(&loader, session.device, key)
    }

    fn keep(&mut self, data: &Self::Data, network: &RefinerTask) -> Result<()> {
        let metadata = ModelMetadata { step_factor: self.step_factor, ..data.metadata.clone() };
        self.options.save(network.store(), &metadata)
    }

    fn finish(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<()> {
        let (Some(images), None) = (&data.held_out, self.step_factor) else { return Ok(()) };
        let detections = self.boxes(&data.config, images)?;
        // Perturbed boxes do not show the errors of a detector, so that they allow no calibration.
        let key = Key::new(self.options.seed).split("calibration");
        let samples = data.config.results.as_ref().map(|_| CalibrationOptions { samples: SAMPLES, key });
        let (file, metadata) = (&self.options.file, data.metadata.clone());
        let fit = RefinerFit { file, metadata, step_factor: None, samples, device: session.device.clone() };
        fit.write(&RefinedResults { images, detections: &detections }, file, session.progress)
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
