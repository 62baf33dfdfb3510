//! Table 3 of the paper: on the published datasets, on still images, or on generated videos at mini scale.

mod comparison;
pub(crate) mod data;
mod held_out;
mod method_trainer;
mod paper;
mod step_factor;
mod stills;

use ebm_eval::tracking::{RunsReport, TrackingFigures};
use serde::{Deserialize, Serialize};

pub use comparison::{Comparison, Curve, Options, Test};
pub use held_out::HeldOutRow;
pub use paper::{missing, paper};
pub(crate) use step_factor::best_step_factor;
pub use stills::{Annotated, StillsData, stills};

use crate::benchmark::Repetition;
use crate::tracker::Stages;

/// Results of one method with one seed on one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the dataset.
    pub dataset: String,
    /// Key of the method.
    pub method: String,
    /// Seed of the box module, its training and the tracker.
    pub seed: u64,
    /// Factor of the configured step lengths.
    pub step_factor: f64,
    /// Number of runs of the tracker.
    pub runs: usize,
    /// Accuracy of the boxes, the mean over these runs, without curves.
    #[serde(flatten)]
    pub figures: TrackingFigures,
    /// Frames per second, without reading the images. `None` if all boxes were read from an interrupted run.
    pub frames_per_second: Option<f64>,
    /// Fraction of a frame's time that the ascent takes.
    pub refinement_share: Option<f64>,
}

impl Row {
    fn new(
        dataset: &str,
        method: &str,
        seed: u64,
        step_factor: f64,
        report: &RunsReport,
        all: &[Repetition],
    ) -> Self {
        let costs = all.iter().map(Repetition::cost);
        let (frames, stages) =
            costs.fold((0, Stages::default()), |(n, sum), (frames, stages)| (n + frames, sum + stages));
        let seconds = stages.total().as_secs_f64();
        Self {
            dataset: dataset.to_owned(),
            method: method.to_owned(),
            seed,
            step_factor,
            runs: report.runs,
            figures: report.figures.without_curves(),
            frames_per_second: (frames > 0).then(|| frames as f64 / seconds),
            refinement_share: (frames > 0).then(|| stages.refinement.as_secs_f64() / seconds),
        }
    }
}
