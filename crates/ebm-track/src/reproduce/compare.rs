//! What both scales do: train the box modules, and put them into the tracker.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use candle_core::{DType, Device};
use ebm_data::sequences::{Rect, Sequence};
use ebm_eval::tracking::{Convention, FailedSequence};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, RunSpec, train_run};
use serde::{Deserialize, Serialize};

use super::Row;
use crate::backbone::Backbone;
use crate::benchmark::{Benchmark, benchmark};
use crate::box_module::{BoxModule, BoxModuleConfig, PackedBoxModule};
use crate::config::ExperimentConfig;
use crate::error::Result;
use crate::method::{Method, Refinement};
use crate::saved::SavedConfig;
use crate::tracker::Networks;
use crate::training::{BoxModuleTask, PairSource};

/// Sequences to measure on.
#[derive(Clone, Debug)]
pub struct Test {
    /// The dataset's name.
    pub name: String,
    /// Its sequences.
    pub sequences: Vec<Sequence>,
    /// How its figures are computed.
    pub convention: Convention,
}

/// The results with what is needed to draw them.
#[derive(Default)]
pub struct Comparison {
    /// One for each dataset, method and seed.
    pub rows: Vec<Row>,
    /// Success curves, the mean over seeds.
    pub curves: Vec<Curve>,
    /// A sequence of the first dataset with each method's boxes.
    pub example: Option<Example>,
    /// Sequences that could not be tracked, with the reason.
    pub failed: Vec<FailedSequence>,
    /// What seed 0 made of the first dataset.
    first: Vec<(Method, Benchmark)>,
}

/// The success curve of a method on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The dataset.
    pub dataset: String,
    /// The method.
    pub method: Method,
    /// Percent of the frames above each of evenly spaced thresholds from 0 to 1.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub success: Vec<f64>,
}

/// A sequence and what the methods of seed 0 made of it.
pub struct Example {
    /// The sequence.
    pub sequence: Sequence,
    /// A box for each frame.
    pub boxes: Vec<(Method, Vec<Rect>)>,
}

/// A trained box module.
pub(super) struct Trained {
    pub method: Method,
    pub seed: u64,
    pub refinement: Refinement,
    pub step_factor: f64,
    pub network: PackedBoxModule,
}

/// Where the work is done.
pub(super) struct Workplace<'a> {
    pub config: &'a ExperimentConfig,
    pub run: &'a Path,
    /// Where box modules are trained.
    pub device: &'a Device,
    /// The backbone and its file.
    pub backbone: Rc<Backbone>,
    pub path: &'a Path,
    /// Whether an interrupted run goes on: its trained modules are kept, and so are the boxes of its trackers.
    pub resume: bool,
}

impl Workplace<'_> {
    /// Trains a method's box module on `pairs` and saves it; `step_factor` chooses the factor of its step lengths.
    pub fn train(
        &self,
        (method, seed): (Method, u64),
        pairs: impl PairSource,
        step_factor: impl FnOnce(&PackedBoxModule, &mut dyn Progress) -> Result<f64>,
        progress: &mut dyn Progress,
    ) -> Result<Trained> {
        let (config, key) = (self.config, Key::new(seed).split(method.key()));
        let store = ParamStore::new(key.split("init"));
        let sizes = BoxModuleConfig::atom(self.backbone.channels()).narrowed(config.narrowed);
        let module = BoxModule::new(&sizes, store.var_builder(DType::F32, self.device))?;
        let settings = config.method(method);
        let name = module_name(method, seed);
        let directory = self.run.join(&name);
        if self.resume && SavedConfig::exists(&directory) {
            let (saved, _, module) = SavedConfig::load(&directory, Some(self.path), self.device)?;
            let step_factor = saved.refinement.step_length[0] / settings.refinement.step_length[0];
            let (refinement, network) = (saved.refinement, module.pack()?);
            return Ok(Trained { method, seed, refinement, step_factor, network });
        }
        let key = key.split("train");
        let mut task = BoxModuleTask::new(module, store, pairs, (method, &settings), &config.training, key);
        let text = config.to_toml()?;
        let spec = RunSpec::new((self.run, &name), &text, config.training.steps(), seed);
        train_run(&RunSpec { resume: self.resume, ..spec }, &mut task, progress)?;
        let (module, store) = task.into_module();
        let network = module.pack()?;
        let step_factor = step_factor(&network, progress)?;
        let refinement = settings.refinement.scaled(step_factor);
        let saved = SavedConfig {
            method,
            seed,
            backbone: relative(self.path, self.run),
            box_module: sizes,
            refinement: refinement.clone(),
            tracker: config.tracker.clone(),
        };
        saved.save(&store, &directory)?;
        Ok(Trained { method, seed, refinement, step_factor, network })
    }

    /// The backbone on the CPU, where trackers run.
    pub fn tracking_backbone(&self) -> Result<Rc<Backbone>> {
        if self.device.is_cpu() {
            return Ok(Rc::clone(&self.backbone));
        }
        Ok(Rc::new(Backbone::load(self.path, &Device::Cpu)?))
    }

    /// A trained module in the tracker, on every dataset. The boxes go to the module's own directory.
    pub fn measure(
        &self,
        tests: &[Test],
        trained: Trained,
        outcome: &mut Comparison,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let Trained { method, seed, refinement, step_factor, network } = trained;
        let backbone = self.tracking_backbone()?;
        let networks = Networks { backbone, boxes: network, refinement, device: Device::Cpu };
        let module = self.run.join(module_name(method, seed));
        for (place, test) in tests.iter().enumerate() {
            progress.message(&format!("{}, seed {seed}, on {}", method.title(), test.name));
            let (key, sequences) = (Key::new(seed).split("tracker"), (&test.sequences[..], &test.convention));
            let results = module.join("results").join(&test.name);
            let result = benchmark(&networks, &self.config.tracker, sequences, &results, key, progress)?;
            outcome.rows.push(Row::new(&test.name, (method, seed), step_factor, &result));
            outcome.failed.extend(result.report.failed.iter().cloned());
            outcome.add_curve(&test.name, method, &result.report.curve);
            if place == 0 && seed == 0 {
                outcome.first.push((method, result));
            }
        }
        Ok(())
    }
}

impl Comparison {
    /// Adds a run's curve to the sum of its method's.
    fn add_curve(&mut self, dataset: &str, method: Method, success: &[f64]) {
        match self.curves.iter_mut().find(|curve| curve.dataset == dataset && curve.method == method) {
            Some(curve) => curve.success.iter_mut().zip(success).for_each(|(sum, value)| *sum += value),
            None => {
                self.curves.push(Curve { dataset: dataset.to_owned(), method, success: success.to_vec() })
            }
        }
    }

    /// After the last measurement: sums of curves become means, and the example is chosen.
    pub(super) fn finish(mut self, tests: &[Test]) -> Self {
        for curve in &mut self.curves {
            let of_curve = |row: &&Row| row.dataset == curve.dataset && row.method == curve.method;
            let runs = self.rows.iter().filter(of_curve).count() as f64;
            curve.success.iter_mut().for_each(|value| *value /= runs);
        }
        self.example = tests.first().and_then(|test| example(&test.sequences, &self.first));
        self
    }
}

/// The directory of a module within a run.
fn module_name(method: Method, seed: u64) -> String {
    format!("{}-{seed}", method.key())
}

/// The sequence in which the methods differ most.
fn example(sequences: &[Sequence], results: &[(Method, Benchmark)]) -> Option<Example> {
    let spread = |name: &str| {
        let of =
            |result: &Benchmark| result.report.rows.iter().find(|row| row.name == name).map(|row| row.auc);
        let figures: Vec<f64> = results.iter().filter_map(|(_, result)| of(result)).collect();
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        figures.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low
    };
    let sequence = sequences.iter().max_by(|a, b| spread(&a.name).total_cmp(&spread(&b.name)))?;
    let boxes =
        |(method, result): &(Method, Benchmark)| Some((*method, result.boxes(&sequence.name)?.to_vec()));
    Some(Example { sequence: sequence.clone(), boxes: results.iter().filter_map(boxes).collect() })
}

/// `path` as seen from `root` where it is below it, else made absolute, so that it is found from anywhere.
fn relative(path: &Path, root: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(inner) => inner.to_owned(),
        Err(_) => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}
