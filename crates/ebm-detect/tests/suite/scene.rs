//! Paths and densities of a scene.

use ebm_base::Key;
use ebm_data::decode::read_upright;
use ebm_detect::{Detection, Detector, DetectorOptions, LabelledBox};

/// The last point of a path is the refined box: an animation shows the prediction.
#[test]
fn a_path_ends_where_detection_does() {
    let image = read_upright(&ebm_testing::fixture("coco/val2017/000000343937.jpg")).unwrap();
    let detector = Detector::bundled(&DetectorOptions { min_score: 0.5, ..Default::default() }).unwrap();
    let scene = detector.look(&image).unwrap();
    let found = detector.detect(&image).unwrap();
    let boxes = |found: &[Detection]| -> Vec<_> { found.iter().map(|one| (one.before, one.bbox)).collect() };
    assert_eq!(boxes(&scene.detections), boxes(&found));
    let person = found.iter().find(|one| one.name() == "person").unwrap();
    let given = LabelledBox { bbox: person.before, label: person.label };
    let ascent = detector.ascent().unwrap();
    let path = detector.climb(&scene, given, ascent).unwrap();
    assert_eq!(path.len(), ascent.steps + 1);
    assert!(path.windows(2).all(|pair| pair[1].f >= pair[0].f));
    for (last, bbox) in path.last().unwrap().bbox.iter().zip(person.bbox) {
        assert!((last - bbox).abs() < 1e-3, "{path:?} {bbox:?}");
    }
    let given = LabelledBox { bbox: person.bbox, label: person.label };
    let density = detector.density(&scene, given, 256, &mut Key::new(0).rng()).unwrap();
    assert!(density.is_calibrated());
    let other = found.iter().find(|one| one.name() != "person").unwrap();
    let given = LabelledBox { bbox: other.bbox, label: other.label };
    let refused = detector.climb(&scene, given, ascent).unwrap_err().to_string();
    assert!(refused.contains("trained on person alone") && !detector.can_climb(other.label), "{refused}");
}
