//! The twelve COCO box figures as pycocotools computes them, AP at IoU 0.90, and the AP of each category.

use crate::detections::{Detection, check_boxes, check_ids};
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use hotcoco::metrics::{is_computed, mean_or_missing};
use hotcoco::params::IouType;
use hotcoco::{Annotation, COCO, COCOeval, Category, Dataset, Image};
use serde::{Deserialize, Serialize};

/// Defines the figures: pycocotools' twelve in its order, and `ap90`. A figure of −1 becomes null in JSON.
macro_rules! figures {
    ($(#[$doc:meta])* $name:ident { $($(#[$meaning:meta])* $figure:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$meaning])* #[serde(with = "crate::json::or_null")] pub $figure: f64,)*
        }

        impl $name {
            /// Returns the figures with their names: pycocotools' twelve in its order, and `ap90`.
            pub fn named(&self) -> [(&'static str, f64); 13] {
                [$((stringify!($figure), self.$figure)),*]
            }

            fn new([$($figure),*]: [f64; 13]) -> Self {
                Self { $($figure),* }
            }
        }
    };
}

figures! {
    /// The twelve figures of the COCO box evaluation and a thirteenth, each a fraction in \[0, 1\].
    ///
    /// A figure without ground truth (no small object, or no annotation at all) is −1, as in pycocotools. Ground
    /// truth without any detection gives 0.
    CocoFigures {
        /// Average precision over IoU 0.50:0.05:0.95, at most 100 detections per image and category.
        ap,
        /// Average precision at IoU 0.50.
        ap50,
        /// Average precision at IoU 0.75.
        ap75,
        /// `ap` of objects below 32² pixels.
        ap_small,
        /// `ap` of objects from 32² to 96² pixels.
        ap_medium,
        /// `ap` of objects above 96² pixels.
        ap_large,
        /// Average recall over IoU 0.50:0.05:0.95 with 1 detection per image and category.
        ar1,
        /// Average recall with 10 detections per image and category.
        ar10,
        /// Average recall with 100 detections per image and category.
        ar100,
        /// `ar100` of objects below 32² pixels.
        ar_small,
        /// `ar100` of objects from 32² to 96² pixels.
        ar_medium,
        /// `ar100` of objects above 96² pixels.
        ar_large,
        /// Average precision at IoU 0.90, which measures how tight boxes are; pycocotools does not print it.
        ap90,
    }
}

/// Scores `detections` against `truth`. Equal scores are ranked in the order given. [`GroundTruth::read`] and
/// [`read_results_for`](crate::read_results_for) read both from COCO's files.
///
/// Every annotated image counts, including images without a detection: to score a subset, pass annotations
/// of that subset.
///
/// # Errors
/// The errors of [`GroundTruth::check`], [`check_boxes`] and [`check_ids`].
pub fn evaluate_coco_in_memory(truth: &GroundTruth, detections: &[Detection]) -> Result<CocoFigures> {
    figures(&accumulated(truth, detections)?)
}

/// The figures of all categories together, and of each category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CocoTables {
    /// The thirteen figures.
    pub figures: CocoFigures,
    /// One row for each category, by ascending id.
    pub categories: Vec<CategoryFigures>,
}

/// Average precision of one category, at most 100 detections per image.
///
/// A figure is −1 if the category has no object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CategoryFigures {
    /// Id of the category.
    pub id: u64,
    /// Name of the category, or its id as text if it has no name.
    pub name: String,
    /// Number of annotated objects, without crowds.
    pub objects: usize,
    /// Average precision over IoU 0.50:0.05:0.95.
    #[serde(with = "crate::json::or_null")]
    pub ap: f64,
    /// Average precision at IoU 0.50.
    #[serde(with = "crate::json::or_null")]
    pub ap50: f64,
    /// Average precision at IoU 0.75.
    #[serde(with = "crate::json::or_null")]
    pub ap75: f64,
}

/// Scores detections in memory as [`evaluate_coco_in_memory`] does, and
/// adds the figures of each category.
///
/// # Errors
/// The errors of [`evaluate_coco_in_memory`].
pub fn coco_tables(truth: &GroundTruth, detections: &[Detection]) -> Result<CocoTables> {
    let evaluation = accumulated(truth, detections)?;
    let row = |(place, &id): (usize, &u64)| {
        let objects =
            truth.boxes.iter().filter(|object| object.category_id == id && !object.is_crowd).count();
        let at = |iou| precision(&evaluation, iou, Some(place));
        let (ap, ap50, ap75) = (at(None)?, at(Some(0.5))?, at(Some(0.75))?);
        Ok(CategoryFigures { id, name: truth.category_name(id), objects, ap, ap50, ap75 })
    };
    let ids = evaluation.accumulated().map_or(&[][..], |curves| &curves.cat_ids);
    let categories = ids.iter().enumerate().map(row).collect::<Result<_>>()?;
    Ok(CocoTables { figures: figures(&evaluation)?, categories })
}

/// Computes the curves and statistics of `detections` under COCO's parameters.
fn accumulated(truth: &GroundTruth, detections: &[Detection]) -> Result<COCOeval> {
    let mut evaluation = evaluator(truth, detections)?;
    evaluation.evaluate()?;
    evaluation.accumulate();
    // `summarize` without the printing.
    evaluation.summarize_lines();
    Ok(evaluation)
}

/// Returns the figures of an [`accumulated`] evaluation.
fn figures(evaluation: &COCOeval) -> Result<CocoFigures> {
    let stats = evaluation.stats().unwrap_or_default();
    let figures = [stats, &[precision(evaluation, Some(0.9), None)?]].concat();
    Ok(CocoFigures::new(figures.try_into().map_err(|_| missing("twelve figures"))?))
}

/// Returns the mean precision over recalls, IoU thresholds and categories with objects; −1 without any object.
/// `iou` selects one threshold, and `category` one category by its position; `None` takes all.
fn precision(evaluation: &COCOeval, iou: Option<f64>, category: Option<usize>) -> Result<f64> {
    let params = &evaluation.params;
    let curves = evaluation.accumulated().ok_or_else(|| missing("curves"))?;
    let threshold =
        iou.map(|iou| params.iou_thr_idx(iou).ok_or_else(|| missing("this IoU threshold"))).transpose()?;
    let one_or_all = |place: Option<usize>, count| place.map_or(0..count, |place| place..place + 1);
    let (size, most) = (params.all_area_idx(), params.max_det_idx());
    let mut values = Vec::new();
    for t in one_or_all(threshold, curves.shape.t) {
        for r in 0..curves.shape.r {
            let at = |k| curves.precision[curves.precision_idx(t, r, k, size, most)];
            values.extend(one_or_all(category, curves.shape.k).map(at).filter(|value| is_computed(*value)));
        }
    }
    Ok(mean_or_missing(values.iter().sum(), values.len()))
}

/// Returns the error of an evaluation that lacks `what`.
fn missing(what: &str) -> hotcoco::Error {
    hotcoco::Error::InvalidState(format!("there are no {what}"))
}

/// Matches detections with objects of every size at IoU 0.5 alone.
pub(crate) fn matched_at_half(truth: &GroundTruth, detections: &[Detection]) -> Result<COCOeval> {
    let mut evaluation = evaluator(truth, detections)?;
    let all = evaluation.params.all_area_range();
    evaluation.params.iou_thrs = vec![0.5];
    evaluation.params.area_ranges.retain(|size| size.range == all);
    evaluation.evaluate()?;
    Ok(evaluation)
}

/// Creates the evaluator with COCO's parameters. Annotations and detections are checked first, so that it prints no
/// warning. The ids of annotations and of detections are their positions plus 1.
fn evaluator(truth: &GroundTruth, detections: &[Detection]) -> Result<COCOeval> {
    const DETECTIONS: &str = "detections in memory";
    truth.check("annotations in memory")?;
    check_boxes(detections, DETECTIONS)?;
    check_ids(detections, truth, DETECTIONS)?;
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
