//! `ebm train refiner`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result, ensure};
use candle_core::Tensor;
use clap::Args;
use ebm_core::GaussianMixture;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::LoaderConfig;
use ebm_data::object_crop::ObjectCrop;
use ebm_detect::config::{RefinerConfig, Settings};
use ebm_detect::training::{MapOrder, RefinerSource, RefinerTask, each_image};
use ebm_detect::weights::{classes, refiner_metadata};
use ebm_detect::{CalibrationOptions, RefinedResults, RefinerNetwork, RefinerOptions, jittered};
use ebm_eval::{Detection, GroundTruth, detections::check_ids, read_results};
use ebm_experiment::config::check_ranges;
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_nn::boxes::BoxConvention;
use ebm_nn::import::load_safetensors;
use ebm_train::ModelMetadata;
use ebm_train::model_file::file_digest;

use super::TrainArgs;
use super::detector::CommonArgs;
use super::held_out::HeldOut;
use super::run::RunArgs;
use crate::commands::calibrate::Fit;

/// Samples for each density of a calibration.
const SAMPLES: usize = 1024;

/// Arguments of `ebm train refiner`.
#[derive(Args)]
pub struct RefinerArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Weights of the body, trained on ImageNet: a ResNet's, its normalisation folded into the convolutions, or with
    /// --config refiner_lite0 those of EfficientNet-Lite0 as they are published. Or a refiner of the same
    /// network, whose training goes on from there.
    #[arg(long)]
    body: PathBuf,
    /// A detector's boxes on the validation images, as a COCO result file: the step lengths with the best AP
    /// of these are chosen, and intervals and scores calibrated by them, as `ebm calibrate refiner` does. Without it
    /// moved annotated boxes stand in for them.
    #[arg(long, requires = "val_annotations")]
    results: Option<PathBuf>,
    /// Tell the classes apart: f of a box is then of its class.
    #[arg(long)]
    per_class: bool,
    /// The factor of the configured step lengths; then none is chosen, and no image held out.
    #[arg(long, conflicts_with_all = ["val_annotations", "results"])]
    step_factor: Option<f64>,
}

/// What a refiner is trained on and judged by.
pub struct RefinerData {
    config: RefinerConfig,
    metadata: ModelMetadata,
    /// Until the network has it.
    images: Option<Arc<CocoDataset>>,
    held_out: Option<HeldOut>,
    results: Option<Vec<Detection>>,
    inputs: Inputs,
}

impl TrainArgs for RefinerArgs {
    fn run(&self) -> &RunArgs {
        &self.common.run
    }

    fn result(&self) -> Result<PathBuf> {
        Ok(self.common.run.run.join("refiner.safetensors"))
    }
}

impl RefinerArgs {
    /// The settings with the changes of the command line.
    fn config(&self) -> Result<RefinerConfig> {
        let mut config: RefinerConfig = self.common.run.settings("refiner")?;
        if let Some(steps) = self.common.steps {
            config.training.set_steps(steps);
        }
        config.training.batch_size = self.common.batch_size.unwrap_or(config.training.batch_size);
        check_ranges("of the command line", &config)?;
        Ok(config)
    }

    /// The boxes that step lengths are chosen by.
    fn boxes(&self, data: &RefinerData, held_out: &HeldOut) -> Result<Vec<Detection>> {
        if let Some(results) = &data.results {
            return Ok(results.clone());
        }
        let usual = || GaussianMixture::isotropic(&[0.0375, 0.075, 0.15], 4);
        let mixture = data.config.objective.gaussian().map_or_else(usual, Ok)?;
        Ok(jittered(held_out.dataset(), &mixture, &mut self.common.key().split("jitter").rng())?)
    }
}

impl Training for RefinerArgs {
    type Error = Error;
    type Data = RefinerData;
    type Network = RefinerTask;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = CommonArgs::LENGTH;

    /// The data tell the number of classes, where these are told apart.
    fn settings(&self, data: Option<&RefinerData>) -> Result<Option<String>> {
        Ok(match data {
            Some(data) => Some(data.config.to_toml()?),
            None if self.per_class => None,
            None => Some(self.config()?.to_toml()?),
        })
    }

    fn inputs(&self, data: &RefinerData) -> Result<Inputs> {
        Ok(data.inputs.clone())
    }

    fn open(&mut self, _: &mut Session<'_>) -> Result<RefinerData> {
        let common = &self.common;
        let mut config = self.config()?;
        let mut images = common.data.train(None)?;
        let classes = classes(&images);
        if self.per_class {
            config.network.num_classes = classes.len() + 1;
        }
        let metadata = refiner_metadata(&config, common.run.seed, &classes)?;
        let mut held_out = common.validation.given(classes.len(), &common.data)?;
        if held_out.is_none() && self.step_factor.is_none() {
            held_out = HeldOut::fifth_of(&mut images);
        }
        let results = self.results.as_deref().map(|path| -> Result<_> {
            let (found, held_out) = (read_results(path)?, held_out.as_ref().context("--val-annotations")?);
            check_ids(&found, &GroundTruth::from(held_out.dataset()), &path.display().to_string())?;
            Ok(found)
        });
        let results = results.transpose()?;
        let inputs =
            Inputs::from([("data_sha256", images.digest()), ("weights_sha256", file_digest(&self.body)?)]);
        let images = Some(Arc::new(images));
        Ok(RefinerData { config, metadata, images, held_out, results, inputs })
    }

    fn build(&mut self, data: &mut RefinerData, session: &mut Session<'_>) -> Result<Built<RefinerTask>> {
        let (common, config) = (&self.common, &data.config);
        let images = data.images.take().context("the images are trained on once")?;
        let key = common.key();
        let (network, store) =
            RefinerNetwork::with_body(config, &self.body, session.device, key.split("init"))?;
        let (batch_size, batches) = (config.training.batch_size, key.split("data"));
        let convention = BoxConvention::HalfOpen;
        let source = if common.cache {
            ensure!(config.crop.is_none(), "--cache keeps whole images, and `crop` shows others each time");
            ensure!(config.trained_stages == 0, "--cache keeps the output of a frozen body: leave it out");
            let maps = |pixels: &Tensor| network.maps(pixels);
            let order = MapOrder { batch_size, part: session.group.share_of(batch_size)?, key: batches };
            let maps = common.mirrored_maps(&config.input, convention, &images, &maps, order, session)?;
            RefinerSource::Maps(maps)
        } else {
            let mut loader = LoaderConfig::train(config.input.transform(), batch_size);
            loader.recipe.crop = config.crop.map(ObjectCrop::from);
            RefinerSource::Images(Box::new(common.stream(loader, convention, images, batches, session)?))
        };
        let task = RefinerTask::new(network, store, source, config, key.split("train"))?;
        let network = task.over(session.group);
        Ok(Built { network, settings: config.to_toml()?, steps: config.training.steps })
    }

    fn is_judged(&self, data: &RefinerData) -> bool {
        data.held_out.is_some()
    }

    fn score(
        &mut self,
        data: &mut RefinerData,
        network: &RefinerTask,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let held_out = data.held_out.as_ref().context("nothing is held out")?;
        let some = held_out.some(data.config.validation_images);
        let loader = some.loader(&data.config.input, self.common.workers.count())?;
        let key = self.common.key().split("validation");
        Ok(network.validation_loss(each_image(&loader, BoxConvention::HalfOpen, session.device)?, key)?)
    }

    fn keep(&mut self, data: &RefinerData, network: &RefinerTask) -> Result<()> {
        let metadata = ModelMetadata { step_factor: self.step_factor, ..data.metadata.clone() };
        CommonArgs::save(&self.result()?, network.store(), &metadata)
    }

    fn finish(&mut self, data: &mut RefinerData, session: &mut Session<'_>) -> Result<()> {
        let (Some(held_out), None) = (&data.held_out, self.step_factor) else { return Ok(()) };
        let path = self.result()?;
        let (truth, boxes) = (GroundTruth::from(held_out.dataset()), self.boxes(data, held_out)?);
        let results = RefinedResults {
            name: held_out.name(),
            dataset: held_out.dataset(),
            truth: &truth,
            detections: &boxes,
        };
        // Moved boxes tell nothing of the errors that a detector makes.
        let key = self.common.key().split("calibration");
        let samples = data.results.as_ref().map(|_| CalibrationOptions { samples: SAMPLES, key });
        let options = RefinerOptions { device: session.device.clone(), ..RefinerOptions::default() };
        let fit =
            Fit { refiner: &path, metadata: data.metadata.clone(), step_factor: None, samples, options };
        let metadata = fit.to(&results, session.progress)?;
        Ok(metadata.save(&path, &load_safetensors(&path, session.device)?)?)
    }
}
