//! What kinds of errors detections make, and how much average precision each kind costs.
//!
//! Bolya, Foley, Hays and Hoffman define the kinds in "TIDE: A General Toolbox for Identifying Object Detection Errors"
//! (ECCV 2020); hotcoco counts them as the published program does.

use crate::coco::matched_at_half;
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use serde::Serialize;

/// From this IoU on, a box is on its object.
const FOREGROUND_IOU: f64 = 0.5;

/// Below this IoU, a box is on the background.
const BACKGROUND_IOU: f64 = 0.1;

/// The names of the kinds: hotcoco's, and those of tables and JSON.
const KINDS: [(&str, &str); 6] = [
    ("Cls", "classification"),
    ("Loc", "localization"),
    ("Both", "both"),
    ("Dupe", "duplicate"),
    ("Bkg", "background"),
    ("Miss", "missed"),
];

/// How often each kind of error is made and what it costs in AP50.
///
/// | kind | meaning | fixed by |
/// |---|---|---|
/// | classification | on an object of another category | giving it to that object |
/// | localization | beside an object of its category | giving it to that object |
/// | both | beside an object of another category | leaving it out |
/// | duplicate | on an object that a detection of higher score has | leaving it out |
/// | background | on nothing | leaving it out |
/// | missed | an object without any of the first two | leaving the object out |
///
/// The costs do not add up to 1 − AP50: fixing one kind changes what another costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorBreakdown {
    /// The six kinds, in the order of the table above.
    pub kinds: Vec<KindCost>,
    /// Gain in AP50 if no detection were wrong.
    pub delta_false_positives: f64,
    /// Gain in AP50 if the objects that were not found were left out. A category without any other object has
    /// an average precision of 0 then.
    pub delta_false_negatives: f64,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindCost {
    /// Its name.
    pub kind: &'static str,
    /// Detections with it, or missed objects.
    pub count: u64,
    /// Gain in AP50 if it were fixed, from −1 to 1.
    pub delta_ap50: f64,
}

/// Counts the errors of `detections` on `truth`. Detections are matched as COCO matches them at IoU 0.5: at most
/// 100 per image and category, and those that fall on a crowd count neither way.
///
/// # Errors
/// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
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
