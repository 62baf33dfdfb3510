//! What each kind of error costs: average precision with it fixed, less average precision as it is.

use super::diagnosis::{Diagnosis, ErrorKind, ObjectOutcome, Outcome};
use super::ranking::Ranking;
use crate::detections::Detection;
use crate::ground_truth::GroundTruth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often each kind of error is made and what it costs.
///
/// The costs do not add up to 1 − `ap50`: fixing one kind changes what another costs. All fixed together,
/// every category has an average precision of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBreakdown {
    /// COCO's average precision at IoU 0.5, the mean over the categories with objects; −1 without any object.
    #[serde(with = "crate::json::or_null")]
    pub ap50: f64,
    /// Right detections.
    pub correct: usize,
    /// Detections that count neither way.
    pub ignored: usize,
    /// The six kinds, in the order of [`ErrorKind::ALL`].
    pub kinds: Vec<KindCost>,
    /// Gain in AP50 if no detection were wrong.
    pub delta_false_positives: f64,
    /// Gain in AP50 if every object were found, with the precision that the found ones have.
    pub delta_false_negatives: f64,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindCost {
    /// Which.
    pub kind: ErrorKind,
    /// Detections with it, or missed objects.
    pub count: usize,
    /// Gain in AP50 if it were fixed, from 0 to 1.
    pub delta_ap50: f64,
}

/// Counts the errors of a [`diagnosis`](super::diagnose) of `detections` on `truth`, and fixes one kind after
/// the other:
///
/// | kind | fixed by |
/// |---|---|
/// | classification, localisation | giving the detection the category or the box of the object that was meant; of several detections that an object has then, the one of highest score stays |
/// | both, duplicate, background | leaving the detection out |
/// | missed | leaving the object out |
///
/// The published program differs where the object that was meant has a right detection of lower score than
/// the fixed one: there it leaves the fixed one out, here the right one, as the publication says.
///
/// `truth` and `detections` are those that the diagnosis is of.
pub fn error_breakdown(
    truth: &GroundTruth,
    detections: &[Detection],
    diagnosis: &Diagnosis,
) -> ErrorBreakdown {
    let case = Case { truth, detections, diagnosis };
    let ap50 = case.average_precision(&Fix::default());
    let gain = |fix: Fix| case.average_precision(&fix) - ap50;
    let outcomes = || diagnosis.detections.iter();
    let count = |kind| match kind {
        ErrorKind::Missed => diagnosis.objects.iter().filter(|o| **o == ObjectOutcome::Missed).count(),
        _ => outcomes().filter(|o| matches!(o, Outcome::Wrong(of, _) if *of == kind)).count(),
    };
    let cost = |kind| {
        let delta_ap50 = gain(Fix { kinds: &[kind], ..Fix::default() });
        KindCost { kind, count: count(kind), delta_ap50 }
    };
    ErrorBreakdown {
        ap50,
        correct: outcomes().filter(|o| matches!(o, Outcome::Correct(_))).count(),
        ignored: outcomes().filter(|o| matches!(o, Outcome::Ignored)).count(),
        kinds: ErrorKind::ALL.map(cost).to_vec(),
        delta_false_positives: gain(Fix { none_wrong: true, ..Fix::default() }),
        delta_false_negatives: gain(Fix { all_found: true, ..Fix::default() }),
    }
}

/// AP50 with several kinds of errors fixed together; −1 without any object.
///
/// `truth` and `detections` are those that the diagnosis is of.
pub fn ap50_with_fixed(
    truth: &GroundTruth,
    detections: &[Detection],
    diagnosis: &Diagnosis,
    kinds: &[ErrorKind],
) -> f64 {
    Case { truth, detections, diagnosis }.average_precision(&Fix { kinds, ..Fix::default() })
}

/// What is put right before scoring.
#[derive(Default)]
struct Fix<'a> {
    kinds: &'a [ErrorKind],
    /// Wrong detections of every kind are left out.
    none_wrong: bool,
    /// Objects that were not found are left out.
    all_found: bool,
}

struct Case<'a> {
    truth: &'a GroundTruth,
    detections: &'a [Detection],
    diagnosis: &'a Diagnosis,
}

impl Case<'_> {
    fn average_precision(&self, fix: &Fix) -> f64 {
        let fixes = |kind: ErrorKind| fix.kinds.contains(&kind);
        let mut rankings: BTreeMap<u64, Ranking> = BTreeMap::new();
        for (object, outcome) in self.truth.boxes.iter().zip(&self.diagnosis.objects) {
            // A category counts if it has objects as annotated.
            if *outcome == ObjectOutcome::Crowd {
                continue;
            }
            let left_out = match outcome {
                ObjectOutcome::Missed => fix.all_found || fixes(ErrorKind::Missed),
                ObjectOutcome::Covered => fix.all_found,
                _ => false,
            };
            rankings.entry(object.category_id).or_default().objects += usize::from(!left_out);
        }
        // Per object the score and place of the detection that it has.
        let mut given: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
        for (place, &at) in self.diagnosis.ranked.iter().enumerate() {
            let (Some(detection), Some(outcome)) =
                (self.detections.get(at), self.diagnosis.detections.get(at))
            else {
                continue;
            };
            match *outcome {
                Outcome::Ignored => {}
                Outcome::Wrong(kind, Some(object)) if fixes(kind) => {
                    keep_higher(&mut given, object, detection.score, place);
                }
                Outcome::Wrong(kind, _) if fix.none_wrong || fixes(kind) => {}
                Outcome::Wrong(..) => {
                    if let Some(ranking) = rankings.get_mut(&detection.category_id) {
                        ranking.detections.push((detection.score, place, false));
                    }
                }
                Outcome::Correct(object) => keep_higher(&mut given, object, detection.score, place),
            }
        }
        for (object, (score, place)) in given {
            let category = self.truth.boxes.get(object).map(|object| object.category_id);
            if let Some(ranking) = category.and_then(|id| rankings.get_mut(&id)) {
                ranking.detections.push((score, place, true));
            }
        }
        let count = rankings.len();
        let sum: f64 = rankings.values_mut().map(Ranking::average_precision).sum();
        if count == 0 { -1.0 } else { sum / count as f64 }
    }
}

fn keep_higher(given: &mut BTreeMap<usize, (f64, usize)>, object: usize, score: f64, place: usize) {
    let held = given.entry(object).or_insert((score, place));
    if score > held.0 {
        *held = (score, place);
    }
}
