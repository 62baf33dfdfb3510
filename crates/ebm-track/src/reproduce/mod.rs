//! Table 3 of the paper: on the published datasets, on still images, or in small on generated videos.

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

/// A line of results: one method, one seed, one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The dataset.
    pub dataset: String,
    /// The method's key.
    pub method: String,
    /// Seed of the box module, its training and the tracker.
    pub seed: u64,
    /// The factor of the configured step lengths.
    pub step_factor: f64,
    /// Runs of the tracker.
    pub runs: usize,
    /// How well its boxes lie, the mean over these runs, without curves.
    #[serde(flatten)]
    pub figures: TrackingFigures,
    /// Frames a second, reading the images not included; none where all results come from an interrupted run.
    pub frames_per_second: Option<f64>,
    /// The share of the ascent in a frame's time.
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
