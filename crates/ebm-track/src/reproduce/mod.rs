//! Table 3 of the paper: at mini scale on generated videos, at paper scale on the published datasets.

mod accuracy;
mod backbone;
mod compare;
mod data;
mod mini;
mod paper;

use ebm_eval::tracking::TrackingReport;
use serde::{Deserialize, Serialize};

pub use accuracy::box_accuracy;
pub use backbone::{BackboneSource, find_backbone};
pub use compare::{Comparison, Curve, Example, Test};
pub use data::{Videos, coco_sequences};
pub use mini::{MiniOptions, mini};
pub use paper::{PaperOptions, Plan, dry_run, missing, paper};

use crate::benchmark::Benchmark;
use crate::method::Method;

/// A line of results: one method, one seed, one dataset. Figures are in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The dataset.
    pub dataset: String,
    /// The method.
    pub method: Method,
    /// Seed of the box module, its training and the tracker.
    pub seed: u64,
    /// The factor of the configured step lengths.
    pub step_factor: f64,
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
    /// Frames a second, reading the images not included; none where all results come from an interrupted run.
    pub frames_per_second: Option<f64>,
    /// The share of the ascent in a frame's time.
    pub refinement_share: Option<f64>,
}

impl Row {
    fn new(dataset: &str, (method, seed): (Method, u64), step_factor: f64, result: &Benchmark) -> Self {
        let TrackingReport { auc, op50, op75, precision, norm_precision, .. } = result.report;
        let (frames, stages) = result.cost();
        let seconds = stages.total().as_secs_f64();
        Self {
            dataset: dataset.to_owned(),
            method,
            seed,
            step_factor,
            auc,
            op50,
            op75,
            precision,
            norm_precision,
            frames_per_second: (frames > 0).then(|| frames as f64 / seconds),
            refinement_share: (frames > 0).then(|| stages.refinement.as_secs_f64() / seconds),
        }
    }
}
