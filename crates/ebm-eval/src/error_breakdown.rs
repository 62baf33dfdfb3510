//! Kinds of detection errors, and the average precision that each kind costs.
//!
//! Bolya, Foley, Hays and Hoffman define the kinds in "TIDE: A General Toolbox for Identifying Object Detection Errors"
//! (ECCV 2020); hotcoco counts them as the published program does.

use crate::coco::matched_at_half;
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use serde::Serialize;

/// IoU from which on a box counts as lying on its object.
const FOREGROUND_IOU: f64 = 0.5;

/// IoU below which a box counts as lying on the background.
const BACKGROUND_IOU: f64 = 0.1;

/// Names of the kinds: in hotcoco, and in tables and JSON.
const KINDS: [(&str, &str); 6] = [
    ("Cls", "classification"),
    ("Loc", "localization"),
    ("Both", "both"),
    ("Dupe", "duplicate"),
    ("Bkg", "background"),
    ("Miss", "missed"),
];

/// Number of errors of each kind, and their cost in AP50.
///
/// | kind | meaning | fixed by |
/// |---|---|---|
/// | classification | on an object of another category | giving it to that object |
/// | localization | beside an object of its category | giving it to that object |
/// | both | beside an object of another category | leaving it out |
/// | duplicate | on an object that is matched with a detection of higher score | leaving it out |
/// | background | on no object | leaving it out |
/// | missed | an object without any of the first two | leaving the object out |
///
/// The costs do not add up to 1 − AP50: fixing one kind changes the costs of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorBreakdown {
    /// The six kinds, in the order of the table above.
    pub kinds: Vec<KindCost>,
    /// Gain in AP50 if no detection were wrong.
    pub delta_false_positives: f64,
    /// Gain in AP50 if the objects that were not found were left out. A category without any other object then
    /// has an average precision of 0.
    pub delta_false_negatives: f64,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindCost {
    /// Name of the kind.
    pub kind: &'static str,
    /// Number of detections with this error, or of missed objects.
    pub count: u64,
    /// Gain in AP50 if the errors of this kind were fixed, from −1 to 1.
    pub delta_ap50: f64,
}

/// Counts the errors of `detections` on `truth`. Detections are matched as in COCO at IoU 0.5: at most 100 per
/// image and category, without detections on a crowd.
///
/// # Errors
/// The errors of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
pub fn error_breakdown(truth: &GroundTruth, detections: &[Detection]) -> Result<ErrorBreakdown> {
    let found = matched_at_half(truth, detections)?.tide_errors(FOREGROUND_IOU, BACKGROUND_IOU)?;
    let delta = |name: &str| found.delta_ap.get(name).copied().unwrap_or_default();
    let cost = |(name, kind): (&str, &'static str)| {
        let count = found.counts.get(name).copied().unwrap_or_default();
        KindCost { kind, count, delta_ap50: delta(name) }
    };
    Ok(ErrorBreakdown {
        kinds: KINDS.map(cost).to_vec(),
        delta_false_positives: delta("FP"),
        delta_false_negatives: delta("FN"),
    })
}
