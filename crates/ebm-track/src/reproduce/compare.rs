//! What both scales do: train the box modules, and put them into the tracker.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::sequences::{Rect, Sequence};
use ebm_eval::tracking::{Convention, FailedSequence, merge};
use ebm_seed::Key;
use ebm_train::{Group, Progress, RunSpec, keep_base, train_run};
use serde::{Deserialize, Serialize};

use super::Row;
use super::chosen::Chosen;
use super::held_out::HeldOutRow;
use super::rivals::{RivalRow, rivals};
use super::study::Variant;
use crate::Result;
use crate::backbone::Backbone;
use crate::benchmark::{Repetition, Runs, track_dataset};
use crate::box_module::BoxModule;
use crate::config::{ExperimentConfig, Settings};
use crate::method::Refinement;
use crate::saved::{BACKBONE, SavedConfig};
use crate::tracker::Networks;
use crate::training::{ModuleTraining, PairSource};

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
    /// One for each dataset and tracker whose boxes were given.
    pub rivals: Vec<RivalRow>,
    /// Of modules that were trained on still images, the held-out boxes.
    pub held_out: Vec<HeldOutRow>,
    /// Success curves, the mean over seeds.
    pub curves: Vec<Curve>,
    /// A sequence of the first dataset with each method's boxes.
    pub example: Option<Example>,
    /// Sequences that could not be tracked, with the reason.
    pub failed: Vec<FailedSequence>,
    /// What the methods of seed 0 made of the first dataset.
    first: Vec<FirstRun>,
}

/// What one method made of a dataset.
struct FirstRun {
    method: String,
    boxes: Repetition,
    /// The AUC of each sequence by name.
    auc: Vec<(String, f64)>,
}

/// The success curve of a method on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The dataset.
    pub dataset: String,
    /// The method's key.
    pub method: String,
    /// Percent of the frames above each of evenly spaced thresholds from 0 to 1.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub success: Vec<f64>,
}

/// A sequence and what the methods of seed 0 made of it.
pub struct Example {
    /// The sequence.
    pub sequence: Sequence,
    /// A box for each frame, by the method's key.
    pub boxes: Vec<(String, Vec<Rect>)>,
}

/// A trained box module.
pub(super) struct Trained {
    pub seed: u64,
    pub refinement: Refinement,
    pub chosen: Chosen,
    pub network: BoxModule,
}

/// Where the work is done.
pub(super) struct Setup<'a> {
    pub config: &'a ExperimentConfig,
    pub run: &'a Path,
    /// Where box modules are trained.
    pub device: &'a Device,
    /// The backbone and its file.
    pub backbone: Arc<Backbone>,
    pub path: &'a Path,
    /// Whether an interrupted run goes on: its trained modules are kept, and so are the boxes of its
    /// trackers.
    pub resume: bool,
}

impl Setup<'_> {
    /// Trains a box module on `pairs` and saves it; `choose` says how it is used.
    pub fn train(
        &self,
        variant: &Variant,
        seed: u64,
        pairs: impl PairSource,
        choose: impl FnOnce(&BoxModule, &mut dyn Progress) -> Result<Chosen>,
        progress: &mut dyn Progress,
    ) -> Result<Trained> {
        let (method, config) = (&variant.method, self.config);
        let name = module_name(variant, seed);
        let directory = self.run.join(&name);
        if self.resume && SavedConfig::exists(&directory) {
            let (saved, _, network) = SavedConfig::load(&directory, Some(self.path), &Device::Cpu)?;
            let step_factor = saved.refinement.step_length[0] / method.refinement.step_length[0];
            let temperature = saved.density.map_or(1.0, |density| density.temperature);
            let chosen = Chosen { step_factor, temperature };
            return Ok(Trained { seed, refinement: saved.refinement, chosen, network });
        }
        let (backbone, device, group) = (&self.backbone, self.device, &Group::alone());
        let training = ModuleTraining { config, method, name: &variant.key(), seed, backbone, device, group };
        let mut task = training.start(pairs)?;
        let text = config.with_method(method).to_toml()?;
        let spec = RunSpec::new(self.run, &name, &text, config.training.steps(), seed);
        train_run(&RunSpec { resume: self.resume, ..spec }, &mut task, progress)?;
        let (module, store) = task.into_module();
        let network =
            BoxModule::new(module.config(), store.constants()?.var_builder(DType::F32, &Device::Cpu))?;
        let chosen = choose(&network, progress)?;
        let saved = training.saved(keep_base(self.path, self.run, BACKBONE)?, chosen);
        saved.save(&store, &directory)?;
        Ok(Trained { seed, refinement: saved.refinement, chosen, network })
    }

    /// The backbone on the CPU, where trackers run.
    pub fn tracking_backbone(&self) -> Result<Arc<Backbone>> {
        if self.device.is_cpu() {
            return Ok(Arc::clone(&self.backbone));
        }
        Ok(Arc::new(Backbone::load(self.path, &Device::Cpu)?))
    }

    /// A trained module in the tracker, on every dataset, as often as the settings say. The boxes go to the
    /// module's own directory.
    pub fn measure(
        &self,
        tests: &[Test],
        variant: &Variant,
        trained: Trained,
        outcome: &mut Comparison,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let Trained { seed, refinement, chosen, network } = trained;
        let backbone = self.tracking_backbone()?;
        let networks = Networks { backbone, boxes: network, refinement, density: None, device: Device::Cpu };
        let module = self.run.join(module_name(variant, seed));
        // One sequence at a time: the rows tell how fast a tracker is.
        let runs = Runs { repetitions: self.config.repetitions, workers: 1 };
        for (place, test) in tests.iter().enumerate() {
            progress.message(&format!("{}, seed {seed}, on {}", variant.key(), test.name));
            let (key, sequences, tracker) =
                (Key::new(seed).split("tracker"), &test.sequences[..], &self.config.tracker);
            let results = module.join("results").join(&test.name);
            let all = track_dataset(&networks, tracker, sequences, &results, runs, key, progress)?;
            let reports = all.iter().map(|one| one.report(sequences, &test.convention));
            let reports = reports.collect::<Result<Vec<_>>>()?;
            let report = merge(&reports)?;
            outcome.rows.push(Row::new(&test.name, variant, seed, chosen.step_factor, &report, &all));
            outcome.failed.extend(report.failed.iter().cloned());
            if variant.sigmas.is_some() {
                continue;
            }
            outcome.add_curve(&test.name, &variant.method.key, &report.figures.curve);
            if let (0, 0, Some(one), Some(report)) = (place, seed, all.into_iter().next(), reports.first()) {
                let figures = report.rows.iter().map(|row| (row.name.clone(), row.figures.auc)).collect();
                let method = variant.method.key.clone();
                outcome.first.push(FirstRun { method, boxes: one, auc: figures });
            }
        }
        Ok(())
    }
}

impl Comparison {
    /// Adds a run's curve to the sum of its method's.
    fn add_curve(&mut self, dataset: &str, method: &str, success: &[f64]) {
        match self.curves.iter_mut().find(|curve| curve.dataset == dataset && curve.method == method) {
            Some(curve) => curve.success.iter_mut().zip(success).for_each(|(sum, value)| *sum += value),
            None => {
                let (dataset, method) = (dataset.to_owned(), method.to_owned());
                self.curves.push(Curve { dataset, method, success: success.to_vec() });
            }
        }
    }

    /// After the last measurement: sums of curves become means, the example is chosen, and other trackers'
    /// boxes are scored.
    pub(super) fn finish(mut self, tests: &[Test], results: &[(String, PathBuf)]) -> Result<Self> {
        for curve in &mut self.curves {
            let of_curve = |row: &&Row| row.dataset == curve.dataset && row.method == curve.method;
            let runs = self.rows.iter().filter(of_curve).count() as f64;
            curve.success.iter_mut().for_each(|value| *value /= runs);
        }
        self.example = tests.first().and_then(|test| example(&test.sequences, &self.first));
        let (rows, failed) = rivals(tests, results)?;
        self.rivals = rows;
        self.failed.extend(failed);
        Ok(self)
    }
}

/// The directory of a module within a run.
pub(super) fn module_name(variant: &Variant, seed: u64) -> String {
    format!("{}-{seed}", variant.key())
}

/// The sequence in which the methods differ most.
fn example(sequences: &[Sequence], runs: &[FirstRun]) -> Option<Example> {
    let spread = |name: &str| {
        let of = |run: &FirstRun| run.auc.iter().find(|row| row.0 == name).map(|row| row.1);
        let figures: Vec<f64> = runs.iter().filter_map(of).collect();
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        figures.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low
    };
    let sequence = sequences.iter().max_by(|a, b| spread(&a.name).total_cmp(&spread(&b.name)))?;
    let boxes =
        runs.iter().filter_map(|run| Some((run.method.clone(), run.boxes.boxes(&sequence.name)?.to_vec())));
    Some(Example { sequence: sequence.clone(), boxes: boxes.collect() })
}
