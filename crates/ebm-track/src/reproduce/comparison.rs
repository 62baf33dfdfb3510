//! Options and results of a comparison of methods.

use std::path::PathBuf;

use candle_core::Device;
use ebm_data::sequences::Sequence;
use ebm_eval::tracking::{Convention, FailedSequence};
use serde::{Deserialize, Serialize};

use super::Row;
use super::held_out::HeldOutRow;

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the backbone's weight file.
    pub backbone: PathBuf,
    /// Number of seeds: each box module and its tracker have the seeds 0 to `seeds` − 1.
    pub seeds: u64,
    /// Folder of the run: checkpoints, metrics, trained modules.
    pub run: PathBuf,
    /// Whether to continue an interrupted run in `run`, with its trained modules and the boxes of its trackers.
    pub resume: bool,
    /// Device on which box modules are trained. Trackers run on the CPU.
    pub device: Device,
}

/// A dataset to measure on.
#[derive(Clone, Debug)]
pub struct Test {
    /// Name of the dataset.
    pub name: String,
    /// Sequences.
    pub sequences: Vec<Sequence>,
    /// Convention of its figures.
    pub convention: Convention,
}

/// Results of a comparison, with the curves to draw.
#[derive(Default, Serialize)]
pub struct Comparison {
    /// Results, one row for each dataset, method and seed.
    pub rows: Vec<Row>,
    /// Results on held-out boxes, for modules that were trained on still images.
    pub held_out: Vec<HeldOutRow>,
    /// Success curves, averaged over seeds.
    pub curves: Vec<Curve>,
    /// Sequences that could not be tracked, with the reason.
    pub failed: Vec<FailedSequence>,
}

/// Success curve of a method on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the dataset.
    pub dataset: String,
    /// Key of the method.
    pub method: String,
    /// Percentage of the frames with an overlap above each of evenly spaced thresholds from 0 to 1.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub success: Vec<f64>,
}

impl Comparison {
    /// Adds the curve of a run to the sum of its method's curves.
    pub(super) fn add_curve(&mut self, dataset: &str, method: &str, success: &[f64]) {
        match self.curves.iter_mut().find(|curve| curve.dataset == dataset && curve.method == method) {
            Some(curve) => curve.success.iter_mut().zip(success).for_each(|(sum, value)| *sum += value),
            None => {
                let (dataset, method) = (dataset.to_owned(), method.to_owned());
                self.curves.push(Curve { dataset, method, success: success.to_vec() });
            }
        }
    }

    /// Divides the sums of curves by `seeds`, after the last measurement of each method.
    pub(super) fn finish(mut self, seeds: u64) -> Self {
        let all = self.curves.iter_mut().flat_map(|curve| &mut curve.success);
        all.for_each(|value| *value /= seeds as f64);
        self
    }
}
