//! Kinds of errors and their costs, with one error of each kind by hand; and the images with the most errors.

use ebm_eval::{
    Detection, ErrorBreakdown, GroundTruth, GroundTruthBox, ImageErrors, Outcome, diagnose, error_breakdown,
    evaluate_coco_in_memory, operating_point, read_results,
};
use ebm_testing::fixture;
use proptest::prelude::*;

const A: u64 = 1;
const B: u64 = 2;

fn object(image_id: u64, category_id: u64, x: f64) -> GroundTruthBox {
    GroundTruthBox { image_id, category_id, bbox: [x, 0.0, 100.0, 100.0], area: 1e4, is_crowd: false }
}

fn found(image_id: u64, category_id: u64, x: f64, score: f64) -> Detection {
    Detection { image_id, category_id, bbox: [x, 0.0, 100.0, 100.0], score }
}

fn truth(boxes: Vec<GroundTruthBox>) -> GroundTruth {
    GroundTruth { images: vec![1, 2], categories: vec![A, B], boxes, ..Default::default() }
}

/// Returns count and cost of one kind.
fn of(costs: &ErrorBreakdown, kind: &str) -> (u64, f64) {
    let cost = costs.kinds.iter().find(|cost| cost.kind == kind).unwrap();
    (cost.count, cost.delta_ap50)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

/// Three objects of A, one of B. A correct detection of A has the highest score; one error of each kind follows.
fn one_of_each() -> (GroundTruth, Vec<Detection>) {
    let truth = truth(vec![object(1, A, 0.0), object(1, A, 1000.0), object(1, B, 2000.0), object(2, A, 0.0)]);
    let detections = vec![
        found(1, A, 0.0, 0.9),
        found(1, A, 5.0, 0.8),    // The first object once more.
        found(1, A, 1050.0, 0.7), // IoU 1/3 with the second.
        found(1, A, 2005.0, 0.6), // On B's object.
        found(1, A, 2050.0, 0.5), // Beside it.
        found(2, B, 500.0, 0.4),  // On nothing.
    ];
    (truth, detections)
}

#[test]
fn one_error_of_each_kind_is_told_apart() {
    let (truth, detections) = one_of_each();
    let diagnosis = diagnose(&truth, &detections).unwrap();
    assert_eq!(diagnosis.detections[0], Outcome::Correct(0));
    assert_eq!(diagnosis.detections[1..], [Outcome::Wrong; 5]);
    let costs = error_breakdown(&truth, &detections).unwrap();
    assert_eq!(costs.kinds.iter().map(|cost| cost.count).collect::<Vec<_>>(), [1; 6]);

    // By hand. A has 3 objects and, by score, right wrong wrong wrong wrong: recall 1/3 at precision 1, 34 of
    // the 101 recalls. B has 1 object and a wrong detection.
    let at = |a: f64, b: f64| (a + b) / 2.0;
    let base = at(34.0 / 101.0, 0.0);
    assert!(close(evaluate_coco_in_memory(&truth, &detections).unwrap().ap50, base));
    // A right at ranks 1 and 3: 33 more recalls at precision 2/3.
    assert!(close(of(&costs, "localization").1, at((34.0 + 33.0 * 2.0 / 3.0) / 101.0, 0.0) - base));
    // One wrong detection of A less, after the last right one; B's object found before the wrong one.
    assert!(close(of(&costs, "classification").1, at(34.0 / 101.0, 1.0) - base));
    // Nothing right comes after these.
    for kind in ["duplicate", "both", "background"] {
        assert!(close(of(&costs, kind).1, 0.0), "{kind}");
    }
    // A has 2 objects, and one is found: 51 recalls.
    assert!(close(of(&costs, "missed").1, at(51.0 / 101.0, 0.0) - base));
    // Without a wrong detection nothing changes for A; B has nothing.
    assert!(close(costs.delta_false_positives, 0.0));
    // A's only object is found at rank 1; B has no object left, only a detection.
    assert!(close(costs.delta_false_negatives, at(1.0, 0.0) - base));
}

#[test]
fn an_error_that_outranks_a_right_detection_costs_precision() {
    // One object, right at rank 2: precision 1/2 at every recall. Leaving out the first doubles it.
    let truth = truth(vec![object(1, A, 0.0), object(1, B, 300.0)]);
    for (wrong, kind) in [(found(1, A, 1000.0, 0.9), "background"), (found(1, A, 350.0, 0.9), "both")] {
        let costs =
            error_breakdown(&truth, &[wrong, found(1, A, 0.0, 0.5), found(1, B, 300.0, 0.5)]).unwrap();
        assert!(close(costs.delta_false_positives, 0.25));
        for cost in &costs.kinds {
            let expected = if cost.kind == kind { (1, 0.25) } else { (0, 0.0) };
            assert!(cost.count == expected.0 && close(cost.delta_ap50, expected.1), "{cost:?}");
        }
    }
    // Two objects: the duplicate stands between the two right ones, 51 + 50 · 2/3 of 101 recalls.
    let truth = GroundTruth { boxes: vec![object(1, A, 0.0), object(1, A, 300.0)], ..truth };
    let detections = [found(1, A, 0.0, 0.9), found(1, A, 1.0, 0.8), found(1, A, 300.0, 0.7)];
    let costs = error_breakdown(&truth, &detections).unwrap();
    let base = (51.0 + 50.0 * 2.0 / 3.0) / 101.0;
    assert_eq!(of(&costs, "duplicate").0, 1);
    assert!(close(of(&costs, "duplicate").1, 1.0 - base));
}

#[test]
fn crowds_and_what_falls_on_them_count_neither_way() {
    let crowd = GroundTruthBox {
        is_crowd: true,
        bbox: [500.0, 0.0, 400.0, 400.0],
        area: 160_000.0,
        ..object(1, A, 0.0)
    };
    let truth = truth(vec![object(1, A, 0.0), crowd]);
    // Two detections within the crowd, one of another category within it.
    let detections =
        [found(1, A, 0.0, 0.5), found(1, A, 550.0, 0.9), found(1, A, 600.0, 0.8), found(1, B, 550.0, 0.9)];
    let outcomes = diagnose(&truth, &detections).unwrap().detections;
    assert_eq!(outcomes, [Outcome::Correct(0), Outcome::Ignored, Outcome::Ignored, Outcome::Wrong]);
    let costs = error_breakdown(&truth, &detections).unwrap();
    assert_eq!((of(&costs, "background").0, of(&costs, "missed")), (1, (0, 0.0)));
}

#[test]
fn nothing_found_and_nothing_to_find() {
    // A category without objects has an average precision of 0, as in the published program.
    let objects = truth(vec![object(1, A, 0.0), object(2, B, 0.0)]);
    let costs = error_breakdown(&objects, &[]).unwrap();
    assert_eq!((of(&costs, "missed"), costs.delta_false_negatives), ((2, 0.0), 0.0));
    let costs = error_breakdown(&truth(vec![]), &[found(1, A, 0.0, 0.5)]).unwrap();
    assert_eq!(of(&costs, "background"), (1, 0.0));
}

#[test]
fn only_the_hundred_best_of_an_image_and_category_count() {
    let truth = truth(vec![object(1, A, 0.0)]);
    let mut detections: Vec<Detection> =
        (0..100).map(|i| found(1, A, 1000.0 + 200.0 * f64::from(i), 0.9)).collect();
    detections.push(found(1, A, 0.0, 0.1));
    assert_eq!(diagnose(&truth, &detections).unwrap().detections[100], Outcome::Ignored);
}

#[test]
fn the_image_with_the_most_errors_at_the_best_score_comes_first() {
    let truth = truth(vec![object(1, A, 0.0), object(1, A, 300.0), object(2, A, 0.0)]);
    let detections = [
        found(1, A, 0.0, 0.9),
        found(1, A, 300.0, 0.8),
        found(1, A, 310.0, 0.75), // A duplicate.
        found(2, A, 600.0, 0.7),  // On nothing.
        found(2, A, 0.0, 0.2),    // Right, but with too many wrong ones before it.
        found(1, A, 900.0, 0.6),
        found(1, A, 1200.0, 0.55),
        found(1, A, 1500.0, 0.5),
    ];
    let all = diagnose(&truth, &detections).unwrap();
    let point = operating_point(&detections, &all);
    // 2 of 2 with 3 objects: F1 = 4/5.
    assert_eq!((point.threshold, point.precision), (Some(0.8), 1.0));
    assert!(close(point.f1, 0.8) && close(point.recall, 2.0 / 3.0));
    let kept: Vec<Detection> = detections.into_iter().filter(|found| point.keeps(found.score)).collect();
    assert_eq!(kept.len(), 2);
    let clean = ImageErrors { image_id: 1, correct: 2, wrong: 0, missed: 0, f1: 1.0 };
    let missed = ImageErrors { image_id: 2, correct: 0, wrong: 0, missed: 1, f1: 0.0 };
    assert_eq!(diagnose(&truth, &kept).unwrap().images, [missed, clean]);

    // With every detection: four wrong in image 1, one in image 2.
    let wrong = |image: &ImageErrors| (image.image_id, image.correct, image.wrong, image.missed);
    assert_eq!(all.images.iter().map(wrong).collect::<Vec<_>>(), [(1, 2, 4, 0), (2, 1, 1, 0)]);
    assert!(close(all.images[0].f1, 4.0 / 8.0) && close(all.images[1].f1, 2.0 / 3.0));

    // Nothing right: there is no best score.
    let nothing = [found(1, A, 900.0, 0.5)];
    let point = operating_point(&nothing, &diagnose(&truth, &nothing).unwrap());
    assert_eq!((point.threshold, point.f1), (None, 0.0));
    // An image with nothing in it has no error.
    let empty = GroundTruth { images: vec![1, 2], categories: vec![A], ..GroundTruth::default() };
    assert_eq!(diagnose(&empty, &[]).unwrap().images[1].f1, 1.0);
}

/// A few boxes on a coarse grid, so that every kind of error occurs often.
fn problem() -> impl Strategy<Value = (GroundTruth, Vec<Detection>)> {
    let place = || (1..3u64, 1..4u64, 0..12u32, 0..3u32, 2..5u32, 2..5u32);
    let bbox = |x, y, w, h| [x, y, w, h].map(|v: u32| f64::from(v) * 10.0);
    let object = (place(), prop::bool::weighted(0.1)).prop_map(move |((i, c, x, y, w, h), is_crowd)| {
        let bbox = bbox(x, y, w, h);
        GroundTruthBox { image_id: i, category_id: c, bbox, area: bbox[2] * bbox[3], is_crowd }
    });
    let detection = (place(), 1..20u32).prop_map(move |((i, c, x, y, w, h), score)| Detection {
        image_id: i,
        category_id: c,
        bbox: bbox(x, y, w, h),
        score: f64::from(score) / 20.0,
    });
    (prop::collection::vec(object, 0..10), prop::collection::vec(detection, 0..30)).prop_map(
        |(boxes, detections)| {
            let truth =
                GroundTruth { images: vec![1, 2], categories: vec![1, 2, 3], boxes, ..Default::default() };
            (truth, detections)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Every detection and every object is counted once, and a higher score of a correct detection costs nothing.
    #[test]
    fn the_counts_add_up((truth, detections) in problem()) {
        let (diagnosis, costs) = (diagnose(&truth, &detections).unwrap(), error_breakdown(&truth, &detections).unwrap());
        let count = |kind: fn(&Outcome) -> bool| diagnosis.detections.iter().filter(|found| kind(found)).count() as u64;
        let wrong: u64 = costs.kinds[..5].iter().map(|cost| cost.count).sum();
        prop_assert_eq!(count(|outcome| *outcome == Outcome::Wrong), wrong);
        let right = count(|outcome| matches!(outcome, Outcome::Correct(_)));
        let of_images: u64 = diagnosis.images.iter().map(|image| u64::from(image.correct)).sum();
        prop_assert_eq!(right, of_images);
        let objects = truth.boxes.iter().filter(|object| !object.is_crowd).count() as u64;
        let missed: u64 = diagnosis.images.iter().map(|image| u64::from(image.missed)).sum();
        prop_assert_eq!(right + missed, objects);
        for (detection, outcome) in detections.iter().zip(&diagnosis.detections) {
            if let Outcome::Correct(object) = outcome {
                let object = &truth.boxes[*object];
                prop_assert_eq!((object.image_id, object.category_id), (detection.image_id, detection.category_id));
            }
        }
        for cost in &costs.kinds {
            prop_assert!(cost.count > 0 || close(cost.delta_ap50, 0.0), "{cost:?}");
        }
    }
}

/// The numbers are those of golden/count_errors.py, which counts by TIDE's definitions with numpy.
#[test]
fn the_errors_of_published_results_are_counted() {
    let dir = fixture("coco_eval");
    let truth = GroundTruth::read(&dir.join("instances_val2014_100.json")).unwrap();
    let detections = read_results(&dir.join("instances_val2014_fakebbox100_results.json")).unwrap();
    let costs = error_breakdown(&truth, &detections).unwrap();
    assert_eq!(costs.kinds.iter().map(|cost| cost.count).collect::<Vec<_>>(), [83, 1, 0, 1, 0, 97]);
    let diagnosis = diagnose(&truth, &detections).unwrap();
    assert_eq!(diagnosis.images.iter().map(|image| image.correct).sum::<u32>(), 649);
}
