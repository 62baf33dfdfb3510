//! `ebm train branch`.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use clap::Args;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::LoaderConfig;
use ebm_detect::config::{ExperimentConfig, MethodConfig, Settings, TrainingConfig};
use ebm_detect::evaluation::Refiner;
use ebm_detect::training::{BranchSource, BranchTask, CachedSource, ForegroundSource};
use ebm_detect::weights::{WeightFile, branch_metadata, classes};
use ebm_detect::{Branch, FasterRcnn, ForegroundCache, ImageBatch};
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_train::ModelMetadata;

use super::TrainArgs;
use super::detector::CommonArgs;
use super::held_out::HeldOut;
use super::run::RunArgs;

/// Arguments of `ebm train branch`.
#[derive(Args)]
pub struct BranchArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Weights of the detector.
    #[arg(long)]
    detector: PathBuf,
    /// The method, by the key that result files use: ebm, iou_net, gaussian, mixture4, …
    #[arg(long, default_value = "ebm")]
    method: String,
    /// The factor of a confidence's configured step lengths; then none is chosen, and no image held out.
    #[arg(long, conflicts_with = "val_annotations")]
    step_factor: Option<f64>,
}

/// The detector, what its branch is, and what it is trained on and judged by.
pub struct BranchData {
    config: ExperimentConfig,
    method: MethodConfig,
    training: TrainingConfig,
    detector: Rc<FasterRcnn>,
    weights: WeightFile,
    metadata: ModelMetadata,
    /// Until the branch has them.
    images: Option<Arc<CocoDataset>>,
    held_out: Option<HeldOut>,
    inputs: Inputs,
}

impl TrainArgs for BranchArgs {
    fn run(&self) -> &RunArgs {
        &self.common.run
    }

    fn result(&self) -> Result<PathBuf> {
        Ok(self.common.run.run.join(format!("{}.safetensors", self.method)))
    }
}

impl Training for BranchArgs {
    type Error = Error;
    type Data = BranchData;
    type Network = BranchTask;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = CommonArgs::LENGTH;

    fn settings(&self, data: Option<&BranchData>) -> Result<Option<String>> {
        let of_file = || self.common.config(Some(&self.detector));
        Ok(Some(data.map_or_else(of_file, |data| Ok(data.config.clone()))?.to_toml()?))
    }

    fn inputs(&self, data: &BranchData) -> Result<Inputs> {
        Ok(data.inputs.clone())
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<BranchData> {
        let (common, device) = (&self.common, session.device);
        let config = common.config(Some(&self.detector))?;
        let method = config.method(&self.method)?.clone();
        let training =
            config.training(&method).context("--method direct adds nothing that could be trained")?;
        let weights = WeightFile::open(&self.detector, device)?;
        let detector = Rc::new(weights.detector(&config.detector)?);
        let labels = config.detector.labels();
        let mut images = common.data.train(Some(labels))?;
        let classes = classes(&images);
        if let Some(said) = weights.metadata() {
            said.check_classes(&self.detector, &common.data.name(), &classes)?;
        }
        let metadata = branch_metadata(&method, common.run.seed, &config, &weights.digest()?, &classes)?;
        let mut held_out = common.validation.given(labels, &common.data)?;
        // Step lengths are not chosen on images that were trained on.
        if held_out.is_none() && method.confidence.is_some() && self.step_factor.is_none() {
            held_out = HeldOut::fifth_of(&mut images);
        }
        let inputs = Inputs::from([("data_sha256", images.digest()), ("weights_sha256", weights.digest()?)]);
        let images = Some(Arc::new(images));
        Ok(BranchData { config, method, training, detector, weights, metadata, images, held_out, inputs })
    }

    fn build(&mut self, data: &mut BranchData, session: &mut Session<'_>) -> Result<Built<BranchTask>> {
        let BranchData { config, method, training, detector, weights, .. } = data;
        let common = &self.common;
        let images = data.images.take().context("the images are trained on once")?;
        // The same keys as those of `ebm reproduce detection`, so that both train the same branch.
        let key = common.key().split(&method.key);
        let density = method.density.as_ref();
        let (branch, store) =
            Branch::new(density, &config.detector, weights.tensors(), session.device, key.split("init"))?;
        let batches = (training.batch_size, key.split("data"));
        let source = if common.cache {
            let maps = |images: &ImageBatch| detector.features(&images.pixels, false);
            let features = common.features(config, images, &maps, session)?;
            let part = session.group.share_of(batches.0)?;
            if density.is_some() {
                let foreground = ForegroundCache::new(detector, &features, session.progress)?;
                let source = ForegroundSource::new(Rc::new(foreground), batches.0, batches.1);
                BranchSource::Foreground(source.part(part)?)
            } else {
                BranchSource::Images(Box::new(CachedSource::new(features, batches.0, batches.1)?.part(part)?))
            }
        } else {
            let loader = LoaderConfig::train(config.detector.input.transform(), batches.0);
            let convention = config.detector.convention.into();
            BranchSource::Images(Box::new(common.stream(loader, convention, images, batches.1, session)?))
        };
        let task = BranchTask::new(
            Rc::clone(detector),
            branch,
            store,
            source,
            method,
            training,
            key.split("train"),
        )?;
        let network = task.over(session.group);
        Ok(Built { network, settings: config.to_toml()?, steps: training.steps })
    }

    fn is_judged(&self, data: &BranchData) -> bool {
        data.held_out.is_some()
    }

    fn score(
        &mut self,
        data: &mut BranchData,
        network: &BranchTask,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let held_out = data.held_out.as_ref().context("nothing is held out")?;
        let loader = held_out.loader(&data.config.detector.input, self.common.workers.count())?;
        let key = self.common.key().split("validation");
        Ok(network.validation_loss(&loader, session.device, key)?)
    }

    fn keep(&mut self, data: &BranchData, network: &BranchTask) -> Result<()> {
        let step_factor = self.step_factor.filter(|_| data.method.confidence.is_some());
        let metadata = ModelMetadata { step_factor, ..data.metadata.clone() };
        CommonArgs::save(&self.result()?, network.store(), &metadata)
    }

    fn finish(&mut self, data: &mut BranchData, session: &mut Session<'_>) -> Result<()> {
        let (Some(held_out), None) = (&data.held_out, self.step_factor) else { return Ok(()) };
        let (path, config) = (self.result()?, &data.config);
        let file = WeightFile::open(&path, session.device)?;
        let branch = Branch::load(data.method.density.as_ref(), &config.detector, &file)?;
        let (Branch::Confidence(head), Some(ascent)) = (branch, data.method.ascent()) else { return Ok(()) };
        let (workers, refiner) = (self.common.workers.count(), Refiner { head: &head, ascent });
        let factor =
            held_out.step_factor(&data.detector, &refiner, &config.step_factors, workers, session)?;
        let metadata = ModelMetadata { step_factor: Some(factor), ..data.metadata.clone() };
        Ok(metadata.save(&path, file.tensors())?)
    }
}
