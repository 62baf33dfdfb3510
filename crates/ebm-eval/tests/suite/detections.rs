//! The result file: round trip, refusal of invalid detections, replacement as a whole.

use ebm_eval::{
    BoxProblem, Detection, Error, GroundTruth, read_results, read_results_for, write_results,
    write_results_for_server,
};
use ebm_testing::files::names;
use proptest::prelude::*;

const GOOD: Detection =
    Detection { image_id: 7, category_id: 3, bbox: [1.5, -2.0, 30.25, 4.0], score: 0.875 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_written_file_reads_back_bit_for_bit(
        rows in prop::collection::vec(
            (any::<u64>(), any::<u64>(), -1e5..1e5f64, -1e5..1e5f64, 0.0..1e5f64, 0.0..1e5f64, -1e6..1e6f64),
            0..20,
        )
    ) {
        let detections: Vec<Detection> = rows
            .into_iter()
            .map(|(image_id, category_id, x, y, w, h, score)| {
                Detection { image_id, category_id, bbox: [x, y, w, h], score }
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        write_results(&path, &detections).unwrap();
        prop_assert_eq!(read_results(&path).unwrap(), detections);
    }
}

#[test]
fn the_file_is_the_coco_result_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    write_results(&path, &[GOOD]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, r#"[{"image_id":7,"category_id":3,"bbox":[1.5,-2.0,30.25,4.0],"score":0.875}]"#);

    let foreign =
        r#"[{"image_id":7,"category_id":3,"bbox":[1.5,-2,30.25,4],"score":0.875,"segmentation":[]}]"#;
    std::fs::write(&path, foreign).unwrap();
    assert_eq!(read_results(&path).unwrap(), [GOOD]);
}

#[test]
fn each_bad_value_is_named() {
    let edit = |change: &dyn Fn(&mut Detection)| {
        let mut detection = GOOD;
        change(&mut detection);
        detection.check().unwrap_err().to_string()
    };
    assert_eq!(GOOD.check(), Ok(()));
    assert_eq!(Detection { bbox: [0.0; 4], ..GOOD }.check(), Ok(()));
    assert_eq!(edit(&|d| d.bbox[0] = f64::NAN), "x is NaN");
    assert_eq!(edit(&|d| d.bbox[1] = f64::NEG_INFINITY), "y is -inf");
    assert!(edit(&|d| d.bbox[2] = -0.5).starts_with("width is -0.5, below zero"));
    assert!(edit(&|d| d.bbox[3] = -1.0).starts_with("height is -1, below zero"));
    assert_eq!(edit(&|d| d.bbox[3] = 1e6), "height is 1000000, beyond ±100000");
    assert_eq!(edit(&|d| d.score = f64::NAN), "score is NaN");
    let absurd = Detection { score: 1e308, ..GOOD }.check().unwrap_err();
    assert!(matches!(absurd, BoxProblem::Absurd("score", ..)));
}

#[test]
fn bad_detections_are_neither_written_nor_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    write_results(&path, &[GOOD]).unwrap();
    let before = std::fs::read(&path).unwrap();

    let bad = Detection { score: f64::NAN, ..GOOD };
    let error = write_results(&path, &[GOOD, GOOD, bad]).unwrap_err();
    assert!(matches!(error, Error::Detection { index: 2, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let text = String::from_utf8(before).unwrap();
    std::fs::write(&path, text.replace("30.25", "-30.25")).unwrap();
    let error = read_results(&path).unwrap_err().to_string();
    assert!(error.contains("results.json, detection 0: width is -30.25"), "{error}");
    for bad in ["NaN", "1e999", "\"wide\"", "null"] {
        std::fs::write(&path, text.replace("30.25", bad)).unwrap();
        let error = read_results(&path).unwrap_err();
        assert!(matches!(error, Error::Json { .. }), "{bad}: {error}");
    }
}

#[test]
fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    write_results(&path, &[GOOD; 100]).unwrap();
    write_results(&path, &[GOOD]).unwrap();
    assert_eq!(read_results(&path).unwrap(), [GOOD]);
    assert_eq!(names(dir.path()), ["results.json"]);

    let missing = dir.path().join("absent/results.json");
    let error = write_results(&missing, &[GOOD]).unwrap_err();
    assert!(error.to_string().contains("absent/results.json"), "{error}");

    // A directory at the path stays, and no temporary file is left.
    let taken = dir.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    let error = write_results(&taken, &[GOOD]).unwrap_err();
    assert!(matches!(error, Error::Io { action: "write", .. }), "{error}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);
}

/// Annotations that match [`GOOD`].
fn truth() -> GroundTruth {
    GroundTruth { images: vec![7, 8], categories: vec![3], ..Default::default() }
}

#[test]
fn what_was_not_meant_to_be_scored_is_named_with_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    let other = Detection { image_id: 8, ..GOOD };
    for (bad, parts) in [
        // (the second and third detection, part of the message)
        (
            [Detection { image_id: 9, ..GOOD }, Detection { image_id: 1, ..GOOD }],
            ["image id 9", "annotation file of the images"],
        ),
        (
            [Detection { category_id: 0, ..GOOD }, Detection { category_id: 1, ..other }],
            ["category id 0", "category ids of"],
        ),
        (
            [Detection { score: 87.5, ..GOOD }, Detection { score: -1.0, ..GOOD }],
            ["score is 87.5", "map them to 0..1"],
        ),
        ([GOOD, GOOD], ["as detection 0", "drop repeated"]),
    ] {
        write_results(&path, &[GOOD, bad[0], bad[1], other]).unwrap();
        let error = read_results_for(&path, &truth()).unwrap_err();
        assert!(matches!(error, Error::Detection { index: 1, count: 2, total: 4, .. }), "{error}");
        let text = error.to_string();
        for part in parts.into_iter().chain(["results.json, detection 1", "the first of 2 such of 4"]) {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        write_results(&path, &[GOOD, bad[0]]).unwrap();
        let text = read_results_for(&path, &truth()).unwrap_err().to_string();
        assert!(!text.contains("such"), "{text}");
    }
    // The ends are probabilities, and boxes may agree where scores do not.
    let sound = [Detection { score: 0.0, ..GOOD }, Detection { score: 1.0, ..GOOD }, GOOD];
    write_results(&path, &sound).unwrap();
    assert_eq!(read_results_for(&path, &truth()).unwrap(), sound);
    write_results(&path, &[]).unwrap();
    assert!(read_results_for(&path, &truth()).unwrap().is_empty());
}

#[test]
fn the_file_for_a_server_is_rounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    let long = Detection { bbox: [1.0 / 3.0, 2.0 / 3.0, 100.0 / 7.0, 4.005_1], score: 2.0 / 3.0, ..GOOD };
    write_results_for_server(&path, &[long]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, r#"[{"image_id":7,"category_id":3,"bbox":[0.33,0.67,14.29,4.01],"score":0.66667}]"#);
    let bad = Detection { bbox: [0.0, 0.0, f64::NAN, 1.0], ..GOOD };
    assert!(write_results_for_server(&path, &[bad]).is_err());
}

#[test]
fn the_file_of_a_test_set_has_ids_and_nothing_to_score() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image_info_test-dev2017.json");
    let json = r#"{"info":{},"images":[{"id":7,"file_name":"7.jpg"},{"id":8}],"categories":[{"id":3,"name":"car"}]}"#;
    std::fs::write(&path, json).unwrap();
    let error = GroundTruth::read(&path).unwrap_err();
    assert!(matches!(error, Error::NotAnnotated { .. }), "{error}");
    let text = error.to_string();
    for part in ["image_info_test-dev2017.json", "server", "--out"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let set = GroundTruth::read_test_set(&path).unwrap();
    assert_eq!((set.images.as_slice(), set.categories.as_slice()), (&[7, 8][..], &[3][..]));
    assert_eq!((set.category_name(3).as_str(), set.category_name(4).as_str()), ("car", "4"));
    std::fs::write(&path, json.replace("\"id\":8", "\"id\":7")).unwrap();
    assert!(matches!(GroundTruth::read_test_set(&path), Err(Error::DuplicateId(_, "image", _))));
}
