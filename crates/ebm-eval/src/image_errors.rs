//! Correct and wrong detections, the score threshold for drawing boxes, and the images with the most errors.

use crate::coco::matched_at_half;
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use hotcoco::DtStatus;
use serde::Serialize;

/// Result of matching one detection with the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The detection matches the object at this index of [`GroundTruth::boxes`].
    Correct(usize),
    /// The detection matches no object: none that is still free overlaps it with an IoU of 0.5.
    Wrong,
    /// The detection is not counted: it lies on a crowd, or beyond the 100 highest scores of its image and category.
    Ignored,
}

/// Outcomes of all detections, and errors of all images.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Outcome of each detection, in the order of the detections.
    pub detections: Vec<Outcome>,
    /// Errors of each image: the most errors first, ties by the lower F1, then by the lower id.
    pub images: Vec<ImageErrors>,
}

/// Number of errors in one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageErrors {
    /// Id of the image.
    pub image_id: u64,
    /// Number of objects that were found.
    pub correct: u32,
    /// Number of wrong detections.
    pub wrong: u32,
    /// Number of objects that were not found, without crowds.
    pub missed: u32,
    /// F1: correct detections over the mean of the numbers of detections and objects; 1 without either.
    pub f1: f64,
}

/// Matches detections with objects as COCO does at IoU 0.5, and returns the outcome of every detection and image.
///
/// # Errors
/// The errors of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
pub fn diagnose(truth: &GroundTruth, detections: &[Detection]) -> Result<Diagnosis> {
    // An infinite score threshold: no detection is taken for an error of the annotations.
    let found = matched_at_half(truth, detections)?.image_diagnostics(0.5, f64::INFINITY)?;
    // Ids are positions plus 1.
    let outcome = |id: u64| match (found.annotations.dt_status.get(&id), found.annotations.dt_match.get(&id))
    {
        (Some(DtStatus::Tp), Some(object)) => Outcome::Correct(*object as usize - 1),
        (Some(_), _) => Outcome::Wrong,
        (None, _) => Outcome::Ignored,
    };
    let errors = |&image_id: &u64| match found.images.get(&image_id) {
        Some(image) => {
            let (correct, wrong, missed) = (image.tp, image.fp, image.fn_count);
            ImageErrors { image_id, correct, wrong, missed, f1: image.f1 }
        }
        None => ImageErrors { image_id, correct: 0, wrong: 0, missed: 0, f1: 1.0 },
    };
    let mut images: Vec<ImageErrors> = truth.images.iter().map(errors).collect();
    images.sort_by(|a, b| {
        let most = (b.wrong + b.missed).cmp(&(a.wrong + a.missed));
        most.then(a.f1.total_cmp(&b.f1)).then(a.image_id.cmp(&b.image_id))
    });
    Ok(Diagnosis { detections: (1..=detections.len() as u64).map(outcome).collect(), images })
}

/// A score threshold, with precision, recall and F1 of the detections that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperatingPoint {
    /// Lowest score of the kept detections; none if no detection is correct, and then all are kept.
    pub threshold: Option<f64>,
    /// Fraction of the kept detections that are correct; 0 if none is kept.
    pub precision: f64,
    /// Fraction of the objects that the kept detections find; 0 without an object.
    pub recall: f64,
    /// F1: 2 precision recall / (precision + recall).
    pub f1: f64,
}

impl OperatingPoint {
    /// Returns whether a detection with this `score` is kept.
    pub fn keeps(&self, score: f64) -> bool {
        self.threshold.is_none_or(|threshold| score >= threshold)
    }
}

/// Finds the score threshold with the highest F1 over all images and categories together, at IoU 0.5; among equal
/// F1 the highest score. `diagnosis` must be the result of [`diagnose`] for these `detections`.
///
/// Objects are assigned by descending score, so a threshold does not change the outcome of the kept detections.
pub fn operating_point(detections: &[Detection], diagnosis: &Diagnosis) -> OperatingPoint {
    let counted = detections.iter().zip(&diagnosis.detections);
    let counted = counted.filter(|(_, outcome)| **outcome != Outcome::Ignored);
    let mut ranked: Vec<(f64, bool)> =
        counted.map(|(found, outcome)| (found.score, matches!(outcome, Outcome::Correct(_)))).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let objects: u32 = diagnosis.images.iter().map(|image| image.correct + image.missed).sum();
    let objects = f64::from(objects);
    let mut best = OperatingPoint { threshold: None, precision: 0.0, recall: 0.0, f1: 0.0 };
    let (mut right, mut kept) = (0.0, 0.0);
    for equal in ranked.chunk_by(|a, b| a.0 == b.0) {
        kept += equal.len() as f64;
        right += equal.iter().filter(|(_, is_right)| *is_right).count() as f64;
        let f1 = 2.0 * right / (kept + objects);
        if f1 > best.f1 {
            let (threshold, precision, recall) = (Some(equal[0].0), right / kept, right / objects);
            best = OperatingPoint { threshold, precision, recall, f1 };
        }
    }
    best
}
