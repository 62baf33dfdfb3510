//! The twelve COCO box figures, as pycocotools computes them, and AP at IoU 0.90.

use crate::coco_tables::View;
use crate::detections::{Detection, check_boxes, check_ids, read_results_for};
use crate::error::{Error, Result};
use crate::ground_truth::GroundTruth;
use hotcoco::params::IouType;
use hotcoco::{Annotation, COCO, COCOeval, Category, Dataset, Image, Params};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The twelve figures of the COCO box evaluation and a thirteenth, each a fraction in \[0, 1\].
///
/// A figure over ground truth that does not exist (no small object, or no annotation at all) is −1, as
/// in pycocotools. No detections at all against existing ground truth gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CocoFigures {
    /// Average precision over IoU 0.50:0.05:0.95, at most 100 detections per image and category.
    #[serde(with = "crate::json::or_null")]
    pub ap: f64,
    /// Average precision at IoU 0.50.
    #[serde(with = "crate::json::or_null")]
    pub ap50: f64,
    /// Average precision at IoU 0.75.
    #[serde(with = "crate::json::or_null")]
    pub ap75: f64,
    /// `ap` of objects below 32² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_small: f64,
    /// `ap` of objects from 32² to 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_medium: f64,
    /// `ap` of objects above 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_large: f64,
    /// Average recall over IoU 0.50:0.05:0.95 with 1 detection per image and category.
    #[serde(with = "crate::json::or_null")]
    pub ar1: f64,
    /// Average recall with 10.
    #[serde(with = "crate::json::or_null")]
    pub ar10: f64,
    /// Average recall with 100.
    #[serde(with = "crate::json::or_null")]
    pub ar100: f64,
    /// `ar100` of objects below 32² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ar_small: f64,
    /// `ar100` of objects from 32² to 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ar_medium: f64,
    /// `ar100` of objects above 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ar_large: f64,
    /// Average precision at IoU 0.90, which pycocotools computes and does not print: how tight boxes are.
    #[serde(with = "crate::json::or_null")]
    pub ap90: f64,
}

impl CocoFigures {
    /// The names of the figures: pycocotools' twelve in its order, and `ap90`.
    pub const NAMES: [&'static str; 13] = [
        "ap",
        "ap50",
        "ap75",
        "ap_small",
        "ap_medium",
        "ap_large",
        "ar1",
        "ar10",
        "ar100",
        "ar_small",
        "ar_medium",
        "ar_large",
        "ap90",
    ];

    /// The figures with their [names](Self::NAMES).
    pub fn named(&self) -> [(&'static str, f64); 13] {
        let values = [
            self.ap,
            self.ap50,
            self.ap75,
            self.ap_small,
            self.ap_medium,
            self.ap_large,
            self.ar1,
            self.ar10,
            self.ar100,
            self.ar_small,
            self.ar_medium,
            self.ar_large,
            self.ap90,
        ];
        std::array::from_fn(|i| (Self::NAMES[i], values[i]))
    }

    fn new(stats: [f64; 12], ap90: f64) -> Self {
        let [ap, ap50, ap75, ap_small, ap_medium, ap_large, ar1, ar10, ar100, ar_small, ar_medium, ar_large] =
            stats;
        Self {
            ap,
            ap50,
            ap75,
            ap_small,
            ap_medium,
            ap_large,
            ar1,
            ar10,
            ar100,
            ar_small,
            ar_medium,
            ar_large,
            ap90,
        }
    }
}

/// Scores a COCO result file against a COCO annotation file.
///
/// Every annotated image counts, also those without a detection: to score a subset, pass annotations of
/// that subset.
///
/// # Errors
/// What [`GroundTruth::read`] and [`read_results_for`] find.
pub fn evaluate_coco(annotations: &Path, results: &Path) -> Result<CocoFigures> {
    let truth = GroundTruth::read(annotations)?;
    let detections = read_results_for(results, &truth)?;
    score(&truth, &detections, &annotations.display().to_string())
}

/// Scores detections in memory; see [`evaluate_coco`]. Equal scores are ranked in the order given.
///
/// # Errors
/// [`Error::Annotation`], [`Error::Detection`] and the other errors of [`GroundTruth::check`].
pub fn evaluate_coco_in_memory(truth: &GroundTruth, detections: &[Detection]) -> Result<CocoFigures> {
    check_in_memory(truth, detections)?;
    score(truth, detections, TRUTH)
}

/// What annotations are called that were in no file.
pub(crate) const TRUTH: &str = "annotations in memory";

/// The checks of [`evaluate_coco`] where there is no file.
pub(crate) fn check_in_memory(truth: &GroundTruth, detections: &[Detection]) -> Result<()> {
    const DETECTIONS: &str = "detections in memory";
    truth.check(TRUTH)?;
    check_boxes(detections, DETECTIONS)?;
    check_ids(detections, truth, DETECTIONS)
}

fn score(truth: &GroundTruth, detections: &[Detection], origin: &str) -> Result<CocoFigures> {
    let mut evaluation = matched(truth, detections, origin, |_| {})?;
    figures(&mut evaluation, origin)
}

/// The figures of what [`matched`] matched: its curves are complete afterwards. `summarize_lines` is the
/// evaluator's `summarize` without the printing.
pub(crate) fn figures(evaluation: &mut COCOeval, origin: &str) -> Result<CocoFigures> {
    evaluation.accumulate();
    evaluation.summarize_lines();
    let stats: Option<[f64; 12]> = evaluation.stats().and_then(|stats| stats.try_into().ok());
    let stats = stats.ok_or_else(|| missing("the evaluator returned no twelve figures", origin))?;
    Ok(CocoFigures::new(stats, View::of(evaluation, origin)?.precision_at(0.9)?))
}

/// The evaluator did not give what it promises.
pub(crate) fn missing(what: &str, origin: &str) -> Error {
    Error::Evaluator { origin: origin.into(), source: hotcoco::Error::InvalidState(what.into()) }
}

/// Detections that were checked, matched with the annotated boxes under COCO's parameters or what `edit`
/// makes of them: on such input the evaluator prints no warning. Ids of annotations and of detections are
/// their positions plus 1.
pub(crate) fn matched(
    truth: &GroundTruth,
    detections: &[Detection],
    origin: &str,
    edit: impl FnOnce(&mut Params),
) -> Result<COCOeval> {
    let fail = |source| Error::Evaluator { origin: origin.into(), source };
    let mut evaluation = evaluator(truth, detections).map_err(fail)?;
    edit(&mut evaluation.params);
    evaluation.evaluate().map_err(fail)?;
    Ok(evaluation)
}

/// The evaluator with pycocotools' settings. The objects' ids are their places in `truth.boxes` from 1, the
/// detections' theirs in `detections` from 1.
pub(crate) fn evaluator(truth: &GroundTruth, detections: &[Detection]) -> hotcoco::error::Result<COCOeval> {
    let truth = COCO::from_dataset(dataset(truth));
    let found = truth.load_res_anns(detections.iter().map(detection_annotation).collect())?;
    Ok(COCOeval::new(truth, found, IouType::Bbox))
}

fn dataset(truth: &GroundTruth) -> Dataset {
    // Ids from 1: pycocotools takes an annotation id of 0 for "not matched".
    let annotations = truth.boxes.iter().zip(1..).map(|(truth, id)| Annotation {
        id,
        image_id: truth.image_id,
        category_id: truth.category_id,
        bbox: Some(truth.bbox),
        area: Some(truth.area),
        iscrowd: truth.is_crowd,
        ..Default::default()
    });
    Dataset {
        images: truth.images.iter().map(|&id| Image { id, ..Default::default() }).collect(),
        categories: truth
            .categories
            .iter()
            .map(|&id| Category { id, name: id.to_string(), ..Default::default() })
            .collect(),
        annotations: annotations.collect(),
        ..Default::default()
    }
}

fn detection_annotation(detection: &Detection) -> Annotation {
    Annotation {
        image_id: detection.image_id,
        category_id: detection.category_id,
        bbox: Some(detection.bbox),
        score: Some(detection.score),
        ..Default::default()
    }
}
