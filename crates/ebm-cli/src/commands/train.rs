//! `ebm train`.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device};
use clap::{Args, Subcommand};
use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_detect::{
    Branch, FasterRcnn, FeatureCache, ImageBatch, Method,
    config::ExperimentConfig,
    input::objects,
    training::{BatchSource, BranchSource, BranchTask, CachedSource, DetectorTask, StreamSource},
    weights::{load_detector, preload_backbone, read, save},
};
use ebm_nn::distributed::Group;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, RunSpec, TrainTask, train_together};

use super::{create_dir, predict::method};
use crate::device::DeviceArgs;
use crate::parallel::{self, EngineArgs};
use crate::progress::Console;
use crate::signals::Signals;

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
    /// COCO annotation file.
    #[arg(long)]
    annotations: PathBuf,
    /// Its images.
    #[arg(long)]
    images: PathBuf,
    /// Only the first so many images, by id.
    #[arg(long)]
    limit: Option<usize>,
    /// Updates, in place of the configuration's; milestones move in proportion.
    #[arg(long)]
    steps: Option<usize>,
    /// Images per update, in place of the configuration's; several processes share them equally.
    #[arg(long)]
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
    engine: EngineArgs,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = RunSpec::CHECKPOINT_EVERY)]
    checkpoint_every: usize,
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
        let mut config = match detector {
            Some(detector) => super::config_for(given, detector)?,
            None => super::config(given.unwrap_or("mini"))?,
        };
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

    /// This process's share of the batches: from the loader, or from maps that `maps` computes once for each image.
    fn source(
        &self,
        config: &ExperimentConfig,
        batch_size: usize,
        maps: impl Fn(&ImageBatch) -> ebm_detect::Result<Vec<candle_core::Tensor>>,
        Session { group, device, progress }: &mut Session<'_>,
    ) -> Result<Box<dyn BatchSource>> {
        let part = group.share_of(batch_size)?;
        let convention = config.detector.convention.into();
        let dataset = self.dataset(config)?;
        let transform = config.detector.input.transform();
        let key = self.key().split("data");
        if !self.cache {
            let whole = LoaderConfig::train(transform, batch_size);
            let config = if group.world() > 1 { whole.part(part) } else { whole };
            let loader = Loader::new(dataset, config, key)?;
            return Ok(Box::new(StreamSource::new(loader, device.clone(), convention)));
        }
        // One batch pads all images alike, so that any of them can be trained on together.
        let all = dataset.images.len();
        let loader = Loader::new(dataset, LoaderConfig::eval(transform, all), key)?;
        let mut cache = FeatureCache::default();
        progress.begin("features of the frozen layers", all);
        for batch in loader.epoch(0)? {
            let batch = batch?;
            let images = ImageBatch::new(&batch, &*device)?;
            let objects = batch.samples.iter().map(|sample| objects(sample, convention)).collect();
            cache.push(&maps(&images)?, &images, objects)?;
        }
        progress.end();
        Ok(Box::new(CachedSource::new(Rc::new(cache), batch_size, key)?.part(part)?))
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

    /// Keeps the trained parameters as `name` in the run's directory, and says where.
    fn save(&self, name: &str, store: &ParamStore, group: &Group) -> Result<()> {
        if group.is_first() {
            let path = self.run.join(name);
            save(store, &path, false)?;
            println!("{}", path.display());
        }
        Ok(())
    }
}

fn detector(args: &DetectorArgs, session: &mut Session<'_>) -> Result<()> {
    let (config, device) = (args.common.config(None)?, session.device.clone());
    if args.common.cache && args.body.is_none() {
        bail!("--cache keeps the output of a frozen body: give its weights with --body");
    }
    let key = args.common.key();
    let store = ParamStore::new(key.split("init"));
    if let Some(body) = &args.body {
        preload_backbone(&store, body, &device)?;
    }
    let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, &device))?;
    let maps = |images: &ImageBatch| {
        Ok(detector.body(&images.pixels, false)?.iter().map(candle_core::Tensor::detach).collect())
    };
    let source = args.common.source(&config, config.base.batch_size, maps, session)?;
    let task = DetectorTask::new(detector, store.clone(), source, &config.base, key.split("train"));
    let mut task = task.over(session.group);
    args.common.train(&config, config.base.steps, &mut task, session)?;
    args.common.save("detector.safetensors", &store, session.group)
}

fn branch(args: &BranchArgs, session: &mut Session<'_>) -> Result<()> {
    let (config, method) = (args.common.config(Some(&args.detector))?, args.method);
    let training = config.training(method).context("--method direct adds nothing that could be trained")?;
    let device = session.device.clone();
    let detector = Rc::new(load_detector(&config.detector, &args.detector, &device)?);
    let weights = read(&args.detector, &device)?;
    let key = args.common.key().split(method.key());
    let branch = Branch::new(method, &config.detector, &weights, &device, key.split("init"))?;
    let store = branch.1.clone();
    let backbone = detector.for_inference()?;
    let maps = move |images: &ImageBatch| backbone.features(&images.pixels);
    let source = args.common.source(&config, training.batch_size, maps, session)?;
    let source = BranchSource::Images(source);
    let task = BranchTask::new(detector, branch, source, (method, &config), key.split("train"))?;
    let mut task = task.over(session.group);
    args.common.train(&config, training.steps, &mut task, session)?;
    args.common.save(&format!("{}.safetensors", method.key()), &store, session.group)
}
