//! What is compared, and what comes of it.

use std::path::PathBuf;

use candle_core::Device;
use ebm_data::sequences::Sequence;
use ebm_eval::tracking::{Convention, FailedSequence};
use serde::{Deserialize, Serialize};

use super::Row;
use super::held_out::HeldOutRow;

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

impl Comparison {
    /// Adds a run's curve to the sum of its method's.
    pub(super) fn add_curve(&mut self, dataset: &str, method: &str, success: &[f64]) {
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
