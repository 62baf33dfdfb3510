//! The kinds of errors and their costs: one error of each kind by hand, identities, and the evaluator's own
//! breakdown.

use ebm_eval::error_breakdown::ap50_with_fixed;
use ebm_eval::{
    Detection, Diagnosis, ErrorBreakdown, ErrorKind, GroundTruth, GroundTruthBox, ObjectOutcome, Outcome,
    diagnose, error_breakdown, evaluate_coco_in_memory, image_errors, operating_point, read_results,
};
use ebm_testing::fixture;
use hotcoco::params::IouType;
use hotcoco::{Annotation, COCO, COCOeval, Category, Dataset, Image};
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

fn breakdown(truth: &GroundTruth, detections: &[Detection]) -> (Diagnosis, ErrorBreakdown) {
    let diagnosis = diagnose(truth, detections).unwrap();
    let costs = error_breakdown(truth, detections, &diagnosis);
    (diagnosis, costs)
}

/// Count and cost of one kind.
fn of(costs: &ErrorBreakdown, kind: ErrorKind) -> (usize, f64) {
    let cost = costs.kinds.iter().find(|cost| cost.kind == kind).unwrap();
    (cost.count, cost.delta_ap50)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

/// Three objects of A, one of B; a right detection of A scores highest, then one error of each kind.
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
    let (diagnosis, costs) = breakdown(&truth, &detections);
    use ErrorKind::{Background, Both, Classification, Duplicate, Localization, Missed};
    assert_eq!(
        diagnosis.detections,
        [
            Outcome::Correct(0),
            Outcome::Wrong(Duplicate, None),
            Outcome::Wrong(Localization, Some(1)),
            Outcome::Wrong(Classification, Some(2)),
            Outcome::Wrong(Both, None),
            Outcome::Wrong(Background, None),
        ]
    );
    use ObjectOutcome::{Covered, Found};
    assert_eq!(diagnosis.objects, [Found(0), Covered, Covered, ObjectOutcome::Missed]);
    assert!(costs.kinds.iter().all(|cost| cost.count == 1) && costs.correct == 1);

    // By hand. A has 3 objects and, by score, right wrong wrong wrong wrong: recall 1/3 at precision 1, 34 of
    // the 101 recalls. B has 1 object and a wrong detection.
    let at = |a: f64, b: f64| (a + b) / 2.0;
    let base = at(34.0 / 101.0, 0.0);
    assert!(close(costs.ap50, base), "{}", costs.ap50);
    // A right at ranks 1 and 3: 33 more recalls at precision 2/3.
    assert!(close(of(&costs, Localization).1, at((34.0 + 33.0 * 2.0 / 3.0) / 101.0, 0.0) - base));
    // One wrong detection of A less, after the last right one; B's object found before the wrong one.
    assert!(close(of(&costs, Classification).1, at(34.0 / 101.0, 1.0) - base));
    // Nothing right comes after these.
    for kind in [Duplicate, Both, Background] {
        assert!(close(of(&costs, kind).1, 0.0), "{kind:?}");
    }
    // A has 2 objects, of which one is found: 51 recalls.
    assert!(close(of(&costs, Missed).1, at(51.0 / 101.0, 0.0) - base));
    // Without a wrong detection nothing changes for A; B has nothing.
    assert!(close(costs.delta_false_positives, 0.0));
    // A's one object of one found at rank 1; none of B is left, but a detection.
    assert!(close(costs.delta_false_negatives, at(1.0, 0.0) - base));
}

#[test]
fn an_error_that_outranks_a_right_detection_costs_precision() {
    // One object, right at rank 2: precision 1/2 at every recall. Leaving out the first doubles it.
    let truth = truth(vec![object(1, A, 0.0), object(1, B, 300.0)]);
    for (wrong, kind) in
        [(found(1, A, 1000.0, 0.9), ErrorKind::Background), (found(1, A, 350.0, 0.9), ErrorKind::Both)]
    {
        let (_, costs) = breakdown(&truth, &[wrong, found(1, A, 0.0, 0.5), found(1, B, 300.0, 0.5)]);
        assert!(close(costs.ap50, 0.75) && close(costs.delta_false_positives, 0.25));
        for cost in &costs.kinds {
            let expected = if cost.kind == kind { (1, 0.25) } else { (0, 0.0) };
            assert!(cost.count == expected.0 && close(cost.delta_ap50, expected.1), "{cost:?}");
        }
    }
    // Two objects: the duplicate stands between the two right ones, 51 + 50 · 2/3 of 101 recalls.
    let truth = GroundTruth { boxes: vec![object(1, A, 0.0), object(1, A, 300.0)], ..truth };
    let detections = [found(1, A, 0.0, 0.9), found(1, A, 1.0, 0.8), found(1, A, 300.0, 0.7)];
    let (_, costs) = breakdown(&truth, &detections);
    let base = (51.0 + 50.0 * 2.0 / 3.0) / 101.0;
    assert!(close(costs.ap50, base) && of(&costs, ErrorKind::Duplicate).0 == 1);
    assert!(close(of(&costs, ErrorKind::Duplicate).1, 1.0 - base));
}

#[test]
fn the_thresholds_belong_to_the_better_side() {
    let outcome = |x: f64, category| {
        let truth = truth(vec![object(1, A, 0.0)]);
        diagnose(&truth, &[found(1, category, x, 0.5)]).unwrap().detections[0]
    };
    // Shifted by s of 100: IoU (100 − s)/(100 + s), which is 1/2 at 100/3.
    assert_eq!(outcome(33.3, A), Outcome::Correct(0));
    assert_eq!(outcome(33.4, A), Outcome::Wrong(ErrorKind::Localization, Some(0)));
    assert_eq!(outcome(33.3, B), Outcome::Wrong(ErrorKind::Classification, Some(0)));
    assert_eq!(outcome(33.4, B), Outcome::Wrong(ErrorKind::Both, None));
    // 1/10 at 900/11.
    assert_eq!(outcome(81.8, A), Outcome::Wrong(ErrorKind::Localization, Some(0)));
    assert_eq!(outcome(81.9, A), Outcome::Wrong(ErrorKind::Background, None));
    assert_eq!(outcome(81.8, B), Outcome::Wrong(ErrorKind::Both, None));
    assert_eq!(outcome(81.9, B), Outcome::Wrong(ErrorKind::Background, None));
}

#[test]
fn a_fixed_detection_takes_an_object_from_one_of_lower_score() {
    // Localisation error 0.9 and right detection 0.5 of one object: after the fix one right detection is
    // left, at rank 1. Of two localisation errors of one object, one is left.
    let truth = truth(vec![object(1, A, 0.0)]);
    let detections = [found(1, A, 50.0, 0.9), found(1, A, 0.0, 0.5), found(1, A, -50.0, 0.4)];
    let (diagnosis, costs) = breakdown(&truth, &detections);
    assert_eq!(diagnosis.objects, [ObjectOutcome::Found(1)]);
    assert!(close(costs.ap50, 0.5));
    assert_eq!(of(&costs, ErrorKind::Localization).0, 2);
    assert!(close(of(&costs, ErrorKind::Localization).1, 0.5));
    assert_eq!(of(&costs, ErrorKind::Missed), (0, 0.0));
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
    let (diagnosis, costs) = breakdown(&truth, &detections);
    assert_eq!(diagnosis.objects, [ObjectOutcome::Found(0), ObjectOutcome::Crowd]);
    assert_eq!(diagnosis.detections[..3], [Outcome::Correct(0), Outcome::Ignored, Outcome::Ignored]);
    assert_eq!(diagnosis.detections[3], Outcome::Wrong(ErrorKind::Background, None));
    assert_eq!((costs.ap50, costs.ignored), (1.0, 2));
    assert_eq!(of(&costs, ErrorKind::Missed), (0, 0.0));
}

#[test]
fn nothing_found_and_nothing_to_find() {
    let objects = truth(vec![object(1, A, 0.0), object(2, B, 0.0)]);
    let (_, costs) = breakdown(&objects, &[]);
    assert_eq!((costs.ap50, of(&costs, ErrorKind::Missed)), (0.0, (2, 1.0)));
    assert_eq!(costs.delta_false_negatives, 1.0);
    let (_, costs) = breakdown(&truth(vec![]), &[found(1, A, 0.0, 0.5)]);
    assert_eq!((costs.ap50, of(&costs, ErrorKind::Background)), (-1.0, (1, 0.0)));
}

#[test]
fn only_the_hundred_best_of_an_image_and_category_count() {
    let truth = truth(vec![object(1, A, 0.0)]);
    let mut detections: Vec<Detection> =
        (0..100).map(|i| found(1, A, 1000.0 + 200.0 * f64::from(i), 0.9)).collect();
    detections.push(found(1, A, 0.0, 0.1));
    let (diagnosis, costs) = breakdown(&truth, &detections);
    assert_eq!((costs.ignored, costs.correct, diagnosis.detections[100]), (1, 0, Outcome::Ignored));
    assert_eq!(costs.ap50, evaluate_coco_in_memory(&truth, &detections).unwrap().ap50);
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
    let diagnosis = diagnose(&truth, &detections).unwrap();
    let point = operating_point(&detections, &diagnosis);
    // 2 of 2 with 3 objects: F1 = 4/5.
    assert_eq!((point.threshold, point.precision), (Some(0.8), 1.0));
    assert!(close(point.f1, 0.8) && close(point.recall, 2.0 / 3.0));
    let images = image_errors(&truth, &detections, &diagnosis, &point);
    assert_eq!(images.iter().map(|image| image.image_id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((images[0].count(ErrorKind::Missed), images[0].penalty, images[0].f1()), (1, 1.0, 0.0));
    assert_eq!((images[1].correct, images[1].penalty, images[1].f1()), (2, 0.0, 1.0));

    // With every detection kept: four wrong in image 1, of which one a duplicate; one in image 2.
    let all = ebm_eval::OperatingPoint { threshold: None, ..point };
    let images = image_errors(&truth, &detections, &diagnosis, &all);
    assert_eq!((images[0].image_id, images[0].penalty, images[1].penalty), (1, 3.5, 1.0));
    assert!(close(images[0].f1(), 4.0 / 8.0) && close(images[1].f1(), 2.0 / 3.0));

    // Nothing right: there is no best score.
    let nothing = [found(1, A, 900.0, 0.5)];
    let point = operating_point(&nothing, &diagnose(&truth, &nothing).unwrap());
    assert_eq!((point.threshold, point.f1), (None, 0.0));
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

    #[test]
    fn the_identities_hold((truth, detections) in problem()) {
        let (diagnosis, costs) = breakdown(&truth, &detections);
        let coco = evaluate_coco_in_memory(&truth, &detections).unwrap().ap50;
        prop_assert!(close(costs.ap50, coco), "{} and COCO's {}", costs.ap50, coco);
        let objects = truth.boxes.iter().filter(|object| !object.is_crowd).count();
        if objects > 0 {
            let fixed = ap50_with_fixed(&truth, &detections, &diagnosis, &ErrorKind::ALL);
            prop_assert!(close(fixed, 1.0), "{fixed}");
        }
        for cost in &costs.kinds {
            prop_assert!(cost.delta_ap50 > -1e-12 && cost.delta_ap50 < 1.0 + 1e-12, "{cost:?}");
            prop_assert!(cost.count > 0 || close(cost.delta_ap50, 0.0), "{cost:?}");
        }
        // Every detection and every object is accounted for.
        let wrong: usize = costs.kinds[..5].iter().map(|cost| cost.count).sum();
        prop_assert_eq!(costs.correct + wrong + costs.ignored, detections.len());
        let found = diagnosis.objects.iter().filter(|o| matches!(o, ObjectOutcome::Found(_))).count();
        prop_assert_eq!(found, costs.correct);
        prop_assert!(close(ap50_with_fixed(&truth, &detections, &diagnosis, &[]), costs.ap50));
    }
}

/// The evaluator's own breakdown, written after the published program.
fn published(truth: &GroundTruth, detections: &[Detection]) -> hotcoco::TideErrors {
    let annotations = truth.boxes.iter().zip(1..).map(|(object, id)| Annotation {
        id,
        image_id: object.image_id,
        category_id: object.category_id,
        bbox: Some(object.bbox),
        area: Some(object.area),
        iscrowd: object.is_crowd,
        ..Default::default()
    });
    let dataset = Dataset {
        images: truth.images.iter().map(|&id| Image { id, ..Default::default() }).collect(),
        categories: truth
            .categories
            .iter()
            .map(|&id| Category { id, name: id.to_string(), ..Default::default() })
            .collect(),
        annotations: annotations.collect(),
        ..Default::default()
    };
    let results = detections.iter().map(|detection| Annotation {
        image_id: detection.image_id,
        category_id: detection.category_id,
        bbox: Some(detection.bbox),
        score: Some(detection.score),
        ..Default::default()
    });
    let truth = COCO::from_dataset(dataset);
    let found = truth.load_res_anns(results.collect()).unwrap();
    let mut evaluation = COCOeval::new(truth, found, IouType::Bbox);
    evaluation.evaluate().unwrap();
    evaluation.tide_errors(0.5, 0.1).unwrap()
}

/// The fraction of categories that are left without objects where `goes` says which of them go, and that have
/// no detection: found to perfection here, 0 in the published program.
fn emptied(
    truth: &GroundTruth,
    detections: &[Detection],
    diagnosis: &Diagnosis,
    goes: impl Fn(ObjectOutcome) -> bool,
) -> f64 {
    let objects: Vec<(u64, bool)> = truth
        .boxes
        .iter()
        .zip(&diagnosis.objects)
        .filter(|(_, outcome)| **outcome != ObjectOutcome::Crowd)
        .map(|(object, outcome)| (object.category_id, goes(*outcome)))
        .collect();
    let has_objects = |id: &&u64| objects.iter().any(|(of, _)| of == *id);
    let total = truth.categories.iter().filter(has_objects).count();
    let counted = |id: u64| {
        let outcomes = detections.iter().zip(&diagnosis.detections);
        outcomes.into_iter().any(|(d, o)| d.category_id == id && *o != Outcome::Ignored)
    };
    let empty = |id: &&u64| objects.iter().all(|(of, goes)| of != *id || *goes) && !counted(**id);
    truth.categories.iter().filter(has_objects).filter(empty).count() as f64 / total as f64
}

/// Compares with [`published`]; says why where they differ.
fn compare(truth: &GroundTruth, detections: &[Detection]) {
    let (diagnosis, costs) = breakdown(truth, detections);
    let other = published(truth, detections);
    let near = |name: &str, found: f64, extra: f64| {
        let expected = other.delta_ap[name] + extra;
        assert!((found - expected).abs() < 1e-9, "{name}: {found}, not {expected}");
    };
    assert!(close(costs.ap50, other.ap_base), "{} {}", costs.ap50, other.ap_base);
    for (cost, name) in costs.kinds.iter().zip(["Cls", "Loc", "Both", "Dupe", "Bkg", "Miss"]) {
        assert_eq!(cost.count as u64, other.counts[name], "{name}");
        match cost.kind {
            // A fixed detection takes an object from a right one of lower score here, and not there.
            ErrorKind::Classification | ErrorKind::Localization => {
                let delta = other.delta_ap[name];
                assert!(cost.delta_ap50 >= delta - 1e-9, "{name}: {} {delta}", cost.delta_ap50);
            }
            ErrorKind::Missed => {
                let missed = |outcome| outcome == ObjectOutcome::Missed;
                near(name, cost.delta_ap50, emptied(truth, detections, &diagnosis, missed));
            }
            _ => near(name, cost.delta_ap50, 0.0),
        }
    }
    near("FP", costs.delta_false_positives, 0.0);
    let not_found = |outcome| !matches!(outcome, ObjectOutcome::Found(_));
    near("FN", costs.delta_false_negatives, emptied(truth, detections, &diagnosis, not_found));
}

#[test]
fn agrees_with_the_evaluators_breakdown() {
    let (truth, detections) = one_of_each();
    compare(&truth, &detections);
    let dir = fixture("coco_eval");
    let truth = GroundTruth::read(&dir.join("instances_val2014_100.json")).unwrap();
    compare(&truth, &read_results(&dir.join("instances_val2014_fakebbox100_results.json")).unwrap());
}
