//! Which detections are right, and what is wrong with the others.

use super::{BACKGROUND_IOU, FOREGROUND_IOU};
use crate::coco::{TRUTH, check_in_memory, matched};
use crate::detections::Detection;
use crate::error::Result;
use crate::ground_truth::{GroundTruth, GroundTruthBox};
use crate::tracking::overlap;
use hotcoco::EvalImg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kinds of errors. All but the last are made by a detection; the last by the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// On an object of another category: IoU ≥ t_f.
    Classification,
    /// Beside an object of its category: t_b ≤ IoU < t_f.
    Localization,
    /// Beside an object of another category: t_b ≤ IoU < t_f.
    Both,
    /// On an object of its category that a detection of higher score was given.
    Duplicate,
    /// On nothing: IoU < t_b with every object.
    Background,
    /// An object without a detection, and without one that would be on it but for a classification or
    /// localisation error.
    Missed,
}

impl ErrorKind {
    /// All kinds, in the order of the publication.
    pub const ALL: [Self; 6] = [
        Self::Classification,
        Self::Localization,
        Self::Both,
        Self::Duplicate,
        Self::Background,
        Self::Missed,
    ];

    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classification => "classification",
            Self::Localization => "localization",
            Self::Both => "both",
            Self::Duplicate => "duplicate",
            Self::Background => "background",
            Self::Missed => "missed",
        }
    }
}

/// What became of a detection. Objects are given by their position in [`GroundTruth::boxes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the detection of this object.
    Correct(usize),
    /// An error; of [`ErrorKind::Classification`] and [`ErrorKind::Localization`] the object that was meant.
    Wrong(ErrorKind, Option<usize>),
    /// Neither right nor wrong: on a crowd, or beyond the 100 of highest score in its image and category.
    Ignored,
}

/// What became of an object. Detections are given by their position in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectOutcome {
    /// This detection was given to it.
    Found(usize),
    /// None was, but for a classification or localisation error one would have been.
    Covered,
    /// None.
    Missed,
    /// A crowd, which nothing is expected for.
    Crowd,
}

/// What became of every detection and every object.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// In the order of the detections.
    pub detections: Vec<Outcome>,
    /// In the order of [`GroundTruth::boxes`].
    pub objects: Vec<ObjectOutcome>,
    /// The detections that count, image by image, by descending score within a category of an image: COCO's
    /// order of equal scores.
    pub(super) ranked: Vec<usize>,
}

/// Says of every detection and every object what became of it.
///
/// A detection that fits several kinds is of the first of: localisation, classification, duplicate,
/// background, both; that is the order of the published program.
///
/// # Errors
/// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
pub fn diagnose(truth: &GroundTruth, detections: &[Detection]) -> Result<Diagnosis> {
    check_in_memory(truth, detections)?;
    let evaluation = matched(truth, detections, TRUTH, |params| {
        params.iou_thrs = vec![FOREGROUND_IOU];
        params.max_dets = vec![params.max_det()];
        let all = params.all_area_range();
        params.area_ranges.retain(|size| size.range == all);
    })?;
    let mut cells: Vec<&EvalImg> = evaluation.eval_imgs().iter().flatten().collect();
    cells.sort_by_key(|cell| (cell.image_id, cell.category_id));

    let mut by_image: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, object) in truth.boxes.iter().enumerate().filter(|(_, object)| !object.is_crowd) {
        by_image.entry(object.image_id).or_default().push(at);
    }
    let state = |object: &GroundTruthBox| {
        if object.is_crowd { ObjectOutcome::Crowd } else { ObjectOutcome::Missed }
    };
    let mut diagnosis = Diagnosis {
        detections: vec![Outcome::Ignored; detections.len()],
        objects: truth.boxes.iter().map(state).collect(),
        ranked: Vec::with_capacity(detections.len()),
    };
    for cell in cells {
        let objects = by_image.get(&cell.image_id).map_or(&[][..], Vec::as_slice);
        for (rank, &id) in cell.dt_ids.iter().enumerate() {
            if cell.dt_ignore[(0, rank)] {
                continue;
            }
            // An id is a position plus 1.
            let at = (id - 1) as usize;
            let outcome = if cell.dt_matched[(0, rank)] {
                Outcome::Correct((cell.dt_matches[(0, rank)] - 1) as usize)
            } else {
                error(&detections[at], objects, truth)
            };
            match outcome {
                Outcome::Correct(object) => diagnosis.objects[object] = ObjectOutcome::Found(at),
                Outcome::Wrong(_, Some(object)) => cover(&mut diagnosis.objects[object]),
                _ => {}
            }
            diagnosis.detections[at] = outcome;
            diagnosis.ranked.push(at);
        }
    }
    Ok(diagnosis)
}

fn cover(object: &mut ObjectOutcome) {
    if *object == ObjectOutcome::Missed {
        *object = ObjectOutcome::Covered;
    }
}

/// The error of a detection that was given no object, from the best overlap with an object of its own
/// category and of another one.
fn error(detection: &Detection, objects: &[usize], truth: &GroundTruth) -> Outcome {
    let best = |same: bool| {
        let there = objects.iter().map(|&at| (at, &truth.boxes[at]));
        let there = there.filter(|(_, object)| (object.category_id == detection.category_id) == same);
        there
            .map(|(at, object)| (overlap(&detection.bbox, &object.bbox), at))
            .fold((0.0, None), |best, (iou, at)| if iou > best.0 { (iou, Some(at)) } else { best })
    };
    let ((own, own_object), (other, other_object)) = (best(true), best(false));
    if (BACKGROUND_IOU..FOREGROUND_IOU).contains(&own) {
        Outcome::Wrong(ErrorKind::Localization, own_object)
    } else if other >= FOREGROUND_IOU {
        Outcome::Wrong(ErrorKind::Classification, other_object)
    } else if own >= FOREGROUND_IOU {
        // The object was there to be taken: a detection of higher score has it.
        Outcome::Wrong(ErrorKind::Duplicate, None)
    } else if other < BACKGROUND_IOU {
        Outcome::Wrong(ErrorKind::Background, None)
    } else {
        Outcome::Wrong(ErrorKind::Both, None)
    }
}
