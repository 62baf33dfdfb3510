//! Which detections are right, the score to draw boxes from, and the images with the most errors.

use crate::coco::matched_at_half;
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::GroundTruth;
use hotcoco::DtStatus;
use serde::Serialize;

/// What became of a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the detection of the object at this place of [`GroundTruth::boxes`].
    Correct(usize),
    /// No object is left that it overlaps by half.
    Wrong,
    /// Neither right nor wrong: on a crowd, or beyond the 100 of highest score in its image and category.
    Ignored,
}

/// What became of every detection, and of every image.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// In the order of the detections.
    pub detections: Vec<Outcome>,
    /// The most errors first; of equally many the lower F1, then the lower id first.
    pub images: Vec<ImageErrors>,
}

/// The errors in one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageErrors {
    /// The image's id.
    pub image_id: u64,
    /// Objects that were found.
    pub correct: u32,
    /// Detections that are wrong.
    pub wrong: u32,
    /// Objects that were not found, crowds not counted.
    pub missed: u32,
    /// Right detections over the mean of detections and objects; 1 where there are neither.
    pub f1: f64,
}

/// Says what became of every detection and image. Detections are matched as COCO matches them at IoU 0.5.
///
/// # Errors
/// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
pub fn diagnose(truth: &GroundTruth, detections: &[Detection]) -> Result<Diagnosis> {
    // No detection is sure enough to tell an error of the annotations.
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

/// Where to cut the scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperatingPoint {
    /// Detections from this score on are kept; none says that all are, since nothing was found at any score.
    pub threshold: Option<f64>,
    /// Kept detections that are right, of the kept ones; 0 where none is kept.
    pub precision: f64,
    /// Objects found by them, of all objects; 0 where there is none.
    pub recall: f64,
    /// 2 precision recall / (precision + recall).
    pub f1: f64,
}

impl OperatingPoint {
    /// Whether a detection of this score is kept.
    pub fn keeps(&self, score: f64) -> bool {
        self.threshold.is_none_or(|threshold| score >= threshold)
    }
}

/// The score that keeps the detections with the highest F1 over all images and categories together, at IoU 0.5; of
/// equal ones the highest score. `diagnosis` is of these detections.
///
/// Keeping fewer of them changes nothing for those that are kept: objects are given by descending score.
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
