//! Training of Faster-RCNN.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::DType;
use ebm_base::Key;
use ebm_data::coco::CocoDataset;
use ebm_experiment::{Built, Inputs, Measure, Opened, Session, Training};
use ebm_nn::params::ParamStore;
use ebm_train::model_file::file_digest;
use ebm_train::{GradientTask, Learner, Loss};

use super::{BatchSource, Batches, StepLoss, Task, TrainingData, TrainingOptions};
use crate::config::{ExperimentConfig, Settings, TrainingConfig};
use crate::faster_rcnn::FasterRcnn;
use crate::weights::{Body, classes, detector_metadata};
use crate::{Error, Result};

/// Loss of Faster-RCNN, with four parts.
pub struct DetectorLoss(FasterRcnn);

/// Faster-RCNN in training.
pub type DetectorTask = Task<DetectorLoss>;

impl DetectorTask {
    /// Creates the training of the trainable parameters of `store`, which `detector` was built from.
    ///
    /// If batches have maps, these must be the stages C2 … C5 of a frozen body.
    pub fn new(
        detector: FasterRcnn,
        store: ParamStore,
        source: Box<dyn BatchSource>,
        config: &TrainingConfig,
        key: Key,
    ) -> Self {
        let updater = config.updater(store.trainable());
        Self { loss: DetectorLoss(detector), learner: Learner::new(store, updater), source, key }
    }
}

impl StepLoss for DetectorLoss {
    fn at(&self, step: usize, source: &mut dyn BatchSource, key: Key) -> Result<Loss> {
        let batch = source.batch(step)?;
        let pyramid = match batch.maps.as_slice() {
            [] => self.0.features(&batch.images.pixels, true)?,
            stages => self.0.pyramid(stages)?,
        };
        let mut rng = key.split("sample").index(step as u64).rng();
        self.0.losses(&pyramid, &batch.images, &batch.objects, &mut rng)
    }
}

/// Training of a detector on annotated images, with a trained body or a frozen one with given weights.
#[derive(Clone, Debug)]
pub struct DetectorTraining {
    /// Settings of the network and its training.
    pub config: ExperimentConfig,
    /// Whether the number of classes comes from the images, not from the configuration.
    pub own_classes: bool,
    /// Path of weights of the body, which is frozen then; `None` to train the body too.
    pub body: Option<PathBuf>,
    /// Whether `body` may lack parameters, which are drawn and trained; otherwise it must have all of them.
    pub partial_body: bool,
    /// Images, seed and file.
    pub options: TrainingOptions,
}

impl DetectorTraining {
    /// Creates the task of training the network of `config` on `images`, with all random numbers derived from `key`.
    /// With `drop_last`, an incomplete last batch of an epoch is left out.
    pub(crate) fn task(
        &self,
        config: &ExperimentConfig,
        images: Arc<CocoDataset>,
        key: Key,
        drop_last: bool,
        session: &mut Session<'_>,
    ) -> Result<DetectorTask> {
        let store = ParamStore::new(key.split("init"));
        let detector = match &self.body {
            None => {
                config.detector.backbone.check_trained()?;
                FasterRcnn::new(&config.detector, store.var_builder(DType::F32, session.device))?
            }
            Some(path) => {
                let body = Body { path, partial: self.partial_body };
                let (detector, drawn) = body.detector(&config.detector, &store, session.device)?;
                if !drawn.is_empty() {
                    let text = format!("not in {}, drawn and trained: {}", path.display(), drawn.join(", "));
                    session.progress.message(&text);
                }
                detector
            }
        };
        let batches = Batches::of(&config.detector, images, config.base.batch_size, key.split("data"));
        let batches = Batches { drop_last, ..batches };
        let source = self.options.source(batches, &|pixels| detector.body(pixels, false), session)?;
        Ok(DetectorTask::new(detector, store, source, &config.base, key.split("train")))
    }
}

impl Training for DetectorTraining {
    type Error = Error;
    type Data = TrainingData<ExperimentConfig>;
    type Network = DetectorTask;

    const MEASURE: Measure = Measure::AP;
    const LENGTH: &'static [&'static str] = TrainingOptions::LENGTH;

    /// Returns the settings; with `own_classes`, they are known only once the data are.
    fn settings(&self, data: Option<&Self::Data>) -> Result<Option<String>> {
        match data {
            Some(data) => data.config.to_toml().map(Some),
            None if self.own_classes => Ok(None),
            None => self.config.to_toml().map(Some),
        }
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<Opened<Self::Data>> {
        let (mut config, options) = (self.config.clone(), &self.options);
        if self.body.is_none() {
            if options.cache {
                let reason = "the output of a frozen body is kept: give its weights with --body";
                return Err(Error::config("--cache", reason));
            }
            config.detector.backbone.check_trained()?;
        }
        let images = options.images.train((!self.own_classes).then(|| config.detector.labels()))?;
        let classes = classes(&images);
        if self.own_classes {
            config.detector.num_classes = classes.len() + 1;
        }
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        let (count, known) = (images.images.len(), names.len());
        session.progress.message(&format!("{count} images, {known} classes: {}", names.join(", ")));
        let held_out = options.validation(config.detector.labels())?;
        let metadata = detector_metadata(&config, Some(options.seed), &classes)?;
        let mut inputs = Inputs::from([("data_sha256", images.digest())]);
        if let Some(body) = &self.body {
            inputs.insert("weights_sha256", file_digest(body)?);
        }
        let data = TrainingData { config, metadata, images: Some(Arc::new(images)), held_out };
        Ok(Opened { is_judged: data.held_out.is_some(), data, inputs })
    }

    fn build(&mut self, data: &mut Self::Data, session: &mut Session<'_>) -> Result<Built<DetectorTask>> {
        let (images, config) = (data.images()?, &data.config);
        let task = self.task(config, images, Key::new(self.options.seed), false, session)?;
        let network = task.over(session.group);
        Ok(Built { network, settings: config.to_toml()?, steps: config.base.steps })
    }

    fn score(
        &mut self,
        data: &mut Self::Data,
        task: &DetectorTask,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let parameters = task.store().constants()?;
        let vb = parameters.var_builder(DType::F32, session.device);
        let (detector, held_out) = (FasterRcnn::new(&data.config.detector, vb)?, data.held_out()?);
        let found = held_out.evaluate(&detector, &[], session.device, session.progress)?;
        Ok(held_out.score(&found.direct.detections)?.ap)
    }

    fn keep(&mut self, data: &Self::Data, network: &DetectorTask) -> Result<()> {
        self.options.save(network.store(), &data.metadata)
    }

    fn finish(&mut self, _: &mut Self::Data, _: &mut Session<'_>) -> Result<()> {
        Ok(())
    }
}
