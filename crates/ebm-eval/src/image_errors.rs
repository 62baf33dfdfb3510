//! Which images a detector does worst on, at the score where it does best overall.

use crate::detections::Detection;
use crate::error_breakdown::{Diagnosis, ErrorKind, ObjectOutcome, Outcome};
use crate::ground_truth::GroundTruth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where to cut the scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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

/// The errors in one image among the detections that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageErrors {
    /// The image's id.
    pub image_id: u64,
    /// Annotated objects, crowds not counted.
    pub objects: usize,
    /// Objects that were found.
    pub correct: usize,
    /// How often each kind occurs, in the order of [`ErrorKind::ALL`].
    pub errors: [usize; 6],
    /// The errors' [`weight`]s together.
    pub penalty: f64,
}

impl ImageErrors {
    /// How often this kind occurs.
    pub fn count(&self, kind: ErrorKind) -> usize {
        ErrorKind::ALL.iter().position(|k| *k == kind).map_or(0, |at| self.errors[at])
    }

    /// F1 of this image: right detections over the mean of kept detections and objects; 1 where there are
    /// neither.
    pub fn f1(&self) -> f64 {
        let wrong = self.errors.iter().sum::<usize>() - self.count(ErrorKind::Missed);
        let all = self.correct + wrong + self.objects;
        if all == 0 { 1.0 } else { 2.0 * self.correct as f64 / all as f64 }
    }
}

/// What an error counts in an image's penalty: 1, but a duplicate, which tells nothing wrong about the image,
/// 1/2.
pub fn weight(kind: ErrorKind) -> f64 {
    if kind == ErrorKind::Duplicate { 0.5 } else { 1.0 }
}

/// The score that keeps the detections with the highest F1 over all images and categories together, at IoU 0.5; of
/// equal ones the highest score. Keeping fewer detections changes nothing for those that are kept: objects are given
/// by descending score.
pub fn operating_point(detections: &[Detection], diagnosis: &Diagnosis) -> OperatingPoint {
    let counted = detections.iter().zip(&diagnosis.detections);
    let mut ranked: Vec<(f64, bool)> = counted
        .filter(|(_, outcome)| **outcome != Outcome::Ignored)
        .map(|(detection, outcome)| (detection.score, matches!(outcome, Outcome::Correct(_))))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let objects = diagnosis.objects.iter().filter(|object| **object != ObjectOutcome::Crowd).count();
    let mut best = OperatingPoint { threshold: None, precision: 0.0, recall: 0.0, f1: 0.0 };
    let (mut right, mut kept) = (0usize, 0usize);
    for equal in ranked.chunk_by(|a, b| a.0 == b.0) {
        kept += equal.len();
        right += equal.iter().filter(|(_, is_right)| *is_right).count();
        let f1 = 2.0 * right as f64 / (kept + objects) as f64;
        if f1 > best.f1 {
            let recall = if objects == 0 { 0.0 } else { right as f64 / objects as f64 };
            best = OperatingPoint {
                threshold: Some(equal[0].0),
                precision: right as f64 / kept as f64,
                recall,
                f1,
            };
        }
    }
    best
}

/// The errors of every image among the detections that `point` keeps, most penalty first; of equal penalties
/// the lower [`f1`](ImageErrors::f1), then the lower id first.
///
/// An object counts as missed where no kept detection has it and none would have it but for a classification
/// or localisation error. `truth` and `detections` are those that the diagnosis is of.
pub fn image_errors(
    truth: &GroundTruth,
    detections: &[Detection],
    diagnosis: &Diagnosis,
    point: &OperatingPoint,
) -> Vec<ImageErrors> {
    let clean = |&image_id| {
        (image_id, ImageErrors { image_id, objects: 0, correct: 0, errors: [0; 6], penalty: 0.0 })
    };
    let mut images: BTreeMap<u64, ImageErrors> = truth.images.iter().map(clean).collect();
    let mut record = |image: u64, kind: ErrorKind| {
        let Some(image) = images.get_mut(&image) else { return };
        image.penalty += weight(kind);
        for (count, _) in image.errors.iter_mut().zip(ErrorKind::ALL).filter(|(_, known)| *known == kind) {
            *count += 1;
        }
    };
    for (detection, outcome) in detections.iter().zip(&diagnosis.detections) {
        if let Outcome::Wrong(kind, _) = outcome
            && point.keeps(detection.score)
        {
            record(detection.image_id, *kind);
        }
    }
    let outcomes = outcomes_at(detections, diagnosis, point);
    for (object, _) in truth.boxes.iter().zip(&outcomes).filter(|(_, o)| **o == ObjectOutcome::Missed) {
        record(object.image_id, ErrorKind::Missed);
    }
    for (object, outcome) in truth.boxes.iter().zip(&outcomes) {
        let Some(image) = images.get_mut(&object.image_id) else { continue };
        image.objects += usize::from(*outcome != ObjectOutcome::Crowd);
        image.correct += usize::from(matches!(outcome, ObjectOutcome::Found(_)));
    }
    let mut images: Vec<ImageErrors> = images.into_values().collect();
    images.sort_by(|a, b| b.penalty.total_cmp(&a.penalty).then(a.f1().total_cmp(&b.f1())));
    images
}

/// What becomes of every object, in the order of [`GroundTruth::boxes`], among the detections that `point`
/// keeps.
pub fn outcomes_at(
    detections: &[Detection],
    diagnosis: &Diagnosis,
    point: &OperatingPoint,
) -> Vec<ObjectOutcome> {
    let crowd = |outcome: &ObjectOutcome| match outcome {
        ObjectOutcome::Crowd => ObjectOutcome::Crowd,
        _ => ObjectOutcome::Missed,
    };
    let mut objects: Vec<ObjectOutcome> = diagnosis.objects.iter().map(crowd).collect();
    for (at, (detection, outcome)) in detections.iter().zip(&diagnosis.detections).enumerate() {
        if !point.keeps(detection.score) {
            continue;
        }
        match *outcome {
            Outcome::Correct(object) => {
                if let Some(object) = objects.get_mut(object) {
                    *object = ObjectOutcome::Found(at);
                }
            }
            Outcome::Wrong(_, Some(object)) => {
                if let Some(object) = objects.get_mut(object).filter(|o| **o == ObjectOutcome::Missed) {
                    *object = ObjectOutcome::Covered;
                }
            }
            _ => {}
        }
    }
    objects
}
