//! COCO's average precision by category.

use crate::coco::{CocoFigures, accumulated, figures, precision};
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use serde::Serialize;

/// The figures with what they are means of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CocoTables {
    /// The thirteen figures.
    pub figures: CocoFigures,
    /// One row for each category, by ascending id.
    pub categories: Vec<CategoryFigures>,
}

/// Average precision of one category, at most 100 detections per image.
///
/// −1 where the category has no object.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

/// Scores detections in memory as [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory) does, by
/// category too.
///
/// # Errors
/// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
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
