//! Annotation files: sound, defective and hostile.

use std::path::Path;

use crate::common::write_json;
use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::quarantine::{Defect, DefectCode, Tolerance};
use ebm_testing::fixture;
use serde_json::{Value, json};

fn tolerance(max_bad_fraction: f64) -> Tolerance {
    Tolerance { max_bad_fraction, report: None }
}

fn options(purpose: Purpose) -> LoadOptions {
    LoadOptions { check_files: false, tolerance: tolerance(1.), ..LoadOptions::new(purpose) }
}

fn annotation(id: u64, bbox: Value) -> Value {
    json!({"id": id, "image_id": 5, "category_id": 20, "bbox": bbox, "area": 4, "iscrowd": 0})
}

/// One image of 100x50, id 5, and categories with gaps in their ids.
fn file(annotations: Value) -> Value {
    json!({"images": [{"id": 5, "file_name": "a.jpg", "width": 100, "height": 50}], "annotations": annotations,
        "categories": [{"id": 90, "name": "z"}, {"id": 20, "name": "y"}, {"id": 3, "name": "x"}]})
}

fn load(file: &Value, options: &LoadOptions) -> ebm_data::Result<CocoDataset> {
    let dir = tempfile::tempdir().unwrap();
    CocoDataset::load(&write_json(&dir.path().join("f.json"), file), Path::new("images"), options)
}

/// The one defect of a file.
fn defect(file: &Value) -> Defect {
    let mut defects = load(file, &options(Purpose::Eval)).unwrap().quarantine.defects;
    assert_eq!(defects.len(), 1, "{defects:?}");
    defects.remove(0)
}

#[test]
fn objects_and_labels_are_read() {
    let mut crowd = annotation(2, json!([0, 0, 10, 10]));
    crowd["iscrowd"] = json!(1);
    crowd["category_id"] = json!(90);
    let file = file(json!([annotation(1, json!([1.5, 2, 3, 4])), crowd]));
    let dataset = load(&file, &options(Purpose::Eval)).unwrap();
    let labels: Vec<_> = [3, 20, 90, 4].map(|id| dataset.label(id)).to_vec();
    assert_eq!(labels, [Some(1), Some(2), Some(3), None]);
    assert_eq!(
        [0, 1, 2, 3, 4].map(|label| dataset.category_id(label)),
        [None, Some(3), Some(20), Some(90), None]
    );
    let [image] = &dataset.images[..] else { unreachable!() };
    assert_eq!((image.id, image.width, image.height), (5, 100, 50));
    assert_eq!(image.path, Path::new("images/a.jpg"));
    let [object, crowd] = &image.objects[..] else { unreachable!() };
    assert_eq!((object.annotation_id, object.bbox, object.label), (1, [1.5, 2., 4.5, 6.], 2));
    assert_eq!((object.area, object.iscrowd, crowd.iscrowd, crowd.label), (4., false, true, 3));
    assert!(dataset.quarantine.defects.is_empty());
}

#[test]
fn every_annotation_defect_has_its_code() {
    use DefectCode::*;
    let bbox = |bbox| file(json!([annotation(1, bbox)]));
    let with = |key: &str, value: Value| {
        let mut annotation = annotation(1, json!([1, 2, 3, 4]));
        annotation[key] = value;
        file(json!([annotation]))
    };
    let cases = [
        (bbox(json!([1, 2, 3])), BadAnnotation),
        (bbox(json!([1, 2, 3, 4, 5])), BadAnnotation),
        (bbox(json!(null)), BadAnnotation),
        (bbox(json!("1,2,3,4")), BadAnnotation),
        (bbox(json!(["1", "2", "3", "4"])), BadAnnotation),
        (bbox(json!([1, 2, "NaN", 4])), BadAnnotation),
        (bbox(json!([1, "-Infinity", 3, 4])), BadAnnotation),
        (bbox(json!([1, null, 3, 4])), BadAnnotation),
        (bbox(json!([1, 2, 1e300, 4])), BadBox),
        (bbox(json!([1, 2, 0, 4])), BadBox),
        (bbox(json!([1, 2, 3, -4])), BadBox),
        (bbox(json!([50, 2, 1e-30, 4])), BadBox),
        (bbox(json!([100, 2, 3, 4])), BadBox),
        (bbox(json!([-10, 2, 10, 4])), BadBox),
        (bbox(json!([0, 60, 10, 4])), BadBox),
        (bbox(json!([0, 0, 1001, 4])), BadBox),
        (with("image_id", json!(6)), UnknownImage),
        (with("image_id", json!("5.jpg")), BadAnnotation),
        (with("category_id", json!(21)), UnknownCategory),
        (with("category_id", json!(20.5)), BadAnnotation),
        (with("id", json!(1.5)), BadAnnotation),
        (with("id", json!(-1)), BadAnnotation),
        (with("id", json!("-1")), BadAnnotation),
        (with("iscrowd", json!(2)), BadAnnotation),
        (with("iscrowd", json!("0")), BadAnnotation),
        (with("area", json!(-1)), BadAnnotation),
        (with("area", json!("4")), BadAnnotation),
        (file(json!([annotation(1, json!([1, 2, 3, 4])), annotation(1, json!([1, 2, 3, 4]))])), DuplicateId),
    ];
    for (file, code) in cases {
        let defect = defect(&file);
        assert_eq!(defect.code, code, "{file}");
        assert!(defect.file.ends_with("f.json") && !defect.detail.is_empty());
        assert!(["annotation 1", "annotations[0]"].contains(&defect.sample.as_str()), "{}", defect.sample);
    }
}

/// As Python writes it: what `ebm data check` finds, `ebm train` leaves out, and no more than that.
#[test]
fn a_number_that_json_lacks_costs_its_annotation_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.json");
    let text =
        file(json!([annotation(1, json!([1, 2, 3, 4])), annotation(2, json!([1, 2, 3, 4]))])).to_string();
    std::fs::write(&path, text.replacen("\"area\":4", "\"area\":NaN", 1)).unwrap();
    let dataset = CocoDataset::load(&path, Path::new("images"), &options(Purpose::Train)).unwrap();
    assert_eq!((dataset.images.len(), dataset.images[0].objects.len()), (1, 1));
    assert_eq!(dataset.quarantine.defects[0].code, DefectCode::BadAnnotation);
}

#[test]
fn an_image_with_more_objects_than_are_read_is_left_out() {
    let objects = |count: u64| (0..count).map(|id| annotation(id, json!([1, 2, 3, 4]))).collect::<Value>();
    assert_eq!(
        load(&file(objects(10_000)), &options(Purpose::Eval)).unwrap().images[0].objects.len(),
        10_000
    );
    let crowded = file(objects(10_001));
    let defect = defect(&crowded);
    assert_eq!((defect.code, defect.sample.as_str()), (DefectCode::BadAnnotation, "image 5"));
    assert_eq!(defect.detail, "10001 objects; at most 10000 of an image are read");
    assert!(load(&crowded, &options(Purpose::Train)).is_err(), "nothing is left to train on");
    let dir = tempfile::tempdir().unwrap();
    let path = write_json(&dir.path().join("f.json"), &crowded);
    std::fs::write(dir.path().join("a.jpg"), b"x").unwrap();
    let checked = ebm_data::check::coco(&path, dir.path(), false).unwrap();
    assert_eq!(checked.quarantine.defects[0].code, DefectCode::BadAnnotation);
}

#[test]
fn every_image_defect_has_its_code() {
    use DefectCode::*;
    let good = json!({"id": 5, "file_name": "a.jpg", "width": 100, "height": 50});
    let with = |key: &str, value: Value| {
        let mut file = file(json!([]));
        file["images"][0][key] = value;
        file
    };
    let two = |second: Value| {
        let mut file = file(json!([]));
        file["images"] = json!([good, second]);
        file
    };
    let cases = [
        (with("id", json!("x")), BadAnnotation),
        (with("id", json!(null)), BadAnnotation),
        (with("width", json!(0)), BadAnnotation),
        (with("height", json!(50.5)), BadAnnotation),
        (with("height", json!("50")), BadAnnotation),
        (with("file_name", json!("../../etc/passwd")), BadAnnotation),
        (with("file_name", json!("/etc/passwd")), BadAnnotation),
        (with("file_name", json!("")), BadAnnotation),
        (with("file_name", json!(7)), BadAnnotation),
        (two(json!({"id": 5, "file_name": "b.jpg", "width": 100, "height": 50})), DuplicateId),
        (two(json!({"id": 6, "file_name": "a.jpg", "width": 100, "height": 50})), DuplicateId),
    ];
    for (file, code) in cases {
        assert_eq!(defect(&file).code, code, "{file}");
    }
}

#[test]
fn annotations_of_a_defective_image_are_no_orphans() {
    let mut file = file(json!([annotation(1, json!([1, 2, 3, 4]))]));
    file["images"][0]["width"] = json!(-3);
    assert_eq!(defect(&file).code, DefectCode::BadAnnotation);
}

#[test]
fn missing_files_are_found_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let json = write_json(&dir.path().join("f.json"), &file(json!([])));
    let options = LoadOptions { check_files: true, ..options(Purpose::Eval) };
    let dataset = CocoDataset::load(&json, dir.path(), &options).unwrap();
    assert_eq!(dataset.quarantine.defects[0].code, DefectCode::MissingFile);
    assert!(dataset.images.is_empty());
    std::fs::write(dir.path().join("a.jpg"), b"x").unwrap();
    assert!(CocoDataset::load(&json, dir.path(), &options).unwrap().quarantine.defects.is_empty());
}

#[test]
fn images_that_are_elsewhere_are_named_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let images: Vec<_> = (0..5)
        .map(|id| json!({"id": id, "file_name": format!("{id}.jpg"), "width": 100, "height": 50}))
        .collect();
    let mut file = file(json!([]));
    file["images"] = json!(images);
    let json = write_json(&dir.path().join("f.json"), &file);
    let options = LoadOptions { check_files: true, tolerance: tolerance(0.5), ..options(Purpose::Eval) };
    let elsewhere = dir.path().join("elsewhere");
    let error = CocoDataset::load(&json, &elsewhere, &options).unwrap_err();
    assert!(matches!(error, Error::Data(..)), "{error}");
    let text = error.to_string();
    for part in ["f.json", "5 of its 5", "elsewhere/0.jpg", "elsewhere/2.jpg", "give the folder"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!text.contains("3.jpg"), "{text}");
    // Two of five may be missing, three may not.
    std::fs::create_dir(&elsewhere).unwrap();
    for id in 0..2 {
        std::fs::write(elsewhere.join(format!("{id}.jpg")), b"x").unwrap();
    }
    assert!(CocoDataset::load(&json, &elsewhere, &options).is_err());
    std::fs::write(elsewhere.join("2.jpg"), b"x").unwrap();
    assert_eq!(CocoDataset::load(&json, &elsewhere, &options).unwrap().images.len(), 3);
}

#[test]
fn the_file_of_a_test_set_has_images_without_objects() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = file(json!([]));
    file.as_object_mut().unwrap().remove("annotations");
    let json = write_json(&dir.path().join("image_info_test-dev2017.json"), &file);
    let dataset = CocoDataset::load(&json, dir.path(), &options(Purpose::Eval)).unwrap();
    assert_eq!((dataset.images.len(), dataset.images[0].objects.len()), (1, 0));
}

#[test]
fn too_many_defects_are_an_error_with_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let annotations: Vec<_> =
        (0..10).map(|id| annotation(id, json!([1, 2, if id < 4 { 0 } else { 3 }, 4]))).collect();
    let json = write_json(&dir.path().join("f.json"), &file(json!(annotations)));
    let report = dir.path().join("out/defects.jsonl");
    let mut options = LoadOptions {
        tolerance: Tolerance { report: Some(report.clone()), ..tolerance(0.3) },
        ..options(Purpose::Train)
    };
    let error = CocoDataset::load(&json, dir.path(), &options).unwrap_err();
    let Error::TooManyDefects { bad: 4, total: 10, .. } = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(
        text.contains("annotation 0") && text.contains("annotation 2") && text.contains("defects.jsonl"),
        "{text}"
    );
    let lines = std::fs::read_to_string(report).unwrap();
    let defects: Vec<Defect> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(defects.iter().map(|defect| defect.code).collect::<Vec<_>>(), [DefectCode::BadBox; 4]);

    options.tolerance.max_bad_fraction = 0.4;
    let dataset = CocoDataset::load(&json, dir.path(), &options).unwrap();
    assert_eq!(dataset.images[0].objects.len(), 6);
    assert_eq!(dataset.quarantine.counts()[&DefectCode::BadBox], 4);
    options.tolerance.max_bad_fraction = f64::NAN;
    assert!(matches!(CocoDataset::load(&json, dir.path(), &options), Err(Error::Argument { .. })));
}

/// COCO's train2017 has two boxes without a height; some tools write ids as texts.
#[test]
fn known_defects_of_coco_stop_nothing() {
    let load = |heights: &[u64]| {
        let annotations: Vec<_> =
            heights.iter().zip(1..).map(|(height, id)| annotation(id, json!([1, 2, 3, height]))).collect();
        let mut file = file(json!(annotations));
        file["annotations"][0]["id"] = json!("1");
        load(&file, &LoadOptions { tolerance: tolerance(0.0), ..options(Purpose::Eval) })
    };
    let dataset = load(&[4, 0, 4, 0]).unwrap();
    let ids: Vec<u64> = dataset.images[0].objects.iter().map(|object| object.annotation_id).collect();
    assert_eq!((ids, dataset.quarantine.counts()[&DefectCode::BadBox]), (vec![1, 3], 2));
    assert!(matches!(load(&[4, 0, 0, 0]), Err(Error::TooManyDefects { bad: 3, total: 4, .. })));
}

#[test]
fn training_keeps_what_can_be_trained_on() {
    let mut file = file(json!([
        annotation(1, json!([-5, 40, 20, 30])),
        annotation(2, json!([10, 10, 5, 5])),
        {"id": 3, "image_id": 5, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
        {"id": 4, "image_id": 6, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
        {"id": 5, "image_id": 8, "category_id": 3, "bbox": [0, 0, 9, 0.75]},
    ]));
    for id in [8, 6, 7] {
        let name = format!("{id}.jpg");
        file["images"]
            .as_array_mut()
            .unwrap()
            .push(json!({"id": id, "file_name": name, "width": 10, "height": 10}));
    }
    let eval = load(&file, &options(Purpose::Eval)).unwrap();
    assert_eq!(eval.images.iter().map(|image| image.id).collect::<Vec<_>>(), [5, 6, 7, 8]);
    assert_eq!(eval.images[0].objects.len(), 3);
    assert_eq!(eval.images[0].objects[0].bbox, [-5., 40., 15., 70.]);
    assert_eq!(eval.images[0].objects[2].area, 81.);

    let train = load(&file, &options(Purpose::Train)).unwrap();
    // 6 has a crowd only, 7 nothing, 8 a strip less than a pixel high.
    assert_eq!(train.images.iter().map(|image| image.id).collect::<Vec<_>>(), [5]);
    let boxes: Vec<_> = train.images[0].objects.iter().map(|object| object.bbox).collect();
    assert_eq!(boxes, [[0., 40., 15., 50.], [10., 10., 15., 15.]]);
}

#[test]
fn files_that_are_not_coco_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.json");
    let deep = format!("{{\"images\":{}", "[".repeat(100_000));
    let nan = r#"{"images":[],"categories":[{"id":1,"name":"a"}],"annotations":[{"bbox":[NaN,1,2,3]}]}"#;
    let cases: &[(&str, &str)] = &[
        ("", "EOF"),
        ("[]", "expected"),
        ("{}", "missing field `images`"),
        (&deep, "recursion limit"),
        (nan, "no image with an object"),
        (&nan.replace("NaN", "1e999"), "out of range"),
        (r#"{"images":[],"categories":[]}"#, "no categories"),
        (
            r#"{"images":[],"categories":[{"id":1,"name":"a"},{"id":1,"name":"b"}]}"#,
            "another category has the id 1",
        ),
        (r#"{"images":[],"categories":[{"id":1,"name":"a"},{"id":2,"name":"a"}]}"#, "the name \"a\""),
        (r#"{"images":[],"categories":[{"id":1,"name":"a"}]}"#, "no image with an object"),
    ];
    for (content, said) in cases {
        std::fs::write(&path, content).unwrap();
        let error = CocoDataset::load(&path, dir.path(), &options(Purpose::Train)).unwrap_err();
        assert!(matches!(error, Error::Data(..)), "{error}");
        assert!(error.to_string().contains(said) && error.to_string().contains("f.json"), "{error}");
    }
}

#[test]
fn a_test_set_without_annotations_loads_for_evaluation() {
    let mut file = file(json!([]));
    file.as_object_mut().unwrap().remove("annotations");
    assert_eq!(load(&file, &options(Purpose::Eval)).unwrap().images.len(), 1);
}

#[test]
fn published_files_are_sound() {
    let dir = fixture("coco");
    for (split, images, objects, crowds) in [("train2017", 3, 41, 1), ("val2017", 4, 24, 1)] {
        let json = dir.join(format!("annotations/instances_{split}.json"));
        let load = |purpose| CocoDataset::load(&json, &dir.join(split), &LoadOptions::new(purpose)).unwrap();
        let eval = load(Purpose::Eval);
        assert_eq!(eval.quarantine.defects, []);
        assert_eq!((eval.images.len(), eval.categories.len()), (images, 80));
        assert_eq!(eval.category_id(80), Some(90));
        let all = || eval.images.iter().flat_map(|image| &image.objects);
        assert_eq!((all().count(), all().filter(|object| object.iscrowd).count()), (objects, crowds));
        let train = load(Purpose::Train);
        assert_eq!(train.images.len(), images);
        assert_eq!(train.images.iter().map(|image| image.objects.len()).sum::<usize>(), objects - crowds);
    }
}
