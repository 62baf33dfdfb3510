//! Training of all methods side by side, with learning curves on held-out boxes, and tracking with the trained modules.

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::loader::LoaderConfig;
use ebm_data::sequences::Sequence;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_eval::tracking::merge;
use ebm_train::{GradientTask, Group, Progress, RunSpec, keep_base, load_latest, train_run};

use super::Row;
use super::comparison::{Comparison, Options, Test};
use super::data::pair_sampler;
use super::held_out::{HeldOutRecord, HeldOutRow};
use super::step_factor::{best_step_factor, box_accuracy};
use crate::Result;
use crate::backbone::Backbone;
use crate::benchmark::{Runs, track_dataset};
use crate::box_module::BoxModule;
use crate::config::{ExperimentConfig, Settings};
use crate::method::MethodConfig;
use crate::saved::BACKBONE;
use crate::tracker::Networks;
use crate::training::{BoxModuleTask, ModuleTraining, PairFeatures, PairSource, StreamPairs, converted};

/// Sources of pairs, one for each method, and the number of steps after which the methods take turns.
pub(super) type Pairs = (Vec<Box<dyn PairSource>>, usize);

/// A set of held-out boxes, drawn once, with the features of their crops in half precision.
struct HeldOut {
    name: String,
    batches: Vec<PairFeatures>,
}

impl HeldOut {
    fn batches(&self) -> impl Iterator<Item = Result<PairFeatures>> {
        self.batches.iter().map(|pairs| converted(pairs, DType::F32))
    }
}

/// A trainer of all methods, side by side, which also measures their modules.
pub(super) struct MethodTrainer<'a> {
    pub config: &'a ExperimentConfig,
    pub options: &'a Options,
    /// Backbone on the device of the training.
    pub backbone: Arc<Backbone>,
    /// Backbone on the CPU, where trackers run.
    tracking: Arc<Backbone>,
    sets: Vec<HeldOut>,
}

/// A box module in training.
struct Module<'a> {
    training: ModuleTraining<'a>,
    task: BoxModuleTask,
    /// Number of completed steps.
    done: usize,
}

/// A trained box module.
struct Trained<'a> {
    method: &'a MethodConfig,
    seed: u64,
    /// Chosen factor of the configured step lengths.
    step_factor: f64,
    network: BoxModule,
}

impl<'a> MethodTrainer<'a> {
    /// Creates the trainer and loads the backbone.
    ///
    /// # Errors
    /// When the backbone's file cannot be read, or holds another network.
    pub fn new(config: &'a ExperimentConfig, options: &'a Options) -> Result<Self> {
        let Options { backbone: path, device, .. } = options;
        let backbone = Arc::new(Backbone::load(path, device)?);
        let tracking = match device {
            Device::Cpu => Arc::clone(&backbone),
            _ => Arc::new(Backbone::load(path, &Device::Cpu)?),
        };
        Ok(Self { config, options, backbone, tracking, sets: Vec::new() })
    }

    /// Holds out about `boxes` boxes of `sequences`, in whole batches.
    pub fn hold_out(&mut self, name: &str, sequences: Vec<Sequence>, boxes: usize) -> Result<()> {
        let batch_size = self.config.training.batch_size;
        let count = (boxes / batch_size).max(1);
        let sampler = pair_sampler(self.config, count * batch_size, vec![Source { sequences, weight: 1.0 }])?;
        let loader = LoaderConfig::in_order(PairRecipe::ATOM_VALIDATION, batch_size);
        let key = Key::new(0).split("held out").split(name);
        let mut pairs = StreamPairs::new(&sampler, loader, key, &self.tracking, &Device::Cpu)?;
        let batches = (0..count).map(|step| converted(&pairs.batch(step)?, DType::F16));
        self.sets.push(HeldOut { name: name.to_owned(), batches: batches.collect::<Result<_>>()? });
        Ok(())
    }

    /// Trains each method with each seed on its `pairs`, and measures the modules in the tracker on `tests`.
    pub fn compare(
        &self,
        tests: &[Test],
        mut pairs: impl FnMut(u64) -> Result<Pairs>,
        progress: &mut dyn Progress,
    ) -> Result<Comparison> {
        let options = self.options;
        let (mut outcome, mut record) = (Comparison::default(), HeldOutRecord::open(&options.run)?);
        for seed in 0..options.seeds {
            for trained in self.train(seed, pairs(seed)?, &mut record, progress)? {
                self.track(tests, trained, &mut outcome, progress)?;
            }
        }
        outcome.held_out = record.rows;
        Ok(outcome.finish(options.seeds))
    }

    /// Trains a module by each method with one seed. Returns the modules in the order of the methods.
    fn train(
        &self,
        seed: u64,
        pairs: Pairs,
        record: &mut HeldOutRecord,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Trained<'_>>> {
        let Self { config, options, backbone, .. } = self;
        let ((pairs, together), device, group) = (pairs, &options.device, Group::alone());
        let mut modules = Vec::new();
        for (method, pairs) in config.methods.iter().zip(pairs) {
            let training = ModuleTraining { config, method, seed, backbone, device, group: &group };
            let (task, done) = (training.start(pairs)?, self.checkpoint(&method.key, seed)?);
            let mut module = Module { training, task, done };
            self.advance(&mut module, options.resume, progress)?;
            modules.push(module);
        }
        let (batch_size, steps) = (config.training.batch_size, config.training.steps());
        let curve = config.stills.iter().flat_map(|stills| &stills.curve);
        let curve = curve.map(|pairs| pairs.div_ceil(batch_size)).filter(|&end| end < steps);
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
            let method = config.method(&module.training.method.key)?;
            let mut rows = record.rows_of(&method.key, seed, module.done * batch_size);
            let step_factor = rows.next().map_or(1.0, |row| row.step_factor);
            Ok(Trained { method, seed, step_factor, network: module.network()? })
        };
        modules.iter().map(trained).collect()
    }

    /// Returns the number of steps that an interrupted run of a module completed.
    fn checkpoint(&self, method: &str, seed: u64) -> Result<usize> {
        let checkpoints = self.options.run.join(module_name(method, seed)).join("checkpoints");
        match load_latest(&checkpoints) {
            _ if !checkpoints.is_dir() => Ok(0),
            Ok(loaded) => Ok(loaded.checkpoint.state.step),
            Err(ebm_train::Error::NoCheckpoint { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Trains a module until it has `module.done` steps, from its last checkpoint if it has one.
    fn advance(&self, module: &mut Module<'_>, resume: bool, progress: &mut dyn Progress) -> Result<()> {
        let ModuleTraining { method, seed, .. } = module.training;
        let (name, text) = (module_name(&method.key, seed), self.config.to_toml()?);
        let spec = RunSpec::new(&self.options.run, &name, &text, module.done, seed);
        train_run(&RunSpec { resume, ..spec }, &mut module.task, progress)?;
        Ok(())
    }

    /// Chooses a module's step lengths, saves the module, and records its held-out boxes, unless the record has them.
    fn measure(
        &self,
        module: &Module<'_>,
        record: &mut HeldOutRecord,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let ModuleTraining { config, method, seed, .. } = module.training;
        let name = &method.key;
        let pairs = module.done * config.training.batch_size;
        if record.rows_of(name, seed, pairs).next().is_some() {
            return Ok(());
        }
        let network = module.network()?;
        progress.begin(&format!("held-out boxes of {name}, seed {seed}, after {pairs} pairs"), 1);
        let choosing = config.stills.as_ref().map_or(0, |stills| stills.choosing);
        let choosing = choosing.div_ceil(self.sets.len().max(1) * config.training.batch_size);
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
        // A module before the last step has its own folder beside the run's.
        let mut folder = module_name(name, seed);
        if module.done < config.training.steps() {
            folder = format!("{folder}-{pairs}");
        }
        let options = self.options;
        let saved = module.training.saved(keep_base(&options.backbone, &options.run, BACKBONE)?, step_factor);
        let path = options.run.join(folder);
        ebm_data::files::create_dir(&path)?;
        saved.save(&module.task.store().tensors()?, &path)?;
        record.add(rows)
    }

    /// Tracks with a trained module on every dataset, with the configured number of repetitions. Boxes are written to
    /// the module's directory.
    fn track(
        &self,
        tests: &[Test],
        Trained { method, seed, step_factor, network }: Trained<'_>,
        outcome: &mut Comparison,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let refinement = method.refinement.scaled(step_factor);
        let backbone = Arc::clone(&self.tracking);
        let device = Device::Cpu;
        let networks = Arc::new(Networks { backbone, boxes: network, refinement, density: None, device });
        let module = self.options.run.join(module_name(&method.key, seed));
        // One sequence at a time, because the rows report the speed of a tracker.
        let runs = Runs { repetitions: self.config.repetitions, workers: 1 };
        for test in tests {
            progress.message(&format!("{}, seed {seed}, on {}", method.key, test.name));
            let (key, sequences, tracker) =
                (Key::new(seed).split("tracker"), &test.sequences[..], &self.config.tracker);
            let results = module.join("results").join(&test.name);
            let all = track_dataset(&networks, tracker, sequences, &results, runs, key, progress)?;
            let reports = all.iter().map(|one| one.report(sequences, &test.convention));
            let report = merge(&reports.collect::<Result<Vec<_>>>()?)?;
            outcome.rows.push(Row::new(&test.name, &method.key, seed, step_factor, &report, &all));
            outcome.failed.extend(report.failed.iter().cloned());
            outcome.add_curve(&test.name, &method.key, &report.figures.curve);
        }
        Ok(())
    }
}

/// Returns the name of a module's directory within a run.
fn module_name(method: &str, seed: u64) -> String {
    format!("{method}-{seed}")
}

impl Module<'_> {
    /// Returns the module for prediction, on the CPU.
    fn network(&self) -> Result<BoxModule> {
        let constants = self.task.store().constants()?;
        BoxModule::new(self.task.module().config(), constants.var_builder(DType::F32, &Device::Cpu))
    }
}
