//! What all scales do: put trained box modules into the tracker, and compare the boxes.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::sequences::Sequence;
use ebm_eval::tracking::{Convention, FailedSequence, merge};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use super::Row;
use super::held_out::HeldOutRow;
use crate::Result;
use crate::backbone::Backbone;
use crate::benchmark::{Runs, track_dataset};
use crate::box_module::BoxModule;
use crate::config::ExperimentConfig;
use crate::method::MethodConfig;
use crate::tracker::Networks;

/// How often and where methods are compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// The backbone's weight file.
    pub backbone: PathBuf,
    /// Seeds 0 … `seeds` − 1 of each box module and its tracker.
    pub seeds: u64,
    /// Checkpoints, metrics, trained modules.
    pub run: PathBuf,
    /// Whether an interrupted run in `run` goes on: its trained modules are kept, and so are the boxes of its
    /// trackers.
    pub resume: bool,
    /// Where box modules are trained. Trackers run on the CPU.
    pub device: Device,
}

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
#[derive(Default, Serialize)]
pub struct Comparison {
    /// One for each dataset, method and seed.
    pub rows: Vec<Row>,
    /// Of modules that were trained on still images, the held-out boxes.
    pub held_out: Vec<HeldOutRow>,
    /// Success curves, the mean over seeds.
    pub curves: Vec<Curve>,
    /// Sequences that could not be tracked, with the reason.
    pub failed: Vec<FailedSequence>,
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

/// A trained box module.
pub(super) struct Trained {
    pub seed: u64,
    /// The factor of the configured step lengths that was chosen.
    pub step_factor: f64,
    pub network: BoxModule,
}

/// The work and its backbone.
pub(super) struct Setup<'a> {
    pub config: &'a ExperimentConfig,
    pub options: &'a Options,
    /// Where box modules are trained.
    pub backbone: Arc<Backbone>,
    /// On the CPU, where trackers run.
    pub tracking: Arc<Backbone>,
}

impl<'a> Setup<'a> {
    /// Reads the backbone.
    ///
    /// # Errors
    /// When its file can not be read, or is another network's.
    pub fn new(config: &'a ExperimentConfig, options: &'a Options) -> Result<Self> {
        let Options { backbone: path, device, .. } = options;
        let backbone = Arc::new(Backbone::load(path, device)?);
        let tracking = match device {
            Device::Cpu => Arc::clone(&backbone),
            _ => Arc::new(Backbone::load(path, &Device::Cpu)?),
        };
        Ok(Self { config, options, backbone, tracking })
    }

    /// A trained module in the tracker, on every dataset, as often as the settings say. The boxes go to the
    /// module's own directory.
    pub fn measure(
        &self,
        tests: &[Test],
        method: &MethodConfig,
        Trained { seed, step_factor, network }: Trained,
        outcome: &mut Comparison,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let refinement = method.refinement.scaled(step_factor);
        let backbone = Arc::clone(&self.tracking);
        let networks = Networks { backbone, boxes: network, refinement, density: None, device: Device::Cpu };
        let module = self.options.run.join(module_name(&method.key, seed));
        // One sequence at a time: the rows tell how fast a tracker is.
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

    /// After the last of `seeds` measurements of each method: sums of curves become means.
    pub(super) fn finish(mut self, seeds: u64) -> Self {
        let all = self.curves.iter_mut().flat_map(|curve| &mut curve.success);
        all.for_each(|value| *value /= seeds as f64);
        self
    }
}

/// The directory of a module within a run.
pub(super) fn module_name(method: &str, seed: u64) -> String {
    format!("{method}-{seed}")
}
