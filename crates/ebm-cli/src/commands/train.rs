//! `ebm train`.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use anyhow::{Context, Error, Result, bail};
use candle_core::{DType, Tensor};
use clap::{Args, Subcommand};
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, LoaderConfig},
};
use ebm_detect::{
    Branch, FasterRcnn, FeatureCache, ForegroundCache, ImageBatch,
    config::{ExperimentConfig, Settings},
    training::{
        BatchSource, BranchSource, BranchTask, CachedSource, DetectorTask, ForegroundSource, StreamSource,
    },
    weights::{
        branch_metadata, classes, configuration, detector_metadata, load_detector, preload_backbone, read,
        save,
    },
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Group, ModelMetadata, Progress, TrainTask, model_file::digest, train_together};

use super::{
    create_dir,
    settings::SettingsArgs,
    step_factor::StepFactorArgs,
    train_face,
    train_run::{RunArgs, Session},
    train_tracker,
    training_curve::training_curve,
    training_data::DataArgs,
};
use crate::exit;
use crate::parallel;
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
    /// The box module of a tracker, on one's own sequences.
    Tracker(train_tracker::TrackerArgs),
    /// A network of ages, on one's own faces.
    Age(train_face::AgeArgs),
    /// A network of head poses, on one's own faces.
    HeadPose(train_face::PoseArgs),
}

/// Data, length and place of a training.
#[derive(Args)]
pub struct CommonArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file; without it, of a branch, the one that the detector's file
    /// holds, and of a detector mini.
    #[arg(long)]
    config: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Updates, in place of the configuration's, at least 1; milestones move in proportion.
    #[arg(long, value_parser = at_least_one)]
    steps: Option<usize>,
    /// Images per update, in place of the configuration's; several processes share them equally.
    #[arg(long, value_parser = at_least_one)]
    batch_size: Option<usize>,
    /// Compute the frozen layers once per image and keep the result in memory: no flips then.
    #[arg(long)]
    cache: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    workers: WorkersArgs,
}

/// What says how long a training is: a run that is over goes on with others of these.
const LENGTH: [&str; 3] = ["steps", "milestones", "warmup_steps"];

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
    #[arg(long, default_value = "ebm")]
    method: String,
    #[command(flatten)]
    step_length: StepFactorArgs,
}

/// Runs the command.
pub fn run(command: Train, signals: &Signals) -> Result<()> {
    let (engine, device) = match &command {
        Train::Detector(args) => args.common.run.engine(),
        Train::Branch(args) => args.common.run.engine(),
        Train::Tracker(args) => args.training().engine(),
        Train::Age(args) => args.training().engine(),
        Train::HeadPose(args) => args.training().engine(),
    };
    let (group, device) = engine.join(device)?;
    let mut progress = Console::stopping_at(signals.listen()?).computing_on(&device);
    if !group.is_first() {
        progress = progress.silent();
    }
    let mut session = Session { group: &group, device, progress };
    let result = match command {
        Train::Detector(args) => detector(&args, &mut session),
        Train::Branch(args) => branch(&args, &mut session),
        Train::Tracker(args) => train_tracker::run(&args, &mut session),
        Train::Age(args) => train_face::age(&args, &mut session),
        Train::HeadPose(args) => train_face::pose(&args, &mut session),
    };
    parallel::end(&group, result)
}

impl CommonArgs {
    /// Refuses a run that is there already, or that has other settings, before anything slow.
    fn check_run(&self, config: &ExperimentConfig, group: &Group) -> Result<()> {
        // The first process makes the directory, perhaps before another one looks.
        if group.is_first() {
            self.run.spec(&config.to_toml()?, 1, &LENGTH)?.check()?;
        }
        Ok(())
    }

    fn config(&self, detector: Option<&Path>) -> Result<ExperimentConfig> {
        let given = self.config.as_deref();
        let mut config: ExperimentConfig = match (given, detector) {
            (None, Some(detector)) => {
                let own = configuration(detector)?.to_toml()?;
                self.settings.parse(&detector.display().to_string(), &own)?.settings
            }
            (given, _) => self.settings.load(given.unwrap_or("mini"), false)?.settings,
        };
        config.detector.backbone.maps = self.run.device.maps();
        for training in config.trainings_mut() {
            if let Some(steps) = self.steps {
                training.set_steps(steps);
            }
            training.batch_size = self.batch_size.unwrap_or(training.batch_size);
        }
        Ok(config)
    }

    fn key(&self) -> Key {
        Key::new(self.run.seed)
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
        let whole = LoaderConfig { tolerance: self.data.tolerance_of_images(), ..whole };
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
        let loader = LoaderConfig { tolerance: self.data.tolerance_of_images(), ..loader };
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
        let text = config.to_toml()?;
        let spec = self.run.spec(&text, steps, &LENGTH)?;
        if group.is_first() {
            create_dir(spec.root)?;
        }
        if train_together(&spec, task, progress, group)?.is_some() {
            training_curve(&self.run.run)?;
        }
        Ok(())
    }

    /// Keeps the trained parameters as `name` in the run's directory with what they say of themselves, and says where.
    fn save(&self, name: &str, store: &ParamStore, metadata: &ModelMetadata, group: &Group) -> Result<()> {
        if group.is_first() {
            let path = self.run.run.join(name);
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
    let (mut config, device) = (common.config(None)?, session.device.clone());
    if !common.run.resume {
        common.check_run(&config, session.group)?;
    }
    if common.cache && args.body.is_none() {
        bail!("--cache keeps the output of a frozen body: give its weights with --body");
    }
    // The classes are those of the data, unless a configuration says how many there are.
    let labels = common.config.as_ref().map(|_| config.detector.labels());
    let dataset = Arc::new(common.data.train(labels)?);
    let classes = classes(&dataset);
    if labels.is_none() {
        config.detector.num_classes = classes.len() + 1;
    }
    common.check_run(&config, session.group)?;
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let images = dataset.images.len();
    session.progress.message(&format!("{images} images, {} classes: {}", names.len(), names.join(", ")));
    let key = common.key();
    let store = ParamStore::new(key.split("init"));
    if let Some(body) = &args.body {
        preload_backbone(&store, body, &device)?;
    }
    let detector = FasterRcnn::new(&config.detector, store.var_builder(DType::F32, &device))?;
    let metadata = detector_metadata(&config, Some(common.run.seed), &classes)?;
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
    let common = &args.common;
    let config = common.config(Some(&args.detector))?;
    common.check_run(&config, session.group)?;
    let method = config.method(&args.method)?;
    let training = config.training(method).context("--method direct adds nothing that could be trained")?;
    let device = session.device.clone();
    let detector = Rc::new(load_detector(&config.detector, &args.detector, &device)?);
    let weights = read(&args.detector, &device)?;
    let mut dataset = common.data.train(Some(config.detector.labels()))?;
    let classes = classes(&dataset);
    if let Some(said) = ModelMetadata::read(&args.detector)? {
        said.check_classes(&args.detector, &common.data.name(), &classes)?;
    }
    let mut metadata = branch_metadata(method, common.run.seed, &config, &digest(&weights)?, &classes)?;
    let climbs = method.confidence.is_some();
    let validation =
        if climbs { args.step_length.images(&config, &common.data, &mut dataset)? } else { None };
    let dataset = Arc::new(dataset);
    // The same keys as those of `ebm reproduce detection`, so that both train the same branch.
    let key = common.key().split(&method.key);
    let density = method.density.as_ref();
    let branch = Branch::new(density, &config.detector, &weights, &device, key.split("init"))?;
    let store = branch.1.clone();
    let batches = (training.batch_size, key.split("data"));
    let source = if common.cache {
        let maps = |images: &ImageBatch| detector.features(&images.pixels, false);
        let features = common.features(&config, dataset, &maps, session)?;
        let part = session.group.share_of(batches.0)?;
        if density.is_some() {
            let foreground = ForegroundCache::new(&detector, &features, &mut session.progress)?;
            let source = ForegroundSource::new(Rc::new(foreground), batches.0, batches.1);
            BranchSource::Foreground(source.part(part)?)
        } else {
            BranchSource::Images(Box::new(CachedSource::new(features, batches.0, batches.1)?.part(part)?))
        }
    } else {
        BranchSource::Images(common.stream(&config, dataset, batches, session)?)
    };
    let task = BranchTask::new(detector.clone(), branch, source, method, &training, key.split("train"))?;
    let mut task = task.over(session.group);
    common.train(&config, training.steps, &mut task, session)?;
    metadata.step_factor = match validation.filter(|_| session.group.is_first()) {
        None => args.step_length.given().filter(|_| climbs),
        Some(images) => {
            let branch = Branch::of_store(density, &config.detector, &store.constants()?, &session.device)?;
            let branch = (branch, method.ascent());
            let place = (common.workers.count(), &session.device);
            images.choose(&detector, branch, &config.step_factors, place, &mut session.progress)?
        }
    };
    common.save(&format!("{}.safetensors", method.key), &store, &metadata, session.group)
}
