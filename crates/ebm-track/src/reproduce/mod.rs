//! Table 3 of the paper: at mini scale on generated videos, at paper scale on the published datasets.

mod accuracy;
mod backbone;
mod chosen;
mod compare;
pub(crate) mod data;
mod held_out;
mod mini;
mod paper;
mod rivals;
mod stills;
mod study;

use ebm_eval::tracking::{RunsReport, TrackingFigures};
use serde::{Deserialize, Serialize};

pub use accuracy::box_accuracy;
pub use backbone::{BackboneSource, find_backbone};
pub use chosen::Chosen;
pub(crate) use chosen::choose;
pub use compare::{Comparison, Curve, Example, Test};
pub use data::{Videos, coco_sequences};
pub use held_out::HeldOutRow;
pub use mini::{MiniOptions, mini};
pub use paper::{PaperOptions, missing, paper};
pub use rivals::RivalRow;
pub use stills::{Annotated, StillsOptions, stills};
pub use study::Study;

use self::study::Variant;
use crate::benchmark::Repetition;
use crate::tracker::Stages;

/// What the tables show of a tracker on a dataset, in percent, the mean over its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Runs of the tracker.
    pub runs: usize,
    /// The mean of the success curve.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub auc: f64,
    /// Frames with an IoU above 0.5.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub op50: f64,
    /// Frames with an IoU above 0.75.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub op75: f64,
    /// Frames with the centre within 20 pixels.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub precision: f64,
    /// Normalised precision.
    #[serde(with = "ebm_eval::json::per_cent")]
    pub norm_precision: f64,
}

impl From<&RunsReport> for Figures {
    fn from(report: &RunsReport) -> Self {
        let TrackingFigures { auc, op50, op75, precision, norm_precision, .. } = report.figures;
        Self { runs: report.runs, auc, op50, op75, precision, norm_precision }
    }
}

/// A line of results: one method, one seed, one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The dataset.
    pub dataset: String,
    /// The method's key.
    pub method: String,
    /// σ_l of the proposal, where these are what is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigmas: Option<Vec<f64>>,
    /// Seed of the box module, its training and the tracker.
    pub seed: u64,
    /// The factor of the configured step lengths.
    pub step_factor: f64,
    /// How well its boxes lie.
    #[serde(flatten)]
    pub figures: Figures,
    /// Frames a second, reading the images not included; none where all results come from an interrupted run.
    pub frames_per_second: Option<f64>,
    /// The share of the ascent in a frame's time.
    pub refinement_share: Option<f64>,
}

impl Row {
    fn new(
        dataset: &str,
        variant: &Variant,
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
            method: variant.method.key.clone(),
            sigmas: variant.sigmas.clone(),
            seed,
            step_factor,
            figures: report.into(),
            frames_per_second: (frames > 0).then(|| frames as f64 / seconds),
            refinement_share: (frames > 0).then(|| stages.refinement.as_secs_f64() / seconds),
        }
    }
}
