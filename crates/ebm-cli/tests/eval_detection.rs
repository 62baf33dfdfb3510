//! `ebm eval detection` as a user runs it: tables, errors, worst images, test sets, bad input.

use crate::common::{program, schema};
use program::{DETECTOR, ebm, json_in, succeeds, text};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn document<S: AsRef<OsStr>>(args: &[S]) -> Value {
    schema::document(&succeeds(args)[0], "eval detection")
}

#[track_caller]
fn refused<S: AsRef<OsStr>>(args: &[S], parts: &[&str]) {
    assert!(program::refused(args, parts).stdout.is_empty());
}

/// Two images, three objects; results with a right detection, a localisation error, and one on nothing.
struct Problem {
    _dir: tempfile::TempDir,
    annotations: PathBuf,
    results: PathBuf,
}

impl Problem {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [annotations, results] = ["annotations.json", "results.json"].map(|name| dir.path().join(name));
        let image = |id: u64, width: u64| json!({"id": id, "file_name": format!("{id}.png"), "width": width, "height": 100});
        let object = |id: u64, image: u64, category: u64, x: f64| json!({"id": id, "image_id": image, "category_id": category, "bbox": [x, 10, 40, 40], "area": 1600, "iscrowd": 0});
        let truth = json!({
            "images": [image(1, 200), image(2, 300)],
            "categories": [{"id": 3, "name": "disc"}, {"id": 7, "name": "ring"}],
            "annotations": [object(1, 1, 3, 10.0), object(2, 2, 3, 10.0), object(3, 2, 7, 100.0)],
        });
        std::fs::write(&annotations, truth.to_string()).unwrap();
        let problem = Self { _dir: dir, annotations, results };
        problem.write(&json!([
            {"image_id": 1, "category_id": 3, "bbox": [10, 10, 40, 40], "score": 0.9},
            {"image_id": 2, "category_id": 3, "bbox": [30, 10, 40, 40], "score": 0.8},
            {"image_id": 1, "category_id": 7, "bbox": [150, 50, 40, 40], "score": 0.3},
        ]));
        problem
    }

    fn write(&self, results: &Value) {
        std::fs::write(&self.results, results.to_string()).unwrap();
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let args =
            ["eval", "detection", "--annotations", text(&self.annotations), "--results", text(&self.results)];
        [&args[..], more].concat()
    }
}

#[test]
fn tables_and_errors_stand_beside_the_figures() {
    let problem = Problem::new();
    let plain = document(&problem.args(&["--json"]));
    let all = document(&problem.args(&["--json", "--per-class", "--errors"]));
    let plain = plain["rows"][0].as_object().unwrap();
    assert_eq!(plain.len(), 13);
    let all = &all["rows"][0];
    for (name, value) in plain {
        assert_eq!(&all[name], value, "{name}");
    }
    // disc: 2 objects, one found at rank 1; 51 of 101 recalls. ring: nothing right.
    let disc = &all["per_class"][0];
    assert_eq!((disc["name"].as_str(), disc["objects"].as_u64()), (Some("disc"), Some(2)));
    assert!((disc["ap50"].as_f64().unwrap() - 51.0 / 101.0).abs() < 1e-12, "{disc}");
    assert_eq!(all["per_class"][1]["ap"].as_f64(), Some(0.0));
    let errors = &all["error_breakdown"];
    let counts: Vec<u64> =
        errors["kinds"].as_array().unwrap().iter().map(|kind| kind["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [0, 1, 0, 0, 1, 1]);
    let localization = &errors["kinds"][1];
    assert_eq!(localization["kind"], "localization");
    // Put right, disc has an average precision of 1.
    assert!((localization["delta_ap50"].as_f64().unwrap() - 50.0 / 101.0 / 2.0).abs() < 1e-12);

    let [printed, _] = succeeds(&problem.args(&["--per-class", "--errors"]));
    for part in ["| disc", "| ring", "| localization", "| missed", "ap50 0.2525"] {
        assert!(printed.contains(part), "{part:?} is not in {printed}");
    }
    let [plain, _] = succeeds(&problem.args(&[]));
    assert_eq!(plain.lines().count(), 13);
    assert!(printed.starts_with(&plain));
}

#[test]
fn the_worst_images_are_listed() {
    let problem = Problem::new();
    let object = document(&problem.args(&["--worst", "1", "--json"]));
    // From 0.9 on: precision 1, recall 1/3, F1 1/2; more detections only add wrong ones.
    assert_eq!(object["operating_point"]["threshold"].as_f64(), Some(0.9));
    assert!((object["operating_point"]["f1"].as_f64().unwrap() - 0.5).abs() < 1e-12);
    let worst = object["worst"].as_array().unwrap();
    assert_eq!((worst.len(), worst[0]["file_name"].as_str()), (1, Some("2.png")));
    assert_eq!(worst[0]["errors"], json!({"wrong": 0, "missed": 2}));

    let [printed, _] = succeeds(&problem.args(&["--worst", "5"]));
    assert!(printed.contains("2  2.png: 0 of 2 found, 0 wrong"), "{printed}");
    assert!(printed.contains("0  1.png: 1 of 1 found, 0 wrong"), "{printed}");
    refused(&problem.args(&["--images", "images"]), &["--images"]);
    refused(&problem.args(&["--worst", "0"]), &["--worst"]);
}

#[test]
fn a_result_file_says_what_is_wrong_with_it() {
    let problem = Problem::new();
    let good = json!({"image_id": 1, "category_id": 3, "bbox": [10, 10, 40, 40], "score": 0.9});
    let with = |key: &str, value: Value| {
        let mut bad = good.clone();
        bad[key] = value;
        bad
    };
    for (bad, parts) in [
        (with("image_id", json!(5)), ["image id 5", "annotation file"]),
        (with("category_id", json!(1)), ["category id 1", "category ids"]),
        (with("bbox", json!([1, 2, -3, 4])), ["width is -3", "repair"]),
        (with("score", json!(97.5)), ["score is 97.5", "0..1"]),
        (good.clone(), ["as detection 0", "drop"]),
    ] {
        problem.write(&json!([good, bad.clone(), bad]));
        let places = ["results.json, detection 1", "first of 2 such of 3"];
        refused(&problem.args(&[]), &[&parts[..], &places].concat());
    }
    for bad in ["NaN", "1e999"] {
        std::fs::write(&problem.results, json!([good]).to_string().replace("0.9", bad)).unwrap();
        refused(&problem.args(&[]), &["results.json", "line 1"]);
    }
    problem.write(&json!([]));
    let figures = &document(&problem.args(&["--json"]))["rows"][0];
    assert_eq!((figures["ap"].as_f64(), figures["ar100"].as_f64()), (Some(0.0), Some(0.0)));
    succeeds(&problem.args(&["--per-class", "--errors"]));
}

/// An annotation that cannot be used is no reason to stop if the user accepts its share; what is left is scored.
#[test]
fn defective_annotations_are_left_out_if_they_may_be() {
    let problem = Problem::new();
    let with = |key: &str, value: Value| {
        let mut file = json_in(&problem.annotations);
        file["annotations"][2][key] = value;
        let path = problem.annotations.with_file_name("defective.json");
        std::fs::write(&path, file.to_string()).unwrap();
        path
    };
    let ap = |annotations: &Path, more: &[&str]| {
        let args =
            ["eval", "detection", "--annotations", text(annotations), "--results", text(&problem.results)];
        let output = ebm(&[&args[..], &["--json"], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let ap = output.status.success().then(|| schema::document(&output.stdout, "eval detection"));
        (ap.map(|object| object["rows"][0]["ap"].as_f64().unwrap()), output.status.code(), said)
    };
    let whole = ap(&problem.annotations, &[]).0.unwrap();
    // Nothing of category 7 is found: without its only object AP is the mean over one category in place of two.
    for (key, value, part) in
        [("category_id", json!(9), "category_id 9"), ("bbox", json!([1, 2, 3, -4]), "[1, 2, 3, -4]")]
    {
        let path = with(key, value);
        let (none, code, said) = ap(&path, &[]);
        assert!(none.is_none() && code == Some(3) && said.contains("--max-bad-fraction 0.4"), "{said}");
        assert!(said.contains("defective.json: annotation 3") && said.contains(part), "{said}");
        let (found, _, said) = ap(&path, &["--max-bad-fraction", "0.4"]);
        assert!((found.unwrap() - 2.0 * whole).abs() < 1e-9, "{found:?} {whole}");
        assert!(said.contains("1 records are left out, the first because") && said.contains(part), "{said}");
    }
    // An id as a text is an id, and a box without a side stays as COCO's own evaluation has it.
    let (found, _, said) = ap(&with("id", json!("3")), &[]);
    assert!(found == Some(whole) && !said.contains("left out"), "{said}");
    assert_eq!(ap(&with("bbox", json!([100, 10, 40, 0])), &[]).0, Some(whole));
}

/// Generated scenes, and their annotation file as JSON.
fn scenes(dir: &Path) -> (PathBuf, PathBuf, Value) {
    let scenes = dir.join("scenes");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "2", "--seed", "9"]);
    let annotations = scenes.join("annotations.json");
    let json = json_in(&annotations);
    (annotations, scenes.join("images"), json)
}

#[test]
fn a_test_set_gets_the_files_for_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (annotated, images, mut file) = scenes(dir.path());
    file.as_object_mut().unwrap().remove("annotations");
    let annotations = dir.path().join("image_info_test-dev2017.json");
    std::fs::write(&annotations, file.to_string()).unwrap();
    let out = dir.path().join("out");
    let on = |annotations: &Path, more: &[&str]| {
        let model = ["eval", "detection", "--config", "mini", "--detector", DETECTOR];
        let paths = ["--images", text(&images), "--annotations", text(annotations)];
        [&model[..], &paths, more].concat().into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let [printed, _] = succeeds(&on(&annotations, &["--out", text(&out)]));
    assert!(printed.contains("server") && printed.contains("2 images of test-dev2017"), "{printed}");
    let path = out.join("detections_test-dev2017_direct_results.json");
    assert!(printed.contains(text(&path)), "{printed}");
    let sent: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(!sent.is_empty());
    let has_at_most = |value: &Value, decimals: usize| {
        value.to_string().split_once('.').is_none_or(|(_, decimal)| decimal.len() <= decimals)
    };
    for detection in &sent {
        assert_eq!(detection.as_object().unwrap().len(), 4);
        let bbox = detection["bbox"].as_array().unwrap();
        assert!(bbox.iter().all(|v| has_at_most(v, 2)) && has_at_most(&detection["score"], 5), "{detection}");
    }
    let object = document(&on(&annotations, &["--out", text(&out), "--json"]));
    assert_eq!((object["dataset"].as_str(), object["images"].as_u64()), (Some("test-dev2017"), Some(2)));

    // Where annotations are, the same model is scored, and its files are not rounded.
    let object = document(&on(&annotated, &["--out", text(&out), "--json", "--errors"]));
    assert_eq!(object["rows"][0]["method"], "direct");
    let kept: Vec<Value> = serde_json::from_slice(&std::fs::read(out.join("direct.json")).unwrap()).unwrap();
    assert_eq!(kept.len(), sent.len());
    assert!(kept.iter().any(|detection| !has_at_most(&detection["score"], 5)));

    refused(&on(&annotations, &[]), &["no annotations", "--out"]);
    let errors = on(&annotations, &["--out", text(&out), "--errors"]);
    refused(&errors, &["no annotations", "--errors", "validation"]);
    let results = ["eval", "detection", "--annotations", text(&annotations), "--results", text(&path)];
    refused(&results, &["image_info_test-dev2017.json", "no annotations", "server"]);
}

#[test]
fn categories_and_images_must_fit_the_detector() {
    let dir = tempfile::tempdir().unwrap();
    let (annotations, images, mut file) = scenes(dir.path());
    let evaluate = |annotations: &Path, images: &Path| {
        let args = ["eval", "detection", "--detector", DETECTOR];
        let paths = ["--annotations", text(annotations), "--images", text(images)];
        let args = [&args[..], &paths].concat();
        args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<String>>()
    };
    let elsewhere = dir.path().join("elsewhere");
    refused(&evaluate(&annotations, &elsewhere), &["2 of its 2 images are not in", "elsewhere/000001.jpg"]);

    let fewer = dir.path().join("fewer.json");
    file["annotations"] = json!([]);
    file["categories"] = json!([{"id": 2, "name": "a"}, {"id": 4, "name": "b"}]);
    std::fs::write(&fewer, file.to_string()).unwrap();
    refused(
        &evaluate(&fewer, &images),
        &[
            "fewer.json",
            "2 categories (ids 2 to 4), but the model has 6",
            "detector_mini.safetensors",
            "configuration",
        ],
    );
    file["categories"] = (0..9).map(|id| json!({"id": id, "name": format!("c{id}")})).collect();
    std::fs::write(&fewer, file.to_string()).unwrap();
    refused(&evaluate(&fewer, &images), &["9 categories (ids 0 to 8), but the model has 6"]);
}
