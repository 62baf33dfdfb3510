//! Box modules trained on still images with boxes, as ATOM takes COCO's, and on generated videos beside them:
//! all methods side by side on the same pairs, with learning curves of boxes that are held out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
use ebm_data::sequences::{Sequence, coco};
use ebm_seed::Key;
use ebm_train::{Group, Progress, RunSpec, keep_base, load_latest, train_run};

use super::accuracy::box_accuracy;
use super::chosen::{Chosen, choose};
use super::compare::{Comparison, Setup, Trained, module_name};
use super::data::{Videos, loader_of, pairs_key};
use super::held_out::{HeldOutRecord, HeldOutRow, Stage};
use super::mini::MiniOptions;
use super::study::Variant;
use crate::box_module::BoxModule;
use crate::config::{ExperimentConfig, Settings, StillsConfig};
use crate::saved::BACKBONE;
use crate::training::{
    BoxModuleTask, CropStream, KeptPairs, ModuleTraining, PairSource, PoolSize, PooledPairs, StreamPairs,
};
use crate::{Error, Result};

/// Images whose objects have boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// A file of annotations in COCO's format.
    pub annotations: PathBuf,
    /// The folder of its images.
    pub images: PathBuf,
}

/// What to run and where.
#[derive(Clone, Debug)]
pub struct StillsOptions {
    /// As at mini scale; only sequences that are given are tracked, and COCO's images are not looked for.
    pub common: MiniOptions,
    /// To train on, each set with the same weight.
    pub stills: Vec<Annotated>,
    /// To measure on while training, and to choose step lengths on.
    pub held_out: Vec<Annotated>,
}

/// Trains the box modules side by side, measures them on held-out boxes after the pairs that the settings
/// say, and compares them in the tracker; see the crate's `configs/stills.toml` for the settings.
///
/// # Errors
/// When data can not be made or read, or a training fails.
pub fn stills(
    config: &ExperimentConfig,
    options: &StillsOptions,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let (Some(stills), Some(counts)) = (&config.stills, &config.generated) else {
        return Err(Error::config("stills", "this scale needs [stills] and [generated]"));
    };
    let common = &options.common;
    let (device, run) = (&common.device, common.run.as_path());
    progress.begin("generating videos", 1);
    let videos = Videos::generate(&common.data, counts, &common.video)?.train;
    progress.end();
    let (path, backbone) = common.backbone.open(config, &videos, run, common.resume, device, progress)?;
    let backbone = Arc::new(backbone);
    let place = Setup { config, run, device, backbone, path: &path, resume: common.resume };
    let mut sources = Vec::new();
    for set in &options.stills {
        sources.push(Source { sequences: set.sequences(stills.least_side)?, weight: 1.0 });
    }
    sources.push(Source { sequences: videos, weight: stills.video_weight });
    let sets = options.held_out.iter().map(|set| HeldOut::new(set, &place, stills, options.held_out.len()));
    let mut course =
        Course { sets: sets.collect::<Result<_>>()?, record: HeldOutRecord::open(run)?, place, stills };
    let (variants, mut outcome) = (common.study.variants(config)?, Comparison::default());
    for seed in 0..common.seeds {
        let pairs = course.pairs(sources.clone(), seed)?;
        let trained = course.train(&variants, seed, &pairs, progress)?;
        for (variant, trained) in variants.iter().zip(trained) {
            course.place.measure(&common.real, variant, trained, &mut outcome, progress)?;
        }
    }
    outcome.held_out = course.record.into_rows();
    outcome.finish(&common.real, &common.results)
}

impl Annotated {
    /// Its name in results.
    fn name(&self) -> String {
        self.annotations.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Its objects with √(w h) of at least `least_side` pixels, as videos of one frame.
    fn sequences(&self, least_side: f64) -> Result<Vec<Sequence>> {
        let options = LoadOptions::new(Purpose::Train);
        let mut all = coco::sequences(&CocoDataset::load(&self.annotations, &self.images, &options)?);
        all.retain(|one| one.boxes.iter().all(|[_, _, width, height]| (width * height).sqrt() >= least_side));
        Ok(all)
    }
}

/// A set of held-out boxes, drawn once, with the features of the crops about them.
struct HeldOut {
    name: String,
    pairs: KeptPairs,
}

impl HeldOut {
    /// One of `sets` sets that together have as many boxes as the settings say.
    fn new(set: &Annotated, place: &Setup<'_>, stills: &StillsConfig, sets: usize) -> Result<Self> {
        let batch_size = place.config.training.batch_size;
        let batches = (stills.held_out / sets / batch_size).max(1);
        let sampling = PairSampling { pairs_per_epoch: batches * batch_size, max_gap: 0 };
        let source = Source { sequences: set.sequences(stills.least_side)?, weight: 1.0 };
        let sampler = PairSampler::new(vec![source], sampling)?.into();
        let key = Key::new(0).split("held out").split(&set.name());
        let loader = loader_of(PairRecipe::ATOM_VALIDATION, batch_size, sampler, key)?;
        let pairs = StreamPairs::new(CropStream::new(loader, Device::Cpu), place.tracking_backbone()?);
        Ok(Self { name: set.name(), pairs: KeptPairs::new(Box::new(pairs), batches) })
    }
}

/// The trainings of all methods, side by side.
struct Course<'a> {
    place: Setup<'a>,
    stills: &'a StillsConfig,
    sets: Vec<HeldOut>,
    record: HeldOutRecord,
}

/// A box module in training.
struct Module<'a> {
    variant: &'a Variant,
    training: ModuleTraining<'a>,
    task: BoxModuleTask<PooledPairs>,
    /// Its settings.
    text: String,
    /// Completed steps.
    done: usize,
}

impl Course<'_> {
    /// The pairs of a seed, the same for all methods.
    fn pairs(&self, sources: Vec<Source>, seed: u64) -> Result<PooledPairs> {
        let StillsConfig { objects, views, .. } = *self.stills;
        let config = self.place.config;
        let size = PoolSize { objects, views, batch_size: config.training.batch_size };
        // An epoch of the loader is a pool.
        let sampling = PairSampling { pairs_per_epoch: objects * views, max_gap: config.pairs.max_gap };
        let sampler = PairSampler::new(sources, sampling)?.into();
        let recipe = PairRecipe { views, ..PairRecipe::STILLS };
        let loader = loader_of(recipe, size.batch_size, sampler, pairs_key(seed))?;
        let crops = CropStream::new(loader, self.place.device.clone());
        let stream = StreamPairs::new(crops, Arc::clone(&self.place.backbone));
        PooledPairs::new(Box::new(stream), size, pairs_key(seed).split("pool"))
    }

    /// Trains a module of each variant, in their order. Each learns from a pool before the next is filled.
    fn train(
        &mut self,
        variants: &[Variant],
        seed: u64,
        pairs: &PooledPairs,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Trained>> {
        let &Setup { config, device, resume, ref backbone, .. } = &self.place;
        let (backbone, group) = (Arc::clone(backbone), Group::alone());
        let keys: Vec<String> = variants.iter().map(Variant::key).collect();
        let mut modules = Vec::new();
        for (variant, name) in variants.iter().zip(&keys) {
            let method = &variant.method;
            let training =
                ModuleTraining { config, method, name, seed, backbone: &backbone, device, group: &group };
            let (task, text) = (training.start(pairs.clone())?, config.with_method(method).to_toml()?);
            let mut module = Module { variant, training, task, text, done: self.checkpoint(variant, seed)? };
            self.advance(&mut module, resume, progress)?;
            modules.push(module);
        }
        let (batch_size, steps) = (config.training.batch_size, config.training.steps());
        let curve =
            self.stills.curve.iter().map(|pairs| pairs.div_ceil(batch_size)).filter(|&end| end < steps);
        let curve: BTreeSet<usize> = curve.chain([steps]).collect();
        let pools = (0..steps).step_by(pairs.size().steps()).skip(1);
        for end in curve.iter().copied().chain(pools).collect::<BTreeSet<_>>() {
            for module in &mut modules {
                if module.done < end {
                    module.done = end;
                    self.advance(module, true, progress)?;
                }
                if module.done == end && curve.contains(&end) {
                    self.measure(module, progress)?;
                }
            }
        }
        modules.iter().map(|module| self.trained(module)).collect()
    }

    /// The steps of a module that an interrupted run completed.
    fn checkpoint(&self, variant: &Variant, seed: u64) -> Result<usize> {
        let checkpoints = self.place.run.join(module_name(variant, seed)).join("checkpoints");
        match load_latest(&checkpoints) {
            _ if !checkpoints.is_dir() => Ok(0),
            Ok(loaded) => Ok(loaded.checkpoint.state.step),
            Err(ebm_train::Error::NoCheckpoint { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Trains a module up to the steps that are called done, from its last checkpoint on where it has one.
    fn advance(&self, module: &mut Module<'_>, resume: bool, progress: &mut dyn Progress) -> Result<()> {
        let seed = module.training.seed;
        let name = module_name(module.variant, seed);
        let spec = RunSpec::new(self.place.run, &name, &module.text, module.done, seed);
        train_run(&RunSpec { resume, ..spec }, &mut module.task, progress)?;
        Ok(())
    }

    /// Chooses a module's step lengths, saves it, and records its boxes, unless that was done.
    fn measure(&mut self, module: &Module<'_>, progress: &mut dyn Progress) -> Result<()> {
        let ModuleTraining { config, method, name, seed, .. } = module.training;
        let pairs = module.done * config.training.batch_size;
        if self.record.of(name, seed, pairs).next().is_some() {
            return Ok(());
        }
        let network = module.network()?;
        progress.begin(&format!("held-out boxes of {name}, seed {seed}, after {pairs} pairs"), 1);
        let choosing = self.stills.choosing.div_ceil(self.sets.len() * config.training.batch_size);
        let mut chosen_on = Vec::new();
        for set in &mut self.sets {
            for step in 0..choosing.min(set.pairs.len()) {
                chosen_on.push(set.pairs.batch(step)?);
            }
        }
        let chosen = choose(config, method, name, &network, &chosen_on, progress)?;
        let step_factor = chosen.step_factor;
        let (refinement, key) = ([method.refinement.scaled(step_factor)], Key::new(0).split("accuracy"));
        let stage = Stage { method: name, seed, pairs, step_factor };
        let mut rows = Vec::new();
        for set in &mut self.sets {
            let batches = (0..set.pairs.len()).map(|step| set.pairs.batch(step));
            let found = box_accuracy(&network, batches, &refinement, &config.tracker.boxes, key)?;
            rows.push(HeldOutRow::new(&set.name, stage, &found.concat())?);
        }
        progress.end();
        for HeldOutRow { set, boxes, before, after, .. } in &rows {
            progress.message(&format!("{name}: {set}: {boxes} boxes, IoU {before:.4}, refined {after:.4}"));
        }
        // What is not the last has a folder of its own beside the run's.
        let mut folder = module_name(module.variant, seed);
        if module.done < config.training.steps() {
            folder = format!("{folder}-{pairs}");
        }
        let saved = module.training.saved(keep_base(self.place.path, self.place.run, BACKBONE)?, chosen);
        let path = self.place.run.join(folder);
        ebm_data::files::create_dir(&path)?;
        saved.save(module.task.store(), &path)?;
        self.record.add(rows)
    }

    /// A module whose training is over, with the step lengths that were chosen.
    fn trained(&self, module: &Module<'_>) -> Result<Trained> {
        let ModuleTraining { config, method, name, seed, .. } = module.training;
        let pairs = module.done * config.training.batch_size;
        let step_factor = self.record.of(name, seed, pairs).next().map_or(1.0, |row| row.step_factor);
        let (network, refinement) = (module.network()?, method.refinement.scaled(step_factor));
        Ok(Trained { seed, refinement, chosen: Chosen { step_factor, ..Chosen::default() }, network })
    }
}

impl Module<'_> {
    /// The module as it predicts, on the CPU.
    fn network(&self) -> Result<BoxModule> {
        let constants = self.task.store().constants()?;
        BoxModule::new(self.task.module().config(), constants.var_builder(DType::F32, &Device::Cpu))
    }
}
