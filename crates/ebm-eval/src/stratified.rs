//! Average precision and overlap of a part of the objects: a stratum, such as the occluded ones.
//!
//! Detections have no occlusion, so what they owe to a stratum must be decided. The detections are matched
//! once with all objects, as pycocotools does; then, in each stratum and at each threshold, a detection that
//! is matched
//!
//! * with an object of the stratum is right;
//! * with another object, or a crowd region, is neither right nor wrong, as COCO has it outside an area range.
//!
//! One that is not matched is wrong. Where it overlaps an object of its category by [`NEAR`] or more, it is a
//! bad localisation of that object or a second detection of it, and is wrong in that object's stratum alone:
//! else better boxes of occluded objects would count as a gain of the others too. Where it does not, it
//! belongs to no object, and every stratum bears a share of it, the stratum's share of the category's
//! objects: if all the false positives counted in each, a small stratum would look worse than a large one of
//! equal quality, and its gains smaller. Strata that divide the objects among them thus divide the false
//! positives too; the stratum of everything has COCO's AP.

use std::collections::BTreeMap;

use hotcoco::EvalImg;
use hotcoco::metrics::counts::{PrCurveScratch, precision_recall_curve_into};

use crate::coco::evaluator;
use crate::detections::{Detection, check_boxes, check_ids};
use crate::error::{Error, Result};
use crate::ground_truth::GroundTruth;
use crate::tracking::overlap;

/// The least IoU by which a detection belongs to an object that it is not matched with.
pub const NEAR: f64 = 0.1;

/// Detections matched with the objects at COCO's ten IoU thresholds, to be scored stratum by stratum.
#[derive(Clone, Debug)]
pub struct Matching {
    categories: Vec<Category>,
    recalls: Vec<f64>,
    images: usize,
    boxes: usize,
    overlaps: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Default)]
struct Category {
    objects: Vec<Object>,
    /// Best score first.
    detections: Vec<Ranked>,
}

/// An object that is no crowd region.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// Its place in [`GroundTruth::boxes`].
    index: usize,
    /// Its image's place in [`GroundTruth::images`].
    image: usize,
}

#[derive(Clone, Debug)]
struct Ranked {
    score: f64,
    image: usize,
    /// At each threshold.
    outcomes: Vec<Outcome>,
    /// The object that it overlaps most, by [`NEAR`] or more.
    near: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Matched with this object.
    Object(usize),
    /// Matched with a crowd region.
    Ignored,
    /// Not matched.
    False,
}

impl Matching {
    /// Matches as [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory) does: at most 100 detections
    /// per image and category, equal scores in the order given.
    ///
    /// # Errors
    /// Those of [`evaluate_coco_in_memory`](crate::evaluate_coco_in_memory).
    pub fn new(truth: &GroundTruth, detections: &[Detection]) -> Result<Self> {
        const TRUTH: &str = "annotations in memory";
        const DETECTIONS: &str = "detections in memory";
        truth.check(TRUTH)?;
        check_boxes(detections, DETECTIONS)?;
        check_ids(detections, truth, DETECTIONS)?;
        let fail = |source| Error::Evaluator { origin: TRUTH.into(), source };
        let mut evaluation = evaluator(truth, detections).map_err(fail)?;
        evaluation.params.area_ranges.truncate(1);
        evaluation.evaluate().map_err(fail)?;

        let images: BTreeMap<u64, usize> = truth.images.iter().copied().zip(0..).collect();
        let mut categories: BTreeMap<u64, Category> = BTreeMap::new();
        for (index, object) in truth.boxes.iter().enumerate().filter(|(_, object)| !object.is_crowd) {
            let category = categories.entry(object.category_id).or_default();
            category.objects.push(Object { index, image: images[&object.image_id] });
        }
        let mut overlaps = vec![None; truth.boxes.len()];
        for cell in evaluation.eval_imgs().iter().flatten() {
            // Without objects a category has no AP, whatever is detected of it.
            let Some(category) = categories.get_mut(&cell.category_id) else { continue };
            let image = images[&cell.image_id];
            for (place, &id) in cell.dt_ids.iter().enumerate() {
                let detection = &detections[id as usize - 1];
                let outcomes: Vec<Outcome> =
                    (0..cell.dt_matched.num_rows()).map(|row| outcome(cell, row, place)).collect();
                if let Some(&Outcome::Object(object)) = outcomes.first() {
                    overlaps[object] = Some(overlap(&detection.bbox, &truth.boxes[object].bbox));
                }
                let near = category.objects.iter().filter(|object| object.image == image);
                let near = near
                    .map(|object| (object.index, overlap(&detection.bbox, &truth.boxes[object.index].bbox)));
                let near = near.filter(|(_, iou)| *iou >= NEAR).max_by(|a, b| a.1.total_cmp(&b.1));
                let near = near.map(|(index, _)| index);
                category.detections.push(Ranked { score: detection.score, image, outcomes, near });
            }
        }
        for category in categories.values_mut() {
            // Stable: equal scores stay in the order of their images, as in pycocotools.
            let descending =
                |a: &Ranked, b: &Ranked| b.score.partial_cmp(&a.score).unwrap_or(std::cmp::Ordering::Equal);
            category.detections.sort_by(descending);
        }
        Ok(Self {
            categories: categories.into_values().collect(),
            recalls: evaluation.params.rec_thrs.clone(),
            images: truth.images.len(),
            boxes: truth.boxes.len(),
            overlaps,
        })
    }

    /// For each of [`GroundTruth::boxes`] the IoU with the detection that is matched with it at IoU 0.5, if
    /// any is.
    pub fn overlaps(&self) -> &[Option<f64>] {
        &self.overlaps
    }

    /// Average precision over IoU 0.50:0.05:0.95 in the stratum of the objects of which `stratum` is true,
    /// one entry for each of [`GroundTruth::boxes`]; the mean over the categories that have an object there,
    /// none where none has.
    ///
    /// # Errors
    /// [`Error::Lengths`].
    pub fn average_precision(&self, stratum: &[bool]) -> Result<Option<f64>> {
        self.average_precision_of(stratum, &vec![1; self.images])
    }

    /// The same where image i of [`GroundTruth::images`] counts `times[i]` times: a sample of the images with
    /// replacement.
    ///
    /// # Errors
    /// [`Error::Lengths`].
    pub fn average_precision_of(&self, stratum: &[bool], times: &[usize]) -> Result<Option<f64>> {
        let same = |what, found, expected| match found == expected {
            true => Ok(()),
            false => Err(Error::Lengths { what, found, expected }),
        };
        same("entries of the stratum", stratum.len(), self.boxes)?;
        same("counts of images", times.len(), self.images)?;
        let mut scratch = Scratch::default();
        let precisions: Vec<f64> = (self.categories.iter())
            .filter_map(|category| category.average_precision(stratum, times, &self.recalls, &mut scratch))
            .collect();
        let count = precisions.len();
        Ok((count > 0).then(|| precisions.iter().sum::<f64>() / count as f64))
    }
}

fn outcome(cell: &EvalImg, row: usize, place: usize) -> Outcome {
    match (cell.dt_matched[(row, place)], cell.dt_ignore[(row, place)]) {
        (true, true) => Outcome::Ignored,
        (true, false) => Outcome::Object(cell.dt_matches[(row, place)] as usize - 1),
        (false, _) => Outcome::False,
    }
}

/// Buffers that one curve after the other uses.
#[derive(Default)]
struct Scratch {
    right: Vec<f64>,
    wrong: Vec<f64>,
    curve: PrCurveScratch,
    points: Vec<(usize, f64, usize)>,
}

impl Category {
    /// The mean over the thresholds; none without an object in the stratum.
    fn average_precision(
        &self,
        stratum: &[bool],
        times: &[usize],
        recalls: &[f64],
        scratch: &mut Scratch,
    ) -> Option<f64> {
        let (mut inside, mut all) = (0, 0);
        for object in &self.objects {
            all += times[object.image];
            inside += if stratum[object.index] { times[object.image] } else { 0 };
        }
        if inside == 0 {
            return None;
        }
        let share = inside as f64 / all as f64;
        let thresholds = self.detections.first().map_or(0, |detection| detection.outcomes.len());
        let mut sum = 0.0;
        for threshold in 0..thresholds {
            let Scratch { right, wrong, curve, points } = &mut *scratch;
            right.clear();
            wrong.clear();
            let (mut tp, mut fp) = (0.0, 0.0);
            for detection in self.detections.iter().filter(|detection| times[detection.image] > 0) {
                let times = times[detection.image] as f64;
                match (detection.outcomes[threshold], detection.near) {
                    (Outcome::Object(object), _) if stratum[object] => tp += times,
                    (Outcome::False, Some(object)) if stratum[object] => fp += times,
                    (Outcome::False, None) => fp += times * share,
                    _ => continue,
                }
                right.push(tp);
                wrong.push(fp);
            }
            precision_recall_curve_into(right, wrong, inside, recalls, curve, points);
            sum += points.iter().map(|(_, precision, _)| precision).sum::<f64>() / recalls.len() as f64;
        }
        Some(sum / thresholds.max(1) as f64)
    }
}
