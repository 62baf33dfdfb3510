//! `ebm train`.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use anyhow::{Context, Error, Result, bail};
use candle_core::{DType, Device, Tensor};
use clap::{Args, Subcommand};
use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_detect::{
    Branch, FasterRcnn, FeatureCache, ForegroundCache, ImageBatch, Method,
    config::{ExperimentConfig, Settings},
    training::{
        BatchSource, BranchSource, BranchTask, CachedSource, DetectorTask, ForegroundSource, StreamSource,
    },
    weights::{
        Metadata, Provenance, check_classes, classes, detector_metadata, digest, load_detector,
        preload_backbone, read, save,
    },
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Group, RunSpec, TrainTask, train_together};

use super::{create_dir, predict::method, settings::SettingsArgs};
use crate::device::DeviceArgs;
use crate::exit;
use crate::parallel::{self, EngineArgs};
use crate::progress::Console;
use crate::signals::Signals;
use crate::workers::WorkersArgs;

/// What to train.
#[derive(Subcommand)]
pub enum Train {
    /// Faster-RCNN: all of it, or all but a body with given weights.
    Detector(DetectorArgs),
    /// What a method adds to a trained detector: a confidence branch, or a density in the place of the regression.
    #[command(alias = "confidence")]
    Branch(BranchArgs),
}

/// Data, length and place of a training.
#[derive(Args)]
pub struct CommonArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file; without it the detector's weights decide, where
    /// there are any, or it is mini.
    #[arg(long)]
    config: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// COCO annotation file.
    #[arg(long)]
    annotations: PathBuf,
    /// Its images.
    #[arg(long)]
    images: PathBuf,
    /// Only the first so many images, by id.
    #[arg(long, value_parser = at_least_one)]
    limit: Option<usize>,
    /// Updates, in place of the configuration's, at least 1; milestones move in proportion.
    #[arg(long, value_parser = at_least_one)]
    steps: Option<usize>,
    /// Images per update, in place of the configuration's; several processes share them equally.
    #[arg(long, value_parser = at_least_one)]
    batch_size: Option<usize>,
    /// Compute the frozen layers once per image and keep the result in memory: no flips then.
    #[arg(long)]
    cache: bool,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory of the run; must not hold one yet, unless it is resumed.
    #[arg(long)]
    run: PathBuf,
    /// Go on where the run stopped, whatever stopped it; on the CPU the result has the same bytes as without the stop.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    workers: WorkersArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = RunSpec::CHECKPOINT_EVERY)]
    checkpoint_every: usize,
}

/// A number of things of which there must be one.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("with 0 nothing is trained; give 1 or more".into()),
        other => other.map_err(|error| format!("not a number of things: {error}")),
    }
}

/// Arguments of `ebm train detector`.
#[derive(Args)]
pub struct DetectorArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Weights of the body (a ResNet by torchvision's names); it is frozen then.
    #[arg(long)]
    body: Option<PathBuf>,
}

/// Arguments of `ebm train branch`.
#[derive(Args)]
pub struct BranchArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Weights of the detector.
    #[arg(long)]
    detector: PathBuf,
    /// The method, by the key that result files use: ebm, iou_net, gaussian, mixture4, …
    #[arg(long, default_value = "ebm", value_parser = method)]
    method: Method,
}

/// Runs the command.
pub fn run(command: Train, signals: &Signals) -> Result<()> {
    let common = match &command {
        Train::Detector(args) => &args.common,
        Train::Branch(args) => &args.common,
    };
    let (group, device) = common.engine.join(common.device)?;
    let mut progress = Console::stopping_at(signals.listen()?).computing_on(&device);
    if !group.is_first() {
        progress = progress.silent();
    }
    let mut session = Session { group: &group, device, progress };
    let result = match command {
        Train::Detector(args) => detector(&args, &mut session),
        Train::Branch(args) => branch(&args, &mut session),
    };
    parallel::end(&group, result)
}

/// This process in its training.
struct Session<'a> {
    group: &'a Group,
    device: Device,
    progress: Console,
}

impl CommonArgs {
    fn config(&self, detector: Option<&Path>) -> Result<ExperimentConfig> {
        let given = self.config.as_deref();
        let name = match detector {
            Some(detector) => super::config_name(given, detector)?,
            None => given.unwrap_or("mini").to_owned(),
        };
        let mut config: ExperimentConfig = self.settings.load(&name)?.settings;
        config.detector.backbone.maps = self.device.maps();
        for training in config.trainings_mut() {
            if let Some(steps) = self.steps {
                training.set_steps(steps);
            }
            training.batch_size = self.batch_size.unwrap_or(training.batch_size);
        }
        Ok(config)
    }

    fn dataset(&self, config: &ExperimentConfig) -> Result<Arc<CocoDataset>> {
        let labels = Some(config.detector.labels());
        let options = LoadOptions { labels, ..LoadOptions::new(Purpose::Train) };
        let mut dataset = CocoDataset::load(&self.annotations, &self.images, &options)?;
        dataset.images.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(Arc::new(dataset))
    }

    fn key(&self) -> Key {
        Key::new(self.seed)
    }

    /// This process's share of the batches, with images from the loader.
    fn stream(
        &self,
        config: &ExperimentConfig,
        dataset: Arc<CocoDataset>,
        (batch_size, key): (usize, Key),
        Session { group, device, .. }: &Session<'_>,
    ) -> Result<Box<dyn BatchSource>> {
        let part = group.share_of(batch_size)?;
        let whole = LoaderConfig::train(config.detector.input.transform(), batch_size);
        let loader = if group.world() > 1 { whole.part(part) } else { whole };
        let loader = Loader::new(dataset, loader.with_workers(self.workers.count()), key)?;
        Ok(Box::new(StreamSource::new(loader, device.clone(), config.detector.convention.into())))
    }

    /// What `maps` makes of every image, computed once.
    fn features(
        &self,
        config: &ExperimentConfig,
        dataset: Arc<CocoDataset>,
        maps: &dyn Fn(&ImageBatch) -> ebm_detect::Result<Vec<Tensor>>,
        Session { device, progress, .. }: &mut Session<'_>,
    ) -> Result<Rc<FeatureCache>> {
        // One batch pads all images alike, so that any of them can be trained on together.
        let all = dataset.images.len();
        let loader = LoaderConfig::eval(config.detector.input.transform(), all);
        let loader = Loader::new(dataset, loader.with_workers(self.workers.count()), Key::new(0))?;
        let convention = config.detector.convention.into();
        let stage = ("features of the frozen layers", all);
        Ok(Rc::new(FeatureCache::compute(&loader, convention, device, maps, stage, progress)?))
    }

    fn train<T: TrainTask>(
        &self,
        config: &ExperimentConfig,
        steps: usize,
        task: &mut T,
        Session { group, progress, .. }: &mut Session<'_>,
    ) -> Result<()> {
        let root = self.run.parent().unwrap_or(std::path::Path::new("."));
        let name =
            self.run.file_name().and_then(|name| name.to_str()).context("--run needs a directory's name")?;
        if group.is_first() {
            create_dir(root)?;
        }
        let text = config.to_toml()?;
        let spec = RunSpec::new((root, name), &text, steps, self.seed);
        let spec = RunSpec { resume: self.resume, checkpoint_every: self.checkpoint_every, ..spec };
        train_together(&spec, task, progress, group)?;
        Ok(())
    }

    /// Keeps the trained parameters as `name` in the run's directory with what they say of themselves, and says where.
    fn save(&self, name: &str, store: &ParamStore, metadata: &Metadata, group: &Group) -> Result<()> {
        if group.is_first() {
            let path = self.run.join(name);
            save(store, &path, false, metadata).map_err(|error| no_space(error.into(), &path))?;
            println!("{}", path.display());
        }
        Ok(())
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

fn detector(args: &DetectorArgs, session: &mut Session<'_>) -> Result<()> {
    let common = &args.common;
    let (config, device) = (common.config(None)?, session.device.clone());
    if common.cache && args.body.is_none() {
        bail!("--cache keeps the output of a frozen body: give its weights with --body");
    }
    let key = common.key();
    let store = ParamStore::new(key.split("init"));
    if let Some(body) = &args.body {
        preload_backbone(&store, body, &device)?;
    }
    let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, &device))?;
    let dataset = common.dataset(&config)?;
    let given = common.config.as_deref().unwrap_or("mini");
    let name = Some(given).filter(|name| ExperimentConfig::embedded(name).is_ok());
    let metadata = detector_metadata(&config.detector, name, &classes(&dataset))?;
    let batches = (config.base.batch_size, key.split("data"));
    let source: Box<dyn BatchSource> = if common.cache {
        let maps = |images: &ImageBatch| {
            Ok(detector.body(&images.pixels, false)?.iter().map(Tensor::detach).collect())
        };
        let features = common.features(&config, dataset, &maps, session)?;
        let part = session.group.share_of(batches.0)?;
        Box::new(CachedSource::new(features, batches.0, batches.1)?.part(part)?)
    } else {
        common.stream(&config, dataset, batches, session)?
    };
    let task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
    let mut task = task.over(session.group);
    common.train(&config, config.base.steps, &mut task, session)?;
    common.save("detector.safetensors", &store, &metadata, session.group)
}

fn branch(args: &BranchArgs, session: &mut Session<'_>) -> Result<()> {
    let (common, method) = (&args.common, args.method);
    let config = common.config(Some(&args.detector))?;
    let training = config.training(method).context("--method direct adds nothing that could be trained")?;
    let device = session.device.clone();
    let detector = Rc::new(load_detector(&config.detector, &args.detector, &device)?);
    let weights = read(&args.detector, &device)?;
    let dataset = common.dataset(&config)?;
    check_classes(&args.detector, &common.annotations, &dataset)?;
    let provenance = Provenance::new(method, common.seed, &config, &digest(&weights)?);
    let metadata = provenance.metadata(&classes(&dataset))?;
    // The same keys as those of `ebm reproduce detection`, so that both train the same branch.
    let key = common.key().split(method.key());
    let branch = Branch::new(method, &config.detector, &weights, &device, key.split("init"))?;
    let store = branch.1.clone();
    let batches = (training.batch_size, key.split("data"));
    let source = if common.cache {
        let maps = |images: &ImageBatch| detector.features(&images.pixels, false);
        let features = common.features(&config, dataset, &maps, session)?;
        let part = session.group.share_of(batches.0)?;
        if method.baseline()?.is_some() {
            let foreground = ForegroundCache::new(&detector, &features, &mut session.progress)?;
            let source = ForegroundSource::new(Rc::new(foreground), batches.0, batches.1);
            BranchSource::Foreground(source.part(part)?)
        } else {
            BranchSource::Images(Box::new(CachedSource::new(features, batches.0, batches.1)?.part(part)?))
        }
    } else {
        BranchSource::Images(common.stream(&config, dataset, batches, session)?)
    };
    let task = BranchTask::new(detector, branch, source, (method, &config), key.split("train"))?;
    let mut task = task.over(session.group);
    common.train(&config, training.steps, &mut task, session)?;
    common.save(&format!("{}.safetensors", method.key()), &store, &metadata, session.group)
}
