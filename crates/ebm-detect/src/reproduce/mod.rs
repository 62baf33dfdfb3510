//! Table 2 of the paper: at mini scale on generated scenes, at paper scale on COCO.

mod mini;
mod paper;
mod strata;

use std::path::Path;

use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_eval::{CocoFigures, Detection, GroundTruth, evaluate_coco_in_memory};
use ebm_seed::Key;
use serde::{Deserialize, Serialize};

pub use mini::{MiniOptions, MiniOutcome, Scenes, mini};
pub use paper::{PaperOptions, Plan, dry_run, paper};
pub use strata::{OverlapGain, StratumRow, strata};

use crate::{config::ExperimentConfig, error::Result, method::Method};

/// A line of results: one method, one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// Seed of the confidence branch and its training; Direct's detector is the same for all.
    pub seed: u64,
    /// Average precision over IoU thresholds 0.5 to 0.95, 0 to 1.
    #[serde(rename = "AP")]
    pub ap: f64,
    /// Average precision at IoU 0.5.
    #[serde(rename = "AP50")]
    pub ap50: f64,
    /// Average precision at IoU 0.75.
    #[serde(rename = "AP75")]
    pub ap75: f64,
    /// Boxes refined per second, confidences and suppression included; none where nothing is refined.
    pub boxes_per_second: Option<f64>,
}

impl Row {
    fn new(method: Method, seed: u64, figures: &CocoFigures, boxes_per_second: Option<f64>) -> Self {
        Self { method, seed, ap: figures.ap, ap50: figures.ap50, ap75: figures.ap75, boxes_per_second }
    }
}

fn load_dataset(annotations: &Path, images: &Path, purpose: Purpose) -> Result<CocoDataset> {
    Ok(CocoDataset::load(annotations, images, &LoadOptions::new(purpose))?)
}

/// Each image once, in order, for inference.
fn eval_loader(
    dataset: &std::sync::Arc<CocoDataset>,
    config: &ExperimentConfig,
    batch_size: usize,
) -> Result<Loader> {
    let loader = LoaderConfig::eval(config.detector.input.transform(), batch_size);
    Ok(Loader::new(dataset.clone(), loader, Key::new(0))?)
}

fn score(truth: &GroundTruth, detections: &[Detection]) -> Result<CocoFigures> {
    Ok(evaluate_coco_in_memory(truth, detections)?)
}
