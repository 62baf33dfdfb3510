//! COCO's average precision by category and by size of the objects.

use crate::coco::{CocoFigures, TRUTH, check_in_memory, figures, matched, missing};
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use hotcoco::{AccumulatedEval, COCOeval};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The twelve figures with what they are means of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CocoTables {
    /// The twelve figures.
    pub figures: CocoFigures,
    /// One row for each category, by ascending id.
    pub categories: Vec<CategoryFigures>,
    /// One row each for small, medium and large objects.
    pub sizes: Vec<SizeFigures>,
}

/// Average precision of one category, at most 100 detections per image.
///
/// −1 where the category has no object (of that size).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryFigures {
    /// The category's id.
    pub id: u64,
    /// Its name, or its id where the annotations have no name.
    pub name: String,
    /// Annotated objects, crowds not counted.
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
    /// `ap` of objects below 32² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_small: f64,
    /// `ap` of objects from 32² to 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_medium: f64,
    /// `ap` of objects above 96² pixels.
    #[serde(with = "crate::json::or_null")]
    pub ap_large: f64,
}

/// Average precision and recall of the objects of one range of sizes, over all categories, at most 100
/// detections per image and category.
///
/// −1 where there is no such object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeFigures {
    /// "small", "medium" or "large".
    pub size: String,
    /// The areas, in square pixels, ends included as in pycocotools.
    pub area: [f64; 2],
    /// Annotated objects of these areas, crowds not counted.
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
    /// Average recall over IoU 0.50:0.05:0.95.
    #[serde(with = "crate::json::or_null")]
    pub ar: f64,
}

/// Scores detections in memory as [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory) does, by
/// category and by size too.
///
/// # Errors
/// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
pub fn coco_tables(truth: &GroundTruth, detections: &[Detection]) -> Result<CocoTables> {
    check_in_memory(truth, detections)?;
    let mut evaluation = matched(truth, detections, TRUTH, |_| {})?;
    let figures = figures(&mut evaluation, TRUTH)?;
    let view = View::of(&evaluation, TRUTH)?;
    let size = |label| view.size(label);
    let [all, small, medium, large] = [size("all")?, size("small")?, size("medium")?, size("large")?];
    let objects = |id: u64| truth.boxes.iter().filter(|b| b.category_id == id && !b.is_crowd).count();
    let categories = view.curves.cat_ids.iter().enumerate().map(|(k, &id)| {
        let one = k..k + 1;
        let [ap, ap50, ap75] = view.precisions(one.clone(), all);
        let by_size = |area| view.precision(view.all(), one.clone(), area);
        let (name, objects) = (truth.category_name(id), objects(id));
        let [ap_small, ap_medium, ap_large] = [small, medium, large].map(by_size);
        CategoryFigures { id, name, objects, ap, ap50, ap75, ap_small, ap_medium, ap_large }
    });
    let categories = categories.collect();
    let sizes = [small, medium, large].map(|size| size_figures(&view, truth, size)).to_vec();
    Ok(CocoTables { figures, categories, sizes })
}

fn size_figures(view: &View, truth: &GroundTruth, size: usize) -> SizeFigures {
    let range = &view.evaluation.params.area_ranges[size];
    let [low, high] = range.range;
    let inside = truth.boxes.iter().filter(|b| !b.is_crowd && (low..=high).contains(&b.area));
    let every = 0..view.curves.shape.k;
    let [ap, ap50, ap75] = view.precisions(every.clone(), size);
    SizeFigures {
        size: range.label.clone(),
        area: range.range,
        objects: inside.count(),
        ap,
        ap50,
        ap75,
        ar: view.recall(every, size),
    }
}

/// The evaluator's curves at its limit of detections per image.
pub(crate) struct View<'a> {
    evaluation: &'a COCOeval,
    curves: &'a AccumulatedEval,
    origin: &'a str,
    detections: usize,
    half: usize,
    three_quarters: usize,
}

/// The place of an IoU threshold.
fn threshold(evaluation: &COCOeval, iou: f64, origin: &str) -> Result<usize> {
    let place = evaluation.params.iou_thr_idx(iou);
    place.ok_or_else(|| missing("the evaluator has no such IoU threshold", origin))
}

impl<'a> View<'a> {
    /// Of an evaluation that has accumulated; `origin` names it in errors.
    pub fn of(evaluation: &'a COCOeval, origin: &'a str) -> Result<Self> {
        let curves =
            evaluation.accumulated().ok_or_else(|| missing("the evaluator kept no curves", origin))?;
        let detections = evaluation.params.max_det_idx();
        let (half, three_quarters) =
            (threshold(evaluation, 0.5, origin)?, threshold(evaluation, 0.75, origin)?);
        Ok(Self { evaluation, curves, origin, detections, half, three_quarters })
    }

    /// The place of a range of sizes.
    fn size(&self, label: &str) -> Result<usize> {
        let place = self.evaluation.params.area_range_idx(label);
        place.ok_or_else(|| missing("the evaluator has no such size", self.origin))
    }

    /// The precision at one IoU threshold, of all categories and sizes.
    pub fn precision_at(&self, iou: f64) -> Result<f64> {
        let place = threshold(self.evaluation, iou, self.origin)?;
        Ok(self.precision(place..place + 1, 0..self.curves.shape.k, self.size("all")?))
    }

    /// Every IoU threshold.
    fn all(&self) -> Range<usize> {
        0..self.curves.shape.t
    }

    /// AP, AP50 and AP75.
    fn precisions(&self, categories: Range<usize>, size: usize) -> [f64; 3] {
        let thresholds = [self.all(), self.half..self.half + 1, self.three_quarters..self.three_quarters + 1];
        thresholds.map(|thresholds| self.precision(thresholds, categories.clone(), size))
    }

    /// The mean over thresholds, recalls and the categories that have objects.
    fn precision(&self, thresholds: Range<usize>, categories: Range<usize>, size: usize) -> f64 {
        let (curves, recalls) = (self.curves, 0..self.curves.shape.r);
        let places = thresholds.flat_map(|t| recalls.clone().map(move |r| (t, r)));
        mean(places.flat_map(|(t, r)| {
            let at = move |k| curves.precision_idx(t, r, k, size, self.detections);
            categories.clone().map(move |k| curves.precision[at(k)])
        }))
    }

    fn recall(&self, categories: Range<usize>, size: usize) -> f64 {
        let curves = self.curves;
        mean(self.all().flat_map(|t| {
            categories.clone().map(move |k| curves.recall[curves.recall_idx(t, k, size, self.detections)])
        }))
    }
}

/// The mean of the values that exist, −1 without any.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values
        .filter(|&value| value > -1.0)
        .fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { -1.0 } else { sum / count as f64 }
}
