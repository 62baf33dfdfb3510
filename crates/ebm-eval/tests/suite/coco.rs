//! Comparison of the figures with pycocotools (golden/make_coco_golden.py) and with closed forms.

use std::path::Path;

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_eval::{
    BoxProblem, CocoFigures, Detection, Error, GroundTruth, GroundTruthBox, evaluate_coco_in_memory,
    read_results, read_results_for, write_results,
};
use ebm_testing::fixture;
use serde_json::Value;

/// Scores a result file against an annotation file.
fn evaluate_coco(annotations: &Path, results: &Path) -> Result<CocoFigures, Error> {
    let truth = GroundTruth::read(annotations)?;
    evaluate_coco_in_memory(&truth, &read_results_for(results, &truth)?)
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/coco_golden.json")).unwrap()
}

fn assert_figures(found: &CocoFigures, expected: &Value, tolerance: f64, what: &str) {
    let expected = expected.as_array().unwrap();
    assert_eq!(expected.len(), found.named().len());
    for ((name, found), expected) in found.named().into_iter().zip(expected) {
        let expected = expected.as_f64().unwrap();
        assert!((found - expected).abs() <= tolerance, "{what}: {name} is {found}, pycocotools: {expected}");
    }
}

#[test]
fn agrees_with_pycocotools_on_random_problems() {
    let golden = golden();
    let problems = golden["problems"].as_array().unwrap();
    assert!(problems.len() >= 7);
    let dir = tempfile::tempdir().unwrap();
    for (index, problem) in problems.iter().enumerate() {
        let [truth, results] = ["truth", "results"].map(|key| {
            let path = dir.path().join(format!("{key}_{index}.json"));
            std::fs::write(&path, problem[key].to_string()).unwrap();
            path
        });
        let from_files = evaluate_coco(&truth, &results).unwrap();
        assert_figures(&from_files, &problem["figures"], 1e-9, &format!("problem {index}"));
        let in_memory =
            evaluate_coco_in_memory(&GroundTruth::read(&truth).unwrap(), &read_results(&results).unwrap());
        assert_eq!(in_memory.unwrap(), from_files);
    }
}

#[test]
fn agrees_with_pycocotools_and_the_published_output_on_val2014() {
    let dir = fixture("coco_eval");
    let figures = evaluate_coco(
        &dir.join("instances_val2014_100.json"),
        &dir.join("instances_val2014_fakebbox100_results.json"),
    )
    .unwrap();
    assert_figures(&figures, &golden()["real"]["coco_eval"], 1e-9, "val2014");

    let published = std::fs::read_to_string(dir.join("val2014_fake_eval_res.txt")).unwrap();
    let bbox = published.split("type=bbox").nth(1).unwrap().split("-----").next().unwrap();
    let published: Vec<f64> =
        bbox.lines().filter_map(|line| line.split("] = ").nth(1)?.trim().parse().ok()).collect();
    assert_eq!(published.len(), 12);
    for ((name, found), published) in figures.named().into_iter().zip(published) {
        assert_eq!(format!("{found:.3}"), format!("{published:.3}"), "{name}");
    }
}

#[test]
fn agrees_with_pycocotools_on_coco_2017_with_synthetic_results() {
    for split in ["train2017", "val2017"] {
        let path = fixture(&format!("coco/annotations/instances_{split}.json"));
        let truth = GroundTruth::read(&path).unwrap();
        let results: Vec<Detection> = truth
            .boxes
            .iter()
            .enumerate()
            .filter(|(k, _)| k % 5 != 4)
            .map(|(k, truth)| {
                let [x, y, w, h] = truth.bbox;
                let bbox =
                    [x + (k % 7) as f64 * 0.5, y - (k % 3) as f64, w * (1.0 + (k % 4) as f64 / 16.0), h];
                let (image_id, category_id) = (truth.image_id, truth.category_id);
                Detection { image_id, category_id, bbox, score: ((k * 37) % 101) as f64 / 128.0 }
            })
            .collect();
        let figures = evaluate_coco_in_memory(&truth, &results).unwrap();
        assert_figures(&figures, &golden()["real"][split], 1e-9, split);
    }
}

/// One large and one medium object in two images.
fn two_objects() -> GroundTruth {
    let object = |image_id, side: f64| GroundTruthBox {
        image_id,
        category_id: 3,
        bbox: [10.0, 20.0, side, side],
        area: side * side,
        is_crowd: false,
    };
    GroundTruth {
        images: vec![1, 2, 9],
        categories: vec![3, 7],
        boxes: vec![object(1, 100.0), object(2, 50.0)],
        ..Default::default()
    }
}

fn perfect(truth: &GroundTruth) -> Vec<Detection> {
    let detect = |truth: &GroundTruthBox| Detection {
        image_id: truth.image_id,
        category_id: truth.category_id,
        bbox: truth.bbox,
        score: 0.5,
    };
    truth.boxes.iter().map(detect).collect()
}

#[test]
fn perfect_detections_score_one_and_absent_sizes_minus_one() {
    let truth = two_objects();
    let figures = evaluate_coco_in_memory(&truth, &perfect(&truth)).unwrap();
    for (name, value) in figures.named() {
        let expected = if name.ends_with("small") { -1.0 } else { 1.0 };
        assert!((value - expected).abs() < 1e-12, "{name} is {value}");
    }
}

#[test]
fn iou_decides_how_many_thresholds_are_met() {
    // A box of 8/10 of the width has IoU 0.8: thresholds 0.50 to 0.80 are met, 7 of 10.
    let mut truth = two_objects();
    truth.boxes.truncate(1);
    let mut detections = perfect(&truth);
    detections[0].bbox[2] *= 0.8;
    let figures = evaluate_coco_in_memory(&truth, &detections).unwrap();
    assert!((figures.ap - 0.7).abs() < 1e-12 && (figures.ar1 - 0.7).abs() < 1e-12);
    assert!((figures.ap50 - 1.0).abs() < 1e-12 && (figures.ap75 - 1.0).abs() < 1e-12);
}

#[test]
fn no_detections_score_zero_and_no_annotations_minus_one() {
    let truth = two_objects();
    for (name, value) in evaluate_coco_in_memory(&truth, &[]).unwrap().named() {
        assert_eq!(value, if name.ends_with("small") { -1.0 } else { 0.0 }, "{name}");
    }
    let empty = GroundTruth { boxes: Vec::new(), ..truth.clone() };
    for detections in [Vec::new(), perfect(&truth)] {
        for (name, value) in evaluate_coco_in_memory(&empty, &detections).unwrap().named() {
            assert_eq!(value, -1.0, "{name}");
        }
    }
}

#[test]
fn the_order_of_images_and_categories_does_not_matter() {
    let mut truth = two_objects();
    let mut detections = perfect(&truth);
    detections[1].bbox[0] += 9.0;
    let before = evaluate_coco_in_memory(&truth, &detections).unwrap();
    truth.images.reverse();
    truth.categories.reverse();
    truth.boxes.reverse();
    assert_eq!(evaluate_coco_in_memory(&truth, &detections).unwrap(), before);
}

#[test]
fn unknown_ids_are_named_with_file_and_index() {
    let dir = tempfile::tempdir().unwrap();
    let annotations = dir.path().join("truth.json");
    let json = r#"{"images":[{"id":1},{"id":2}],"categories":[{"id":3}],
        "annotations":[{"id":1,"image_id":1,"category_id":3,"bbox":[0,0,5,5],"iscrowd":false}]}"#;
    std::fs::write(&annotations, json).unwrap();
    let good = Detection { image_id: 2, category_id: 3, bbox: [0.0, 0.0, 4.0, 4.0], score: 0.5 };
    for (bad, problem) in [
        (Detection { image_id: 5, ..good }, BoxProblem::UnknownImage(5)),
        (Detection { category_id: 0, ..good }, BoxProblem::UnknownCategory(0)),
    ] {
        let results = dir.path().join("results.json");
        write_results(&results, &[good, bad]).unwrap();
        let error = evaluate_coco(&annotations, &results).unwrap_err();
        assert!(error.to_string().contains("results.json, detection 1"), "{error}");
        let Error::Detection { index: 1, problem: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, problem);
    }
}

#[test]
fn bad_annotations_are_refused() {
    let good = two_objects();
    let with_box = |edit: &dyn Fn(&mut GroundTruthBox)| {
        let mut truth = two_objects();
        edit(&mut truth.boxes[1]);
        truth
    };
    let bad = [
        with_box(&|b| b.bbox[0] = f64::NAN),
        with_box(&|b| b.bbox[3] = -1.0),
        with_box(&|b| b.bbox[2] = 1e308),
        with_box(&|b| b.area = f64::INFINITY),
        with_box(&|b| b.area = -4.0),
        with_box(&|b| b.image_id = 4),
        with_box(&|b| b.category_id = 4),
    ];
    for truth in bad {
        let error = evaluate_coco_in_memory(&truth, &[]).unwrap_err();
        assert!(matches!(error, Error::Annotation { index: 1, .. }), "{error}");
    }
    let twice = GroundTruth { images: vec![1, 2, 2], ..good.clone() };
    assert!(matches!(twice.check("x").unwrap_err(), Error::DuplicateId(_, "image", 2)));
    let twice = GroundTruth { categories: vec![3, 3], ..good.clone() };
    assert!(matches!(twice.check("x").unwrap_err(), Error::DuplicateId(_, "category", 3)));
    for (truth, missing) in [
        (GroundTruth { images: Vec::new(), ..good.clone() }, "images"),
        (GroundTruth { categories: Vec::new(), ..good }, "categories"),
    ] {
        let error = truth.check("x").unwrap_err();
        assert!(matches!(error, Error::NothingToScore(_, what) if what == missing), "{error}");
    }
}

#[test]
fn malformed_annotation_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("truth.json");
    let annotation = r#"{"id":1,"image_id":1,"category_id":3,"bbox":[0,0,5,5]}"#;
    let file = |annotations: &str| {
        format!(r#"{{"images":[{{"id":1}}],"categories":[{{"id":3}}],"annotations":[{annotations}]}}"#)
    };
    std::fs::write(&path, file(annotation)).unwrap();
    assert_eq!(GroundTruth::read(&path).unwrap().boxes[0].area, 25.0);

    std::fs::write(&path, file(&format!("{annotation},{annotation}"))).unwrap();
    let error = GroundTruth::read(&path).unwrap_err();
    assert!(matches!(error, Error::DuplicateId(_, "annotation", 1)), "{error}");

    for (from, to) in
        [("5]", "NaN]"), ("5]", "1e999]"), (",5]", "]"), (r#""id":1,"#, r#""iscrowd":2,"id":1,"#)]
    {
        assert!(annotation.contains(from));
        std::fs::write(&path, file(&annotation.replace(from, to))).unwrap();
        let error = GroundTruth::read(&path).unwrap_err();
        assert!(matches!(error, Error::Json { .. }), "{to}: {error}");
        assert!(error.to_string().contains("truth.json"), "{error}");
    }
    let error = GroundTruth::read(&dir.path().join("absent.json")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("absent.json"), "{error}");
}

#[test]
fn a_dataset_in_memory_is_what_its_file_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("truth.json");
    let file = r#"{"images":[{"id":4,"file_name":"a.jpg","width":50,"height":40},{"id":9,"file_name":"b.jpg","width":50,"height":40}],
        "categories":[{"id":3,"name":"car"},{"id":7,"name":"bus"}],
        "annotations":[{"id":1,"image_id":9,"category_id":7,"bbox":[1.5,2,30,25],"area":99},
        {"id":2,"image_id":9,"category_id":3,"bbox":[0,0,5,5],"iscrowd":1}]}"#;
    std::fs::write(&path, file).unwrap();
    let options = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(&path, dir.path(), &options).unwrap();
    assert_eq!(GroundTruth::from(&dataset), GroundTruth::read(&path).unwrap());
}
