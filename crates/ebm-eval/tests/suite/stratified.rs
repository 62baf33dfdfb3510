//! Scores of a part of the objects, against COCO's for all of them and against cases solved by hand.

use ebm_eval::{
    Detection, Error, GroundTruth, GroundTruthBox, Matching, evaluate_coco_in_memory, read_results,
};
use proptest::prelude::*;
use serde_json::Value;

fn close(found: Option<f64>, expected: f64) -> bool {
    // COCO's precision has a machine epsilon in its denominator.
    (found.unwrap() - expected).abs() < 1e-12
}

/// The problems that pycocotools solved for `golden/coco_golden.json`, crowds and equal scores among them.
fn problems() -> Vec<(GroundTruth, Vec<Detection>)> {
    let golden: Value = serde_json::from_str(include_str!("../golden/coco_golden.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let read = |problem: &Value| {
        let [truth, results] = ["truth", "results"].map(|key| {
            let path = dir.path().join(key);
            std::fs::write(&path, problem[key].to_string()).unwrap();
            path
        });
        (GroundTruth::read(&truth).unwrap(), read_results(&results).unwrap())
    };
    golden["problems"].as_array().unwrap().iter().map(read).collect()
}

#[test]
fn the_stratum_of_everything_has_the_ordinary_ap() {
    let mut crowds = 0;
    for (truth, detections) in problems() {
        let expected = evaluate_coco_in_memory(&truth, &detections).unwrap().ap;
        let matching = Matching::new(&truth, &detections).unwrap();
        let found = matching.average_precision(&vec![true; truth.boxes.len()]).unwrap();
        assert!((found.unwrap_or(-1.0) - expected).abs() < 1e-12, "{found:?} is not {expected}");
        crowds += truth.boxes.iter().filter(|object| object.is_crowd).count();
    }
    assert!(crowds > 0);
}

fn object(image_id: u64, x: f64) -> GroundTruthBox {
    let bbox = [x, 20.0, 10.0, 10.0];
    GroundTruthBox { image_id, category_id: 3, bbox, area: 100.0, is_crowd: false }
}

/// A detection of the object at `x`, of `width` instead of 10: its IoU with the object is `width` / 10.
fn detection(image_id: u64, x: f64, width: f64, score: f64) -> Detection {
    Detection { image_id, category_id: 3, bbox: [x, 20.0, width, 10.0], score }
}

fn truth(boxes: Vec<GroundTruthBox>) -> GroundTruth {
    GroundTruth { images: vec![1, 2], categories: vec![3], names: Default::default(), boxes }
}

fn precision(truth: &GroundTruth, detections: &[Detection], stratum: &[bool]) -> Option<f64> {
    Matching::new(truth, detections).unwrap().average_precision(stratum).unwrap()
}

#[test]
fn a_bad_box_is_wrong_in_its_own_objects_stratum_alone() {
    let truth = truth(vec![object(1, 0.0), object(1, 50.0)]);
    // The second comes first and has IoU 0.62: three of the ten thresholds.
    let found = [detection(1, 0.0, 10.0, 0.5), detection(1, 50.0, 6.2, 0.9)];
    assert!(close(precision(&truth, &found, &[true, false]), 1.0));
    assert!(close(precision(&truth, &found, &[false, true]), 0.3));
    // A second detection of an object, too. The one that is half a pixel off (IoU 9.5 / 10.5) comes first; at
    // the last threshold it is wrong, and precision 1/2.
    let twice = [found[0], found[1], detection(1, 0.5, 10.0, 0.95)];
    assert!(close(precision(&truth, &twice, &[true, false]), 0.95));
    assert!(close(precision(&truth, &twice, &[false, true]), 0.3));
}

#[test]
fn what_lies_on_no_object_is_shared_and_equal_quality_scores_equally() {
    let truth = truth(vec![object(1, 0.0), object(1, 50.0), object(2, 0.0), object(2, 50.0)]);
    let mut found = vec![detection(2, 80.0, 10.0, 0.9)];
    found.extend(truth.boxes.iter().map(|object| detection(object.image_id, object.bbox[0], 10.0, 0.5)));
    // Every share: 1 of 4, 3 of 4, all. One false detection before four right ones gives precision 4/5 at the
    // end, which is the envelope everywhere.
    for stratum in [[true, false, false, false], [false, true, true, true], [true; 4]] {
        assert!(close(precision(&truth, &found, &stratum), 0.8));
    }
}

#[test]
fn objects_outside_a_stratum_count_neither_way() {
    let truth = truth(vec![object(1, 0.0), object(1, 50.0)]);
    let only_the_other = [detection(1, 50.0, 10.0, 0.9)];
    assert!(close(precision(&truth, &only_the_other, &[true, false]), 0.0));
    assert!(close(precision(&truth, &only_the_other, &[false, true]), 1.0));
    assert_eq!(precision(&truth, &only_the_other, &[false, false]), None);
    assert!(close(precision(&truth, &[], &[true, false]), 0.0));
}

#[test]
fn overlaps_are_those_of_the_detections_matched_at_one_half() {
    let mut truth = truth(vec![object(1, 0.0), object(1, 50.0), object(2, 0.0), object(2, 50.0)]);
    truth.boxes[3].is_crowd = true;
    let found = [
        detection(1, 0.0, 8.0, 0.5),
        detection(1, 50.0, 4.0, 0.5),
        detection(2, 0.0, 6.0, 0.9),
        // Better, but later.
        detection(2, 0.0, 10.0, 0.5),
        detection(2, 50.0, 10.0, 0.5),
    ];
    let matching = Matching::new(&truth, &found).unwrap();
    let expected = [Some(0.8), None, Some(0.6), None];
    for (found, expected) in matching.overlaps().iter().zip(expected) {
        assert!(found.is_some() == expected.is_some());
        assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12);
    }
}

#[test]
fn lists_of_another_length_are_refused() {
    let truth = truth(vec![object(1, 0.0)]);
    let matching = Matching::new(&truth, &[]).unwrap();
    assert!(matches!(matching.average_precision(&[true; 2]), Err(Error::Lengths { expected: 1, .. })));
    assert!(matches!(
        matching.average_precision_of(&[true], &[1; 3]),
        Err(Error::Lengths { expected: 2, .. })
    ));
    let elsewhere = [detection(5, 0.0, 10.0, 0.5)];
    assert!(matches!(Matching::new(&truth, &elsewhere), Err(Error::Detection { index: 0, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Counting an image not at all is leaving it out; counting all of them twice changes nothing.
    #[test]
    fn images_count_as_often_as_they_are_told(pick in 0..7usize, left_out in any::<u64>(), parity in 0..2usize) {
        let (truth, detections) = problems().swap_remove(pick);
        let matching = Matching::new(&truth, &detections).unwrap();
        let stratum: Vec<bool> = (0..truth.boxes.len()).map(|i| i % 2 == parity).collect();
        let out = (left_out % truth.images.len() as u64) as usize;
        let mut times = vec![1; truth.images.len()];
        times[out] = 0;
        let id = truth.images[out];
        let mut less = truth.clone();
        less.images.remove(out);
        less.boxes.retain(|object| object.image_id != id);
        if less.images.is_empty() {
            return Ok(());
        }
        let kept: Vec<Detection> = detections.iter().copied().filter(|d| d.image_id != id).collect();
        let inside = truth.boxes.iter().zip(&stratum).filter(|(object, _)| object.image_id != id);
        let inside: Vec<bool> = inside.map(|(_, &inside)| inside).collect();
        let expected = Matching::new(&less, &kept).unwrap().average_precision(&inside).unwrap();
        let found = matching.average_precision_of(&stratum, &times).unwrap();
        prop_assert_eq!(found.is_some(), expected.is_some());
        prop_assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12);
        let once = matching.average_precision(&stratum).unwrap();
        let twice = matching.average_precision_of(&stratum, &vec![2; truth.images.len()]).unwrap();
        prop_assert!((once.unwrap_or(0.0) - twice.unwrap_or(0.0)).abs() < 1e-12);
    }
}
