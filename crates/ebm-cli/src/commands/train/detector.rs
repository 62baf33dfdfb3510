//! `ebm train detector`, and what training a branch has in common with it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use candle_core::{DType, Tensor};
use clap::Args;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_detect::config::{ExperimentConfig, InputConfig, Settings};
use ebm_detect::training::{BatchSource, DetectorTask, MapOrder, MirroredMaps, StreamSource};
use ebm_detect::weights::{Body, classes, configuration, detector_metadata, save};
use ebm_detect::{FasterRcnn, FeatureCache, ImageBatch};
use ebm_experiment::config::check_ranges;
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_nn::boxes::BoxConvention;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::ModelMetadata;
use ebm_train::model_file::file_digest;

use super::TrainArgs;
use super::held_out::{HeldOut, ValidationArgs};
use super::images::DataArgs;
use super::run::RunArgs;
use crate::exit;
use crate::workers::WorkersArgs;

/// Data and length of a training on annotated images.
#[derive(Args)]
pub struct CommonArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub validation: ValidationArgs,
    /// Updates, in place of the configuration's, at least 1; milestones move in proportion.
    #[arg(long, value_parser = at_least_one)]
    pub steps: Option<usize>,
    /// Images per update, in place of the configuration's; several processes share them equally.
    #[arg(long, value_parser = at_least_one)]
    pub batch_size: Option<usize>,
    /// Compute the frozen layers once per image and keep the result in memory: of the mirrored images too
    /// where they are a body's; for a branch no image is mirrored then.
    #[arg(long)]
    pub cache: bool,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub workers: WorkersArgs,
}

/// A number of things of which there must be one, and not 2³² either.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<u32>() {
        Ok(0) => Err("with 0 nothing is trained; give 1 or more".into()),
        Ok(count) => Ok(count as usize),
        Err(error) => Err(format!("not a number of things: {error}")),
    }
}

impl CommonArgs {
    /// What says how long a training is.
    pub const LENGTH: &'static [&'static str] = &["steps", "milestones", "warmup_steps"];

    /// The configuration that is given, or else that of the detector's file, or else mini, with the changes
    /// of the command line.
    pub fn config(&self, detector: Option<&Path>) -> Result<ExperimentConfig> {
        let mut config: ExperimentConfig = match (&self.run.config, detector) {
            (None, Some(detector)) => {
                let own = configuration(detector)?.to_toml()?;
                self.run.settings.parse(&detector.display().to_string(), &own)?.settings
            }
            _ => self.run.settings("mini")?,
        };
        config.detector.backbone.maps = self.run.device.precision().into();
        for training in config.trainings_mut() {
            if let Some(steps) = self.steps {
                training.set_steps(steps);
            }
            training.batch_size = self.batch_size.unwrap_or(training.batch_size);
        }
        check_ranges("of the command line", &config)?;
        Ok(config)
    }

    /// The seed's key.
    pub fn key(&self) -> Key {
        Key::new(self.run.seed)
    }

    /// This process's share of the `batches`, with images from the loader.
    pub fn stream(
        &self,
        batches: LoaderConfig,
        convention: BoxConvention,
        dataset: Arc<CocoDataset>,
        key: Key,
        Session { group, device, .. }: &Session<'_>,
    ) -> Result<StreamSource> {
        let part = group.share_of(batches.batch_size)?;
        let whole = LoaderConfig { tolerance: self.data.tolerance_of_images(), ..batches };
        let loader = if group.world() > 1 { whole.part(part) } else { whole };
        let loader = Loader::new(dataset, loader.with_workers(self.workers.count()), key)?;
        Ok(StreamSource::new(loader, (*device).clone(), convention))
    }

    /// What `maps`, a frozen body, makes of every image and of its mirror image, computed once, in this
    /// process's share of the batches.
    pub fn mirrored_maps(
        &self,
        input: &InputConfig,
        convention: BoxConvention,
        dataset: &Arc<CocoDataset>,
        maps: &dyn Fn(&Tensor) -> ebm_detect::Result<Vec<Tensor>>,
        order: MapOrder,
        Session { device, progress, .. }: &mut Session<'_>,
    ) -> Result<MirroredMaps> {
        let loader = LoaderConfig::eval(input.transform(), 1).with_workers(self.workers.count());
        let loader = LoaderConfig { tolerance: self.data.tolerance_of_images(), ..loader };
        Ok(MirroredMaps::compute(dataset, &loader, convention, maps, order, device, *progress)?)
    }

    /// What `maps` makes of every image, computed once.
    pub fn features(
        &self,
        config: &ExperimentConfig,
        dataset: Arc<CocoDataset>,
        maps: &dyn Fn(&ImageBatch) -> ebm_detect::Result<Vec<Tensor>>,
        Session { device, progress, .. }: &mut Session<'_>,
    ) -> Result<Rc<FeatureCache>> {
        let all = dataset.images.len();
        let loader = LoaderConfig::eval(config.detector.input.transform(), FeatureCache::AT_ONCE);
        let loader = LoaderConfig { tolerance: self.data.tolerance_of_images(), ..loader };
        let loader = Loader::new(dataset, loader.with_workers(self.workers.count()), Key::new(0))?;
        let convention = config.detector.convention.into();
        let stage = "features of the frozen layers";
        Ok(Rc::new(FeatureCache::compute(&loader, convention, device, maps, stage, all, *progress)?))
    }

    /// Writes the parameters of `store` to `path` with what they say of themselves.
    pub fn save(path: &Path, store: &ParamStore, metadata: &ModelMetadata) -> Result<()> {
        save(store, path, metadata).map_err(|error| no_space(error.into(), path))
    }
}

/// What to do where the disk is full; other errors speak for themselves.
fn no_space(error: Error, path: &Path) -> Error {
    if !exit::is_of_resources(&error) {
        return error;
    }
    error.context(format!(
        "no space for {}; free some and go on with --resume: the checkpoints are whole",
        path.display()
    ))
}

/// Arguments of `ebm train detector`.
#[derive(Args)]
pub struct DetectorArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Weights of the body (a ResNet by torchvision's names, or EfficientNet-Lite0 as published, which the
    /// configuration says); it is frozen then.
    #[arg(long)]
    body: Option<PathBuf>,
    /// Take what --body has of the body, and draw and train the rest; else every name must be there.
    #[arg(long, requires = "body", conflicts_with = "cache")]
    partial_body: bool,
}

/// What a detector is trained on and judged by.
pub struct DetectorData {
    config: ExperimentConfig,
    metadata: ModelMetadata,
    /// Until the network has it.
    images: Option<Arc<CocoDataset>>,
    held_out: Option<HeldOut>,
    inputs: Inputs,
}

impl TrainArgs for DetectorArgs {
    fn run(&self) -> &RunArgs {
        &self.common.run
    }

    fn result(&self) -> Result<PathBuf> {
        Ok(self.common.run.run.join("detector.safetensors"))
    }
}

impl Training for DetectorArgs {
    type Error = Error;
    type Data = DetectorData;
    type Network = DetectorTask<Box<dyn BatchSource>>;

    const MEASURE: Measure = Measure::AP;
    const LENGTH: &'static [&'static str] = CommonArgs::LENGTH;

    /// The data tell the number of classes, unless a configuration does.
    fn settings(&self, data: Option<&DetectorData>) -> Result<Option<String>> {
        Ok(match data {
            Some(data) => Some(data.config.to_toml()?),
            None if self.common.run.config.is_some() => Some(self.common.config(None)?.to_toml()?),
            None => None,
        })
    }

    fn inputs(&self, data: &DetectorData) -> Result<Inputs> {
        Ok(data.inputs.clone())
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<DetectorData> {
        let common = &self.common;
        if common.cache && self.body.is_none() {
            bail!("--cache keeps the output of a frozen body: give its weights with --body");
        }
        let mut config = common.config(None)?;
        if self.body.is_none() {
            config.detector.backbone.check_trained()?;
        }
        let labels = common.run.config.as_ref().map(|_| config.detector.labels());
        let images = Arc::new(common.data.train(labels)?);
        let classes = classes(&images);
        if labels.is_none() {
            config.detector.num_classes = classes.len() + 1;
        }
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        session.progress.message(&format!(
            "{} images, {} classes: {}",
            images.images.len(),
            names.len(),
            names.join(", ")
        ));
        let held_out = common.validation.given(config.detector.labels(), &common.data)?;
        let metadata = detector_metadata(&config, Some(common.run.seed), &classes)?;
        let mut inputs = Inputs::from([("data_sha256", images.digest())]);
        if let Some(body) = &self.body {
            inputs.insert("weights_sha256", file_digest(body)?);
        }
        Ok(DetectorData { config, metadata, images: Some(images), held_out, inputs })
    }

    fn build(&mut self, data: &mut DetectorData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let (common, config) = (&self.common, &data.config);
        let images = data.images.take().context("the images are trained on once")?;
        let key = common.key();
        let store = ParamStore::new(key.split("init"));
        let detector = match &self.body {
            None => FasterRcnn::new(&config.detector, store.var_builder(DType::F32, session.device))?,
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
        let (batch_size, batches) = (config.base.batch_size, key.split("data"));
        let convention = config.detector.convention.into();
        let source: Box<dyn BatchSource> = if common.cache {
            let maps = |pixels: &Tensor| detector.body(pixels, false);
            let order = MapOrder { batch_size, part: session.group.share_of(batch_size)?, key: batches };
            let input = &config.detector.input;
            Box::new(common.mirrored_maps(input, convention, &images, &maps, order, session)?)
        } else {
            let loader = LoaderConfig::train(config.detector.input.transform(), batch_size);
            Box::new(common.stream(loader, convention, images, batches, session)?)
        };
        let task = DetectorTask::new(detector, store, source, &config.base, key.split("train"));
        let network = task.over(session.group);
        Ok(Built { network, settings: config.to_toml()?, steps: config.base.steps })
    }

    fn is_judged(&self, data: &DetectorData) -> bool {
        data.held_out.is_some()
    }

    fn score(
        &mut self,
        data: &mut DetectorData,
        network: &Self::Network,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let held_out = data.held_out.as_ref().context("nothing is held out")?;
        let parameters = network.store().constants()?;
        let config = &data.config.detector;
        let detector = FasterRcnn::new(config, parameters.var_builder(DType::F32, session.device))?;
        held_out.average_precision(&detector, self.common.workers.count(), session)
    }

    fn keep(&mut self, data: &DetectorData, network: &Self::Network) -> Result<()> {
        CommonArgs::save(&self.result()?, network.store(), &data.metadata)
    }

    fn finish(&mut self, _: &mut DetectorData, _: &mut Session<'_>) -> Result<()> {
        Ok(())
    }
}
