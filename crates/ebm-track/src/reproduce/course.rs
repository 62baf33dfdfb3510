//! The trainings of all methods, side by side, with learning curves of boxes that are held out.

use std::collections::BTreeSet;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::sequences::Sequence;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_train::{GradientTask, Group, Progress, RunSpec, keep_base, load_latest, train_run};

use super::compare::{Comparison, Setup, Test, Trained, module_name};
use super::data::{loader_of, pair_sampler};
use super::held_out::{HeldOutRecord, HeldOutRow};
use super::step_factor::{best_step_factor, box_accuracy};
use crate::Result;
use crate::box_module::BoxModule;
use crate::config::Settings;
use crate::saved::BACKBONE;
use crate::training::{BoxModuleTask, ModuleTraining, PairFeatures, PairSource, StreamPairs, converted};

/// What each method learns from with one seed, and how far it may go before the others have come as far.
pub(super) type Pairs = (Vec<Box<dyn PairSource>>, usize);

/// A set of held-out boxes, drawn once, with the features of the crops about them in half precision.
pub(super) struct HeldOut {
    name: String,
    batches: Vec<PairFeatures>,
}

impl HeldOut {
    /// So many boxes of `sequences`, in whole batches.
    pub fn new(name: &str, sequences: Vec<Sequence>, boxes: usize, place: &Setup<'_>) -> Result<Self> {
        let batch_size = place.config.training.batch_size;
        let count = (boxes / batch_size).max(1);
        let source = Source { sequences, weight: 1.0 };
        let sampler = pair_sampler(place.config, count * batch_size, vec![source])?;
        let key = Key::new(0).split("held out").split(name);
        let loader = loader_of(PairRecipe::ATOM_VALIDATION, batch_size, sampler, key)?;
        let mut pairs = StreamPairs::new(loader, &place.tracking, &Device::Cpu);
        let batches = (0..count).map(|step| converted(&pairs.batch(step)?, DType::F16));
        Ok(Self { name: name.to_owned(), batches: batches.collect::<Result<_>>()? })
    }

    fn batches(&self) -> impl Iterator<Item = Result<PairFeatures>> {
        self.batches.iter().map(|pairs| converted(pairs, DType::F32))
    }
}

/// The trainings of all methods, side by side.
pub(super) struct Course<'a> {
    pub place: Setup<'a>,
    pub sets: Vec<HeldOut>,
    /// So many boxes of all sets together choose step lengths.
    pub choosing: usize,
    /// After so many pairs, and at the end, held-out boxes are measured.
    pub curve: Vec<usize>,
}

/// A box module in training.
struct Module<'a> {
    training: ModuleTraining<'a>,
    task: BoxModuleTask<Box<dyn PairSource>>,
    /// Its settings.
    text: String,
    /// Completed steps.
    done: usize,
}

impl Course<'_> {
    /// Trains each method with each seed on its `pairs`, and measures the modules in the tracker.
    pub fn compare(
        &self,
        tests: &[Test],
        mut pairs: impl FnMut(u64) -> Result<Pairs>,
        progress: &mut dyn Progress,
    ) -> Result<Comparison> {
        let options = self.place.options;
        let (mut outcome, mut record) = (Comparison::default(), HeldOutRecord::open(&options.run)?);
        for seed in 0..options.seeds {
            let trained = self.train(seed, pairs(seed)?, &mut record, progress)?;
            for (method, trained) in self.place.config.methods.iter().zip(trained) {
                self.place.measure(tests, method, trained, &mut outcome, progress)?;
            }
        }
        outcome.held_out = record.into_rows();
        Ok(outcome.finish(options.seeds))
    }

    /// Trains a module by each method, in their order.
    fn train(
        &self,
        seed: u64,
        pairs: Pairs,
        record: &mut HeldOutRecord,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Trained>> {
        let Setup { config, options, backbone, .. } = &self.place;
        let ((pairs, together), device, group) = (pairs, &options.device, Group::alone());
        let text = config.to_toml()?;
        let mut modules = Vec::new();
        for (method, pairs) in config.methods.iter().zip(pairs) {
            let training = ModuleTraining { config, method, seed, backbone, device, group: &group };
            let (task, text) = (training.start(pairs)?, text.clone());
            let mut module = Module { training, task, text, done: self.checkpoint(&method.key, seed)? };
            self.advance(&mut module, options.resume, progress)?;
            modules.push(module);
        }
        let (batch_size, steps) = (config.training.batch_size, config.training.steps());
        let curve = self.curve.iter().map(|pairs| pairs.div_ceil(batch_size)).filter(|&end| end < steps);
        let curve: BTreeSet<usize> = curve.chain([steps]).collect();
        let stops = (0..steps).step_by(together).skip(1);
        for end in curve.iter().copied().chain(stops).collect::<BTreeSet<_>>() {
            for module in &mut modules {
                if module.done < end {
                    module.done = end;
                    self.advance(module, true, progress)?;
                }
                if module.done == end && curve.contains(&end) {
                    self.measure(module, record, progress)?;
                }
            }
        }
        let trained = |module: &Module<'_>| {
            let mut rows = record.of(&module.training.method.key, seed, module.done * batch_size);
            let step_factor = rows.next().map_or(1.0, |row| row.step_factor);
            Ok(Trained { seed, step_factor, network: module.network()? })
        };
        modules.iter().map(trained).collect()
    }

    /// The steps of a module that an interrupted run completed.
    fn checkpoint(&self, method: &str, seed: u64) -> Result<usize> {
        let checkpoints = self.place.options.run.join(module_name(method, seed)).join("checkpoints");
        match load_latest(&checkpoints) {
            _ if !checkpoints.is_dir() => Ok(0),
            Ok(loaded) => Ok(loaded.checkpoint.state.step),
            Err(ebm_train::Error::NoCheckpoint { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Trains a module up to the steps that are called done, from its last checkpoint on where it has one.
    fn advance(&self, module: &mut Module<'_>, resume: bool, progress: &mut dyn Progress) -> Result<()> {
        let ModuleTraining { method, seed, .. } = module.training;
        let name = module_name(&method.key, seed);
        let spec = RunSpec::new(&self.place.options.run, &name, &module.text, module.done, seed);
        train_run(&RunSpec { resume, ..spec }, &mut module.task, progress)?;
        Ok(())
    }

    /// Chooses a module's step lengths, saves it, and records its boxes, unless that was done.
    fn measure(
        &self,
        module: &Module<'_>,
        record: &mut HeldOutRecord,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let ModuleTraining { config, method, seed, .. } = module.training;
        let name = &method.key;
        let pairs = module.done * config.training.batch_size;
        if record.of(name, seed, pairs).next().is_some() {
            return Ok(());
        }
        let network = module.network()?;
        progress.begin(&format!("held-out boxes of {name}, seed {seed}, after {pairs} pairs"), 1);
        let choosing = self.choosing.div_ceil(self.sets.len().max(1) * config.training.batch_size);
        let chosen_on = self.sets.iter().flat_map(|set| set.batches().take(choosing));
        let chosen_on = chosen_on.collect::<Result<Vec<_>>>()?;
        let step_factor = best_step_factor(config, method, &network, &chosen_on, progress)?;
        let refinement = [method.refinement.scaled(step_factor)];
        let mut rows = Vec::new();
        for set in &self.sets {
            let found = box_accuracy(&network, set.batches(), &refinement, &config.tracker.boxes)?;
            rows.push(HeldOutRow::new(&set.name, name, seed, pairs, step_factor, &found.concat())?);
        }
        progress.end();
        for HeldOutRow { set, boxes, before, after, .. } in &rows {
            progress.message(&format!("{name}: {set}: {boxes} boxes, IoU {before:.4}, refined {after:.4}"));
        }
        // What is not the last has a folder of its own beside the run's.
        let mut folder = module_name(name, seed);
        if module.done < config.training.steps() {
            folder = format!("{folder}-{pairs}");
        }
        let options = self.place.options;
        let saved = module.training.saved(keep_base(&options.backbone, &options.run, BACKBONE)?, step_factor);
        let path = options.run.join(folder);
        ebm_data::files::create_dir(&path)?;
        saved.save(&module.task.store().tensors()?, &path)?;
        record.add(rows)
    }
}

impl Module<'_> {
    /// The module as it predicts, on the CPU.
    fn network(&self) -> Result<BoxModule> {
        let constants = self.task.store().constants()?;
        BoxModule::new(self.task.module().config(), constants.var_builder(DType::F32, &Device::Cpu))
    }
}
