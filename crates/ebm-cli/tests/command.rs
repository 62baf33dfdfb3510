//! The `ebm` command as a user runs it.

use crate::common::{program, schema};
use program::{DETECTOR, WEIGHTS, command, ebm, json_in, succeeds, text};

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Runs `args`, which must print nothing and fail, not as a matter of usage.
#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    let output = program::refused(args, parts);
    assert!(output.stdout.is_empty() && output.status.code() != Some(2), "{output:?}");
}

fn write(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).unwrap();
}

/// An annotation file with one image and one object.
fn annotations(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("annotations.json");
    write(
        &path,
        &json!({
            "images": [{"id": 1, "file_name": "1.jpg", "width": 64, "height": 64}],
            "categories": [{"id": 3, "name": "disc"}],
            "annotations": [{"id": 9, "image_id": 1, "category_id": 3, "bbox": [10, 10, 20, 20], "area": 400, "iscrowd": 0}],
        }),
    );
    path
}

#[test]
fn a_perfect_result_file_scores_one() {
    let dir = tempfile::tempdir().unwrap();
    let (truth, results) = (annotations(dir.path()), dir.path().join("results.json"));
    write(&results, &json!([{"image_id": 1, "category_id": 3, "bbox": [10, 10, 20, 20], "score": 0.9}]));
    let output =
        ebm(&["eval", "detection", "--annotations", text(&truth), "--results", text(&results), "--json"]);
    let document = schema::document(&output.stdout, "eval detection");
    let figures = document["rows"][0].as_object().unwrap();
    // No object is medium or large: pycocotools says -1 there, and JSON null.
    assert_eq!(figures.values().filter(|v| v.as_f64().is_some_and(|v| (v - 1.0).abs() < 1e-12)).count(), 9);
    assert_eq!(figures.values().filter(|v| v.is_null()).count(), 4, "{document}");
}

#[test]
fn the_machine_is_described() {
    let found = schema::document(&ebm(&["doctor", "--json"]).stdout, "doctor");
    assert!(found["processor"]["threads"].as_u64() > Some(0), "{found}");
}

#[test]
fn bad_result_files_are_refused_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let (truth, results) = (annotations(dir.path()), dir.path().join("results.json"));
    let args = ["eval", "detection", "--annotations", text(&truth), "--results", text(&results)];
    refused(&args, &["results.json"]);
    write(&results, &json!([{"image_id": 7, "category_id": 3, "bbox": [1, 1, 2, 2], "score": 0.9}]));
    refused(&args, &["results.json", "7"]);
    write(&results, &json!([{"image_id": 1, "category_id": 3, "bbox": [1, 1, -2, 2], "score": 0.9}]));
    refused(&args, &["results.json"]);
    std::fs::write(&results, "[{\"image_id\": 1, \"cat").unwrap();
    refused(&args, &["results.json"]);
}

#[test]
fn images_and_weights_that_are_none_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("fake.safetensors");
    std::fs::write(&fake, b"not weights").unwrap();
    let image = dir.path().join("image.jpg");
    refused(&["predict", "detection", text(&image), "--detector", text(&fake)], &["fake.safetensors"]);

    let predict = |config: &'static str| {
        ["predict", "detection", text(&image), "--detector", DETECTOR, "--config", config]
    };
    refused(&predict("torchvision"), &["detector_mini.safetensors", "leave --config out"]);
    refused(&predict("mini"), &["image.jpg"]);
    std::fs::write(&image, [0xFF, 0xD8, 0xFF, 0xE0, 0, 16]).unwrap();
    refused(&predict("mini"), &["image.jpg"]);
}

#[test]
fn a_dataset_without_annotations_or_a_taken_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (truth, run) = (dir.path().join("annotations.json"), dir.path().join("run"));
    let train = ["train", "detector", "--run", text(&run), "--steps", "1"];
    let args = ["--annotations", text(&truth), "--images", text(dir.path())];
    write(&truth, &json!({"images": [], "categories": [], "annotations": []}));
    refused(&[&train[..], &args].concat(), &["annotations.json"]);

    let scenes = dir.path().join("scenes");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "2"]);
    // A file stands where the run's directory should be.
    std::fs::write(&run, b"mine").unwrap();
    let (truth, images) = (scenes.join("annotations.json"), scenes.join("images"));
    let args = ["--annotations", text(&truth), "--images", text(&images)];
    refused(&[&train[..], &args].concat(), &["run"]);
    assert_eq!(std::fs::read(&run).unwrap(), b"mine");
}

/// `ebm reproduce detection` in small.
fn small_detection(place: &std::path::Path, weights: &str, arguments: &[&str]) -> Value {
    let [runs, datasets] = ["runs", "datasets"].map(|name| place.join(name).to_str().unwrap().to_owned());
    let common = ["reproduce", "detection", "--scale", "mini", "--smoke", "--seeds", "1", "--json"];
    let places = ["--out", &runs, "--datasets", &datasets, "--weights", weights];
    schema::document(&succeeds(&[&common[..], &places, arguments].concat())[0], "reproduce detection")
}

fn column<'a>(object: &'a Value, name: &str) -> Vec<&'a Value> {
    object["rows"].as_array().unwrap().iter().map(|row| &row[name]).collect()
}

#[test]
fn the_detector_is_trained_where_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let weights = dir.path().join("weights").to_str().unwrap().to_owned();
    let arguments = ["--from-scratch", "--keep-base", "--methods", "direct,ebm"];
    let object = small_detection(dir.path(), &weights, &arguments);
    assert_eq!(object["scale"], "mini");
    assert_eq!(column(&object, "method"), ["direct", "ebm"]);
    assert!(dir.path().join("weights/detector_mini.safetensors").is_file());
}

#[test]
fn every_study_of_detection_runs_and_prints_one_object() {
    let dir = tempfile::tempdir().unwrap();
    // The repository's own detector.
    let table = small_detection(dir.path(), WEIGHTS, &[]);
    let all = "direct gaussian mixture2 mixture4 mixture8 cvae laplace iou_net iou_net_star ebm";
    assert_eq!(column(&table, "method"), all.split(' ').collect::<Vec<_>>());
    for row in table["rows"].as_array().unwrap() {
        for figure in ["ap", "ap50", "ap75"] {
            assert!((0.0..=1.0).contains(&row[figure].as_f64().unwrap()), "{row}");
        }
        assert!(row["frames_per_second"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["boxes_per_second"].is_f64(), row["step_factor"].is_f64(), "{row}");
        let has_density = !["direct", "iou_net", "iou_net_star"].contains(&row["method"].as_str().unwrap());
        assert_eq!(row["log_prob"].is_f64(), has_density, "{row}");
    }

    // What ran, and where.
    let record = dir.path().join("runs/detection-mini-smoke-1/ebm-0/environment.json");
    let record = json_in(&record);
    assert!(record["versions"]["rustc"].as_str().unwrap().starts_with("rustc "), "{record}");
    assert!(record["versions"]["ebm"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")), "{record}");
    for part in ["cpu", "threads", "system"] {
        assert!(!record["machine"][part].as_str().unwrap().is_empty(), "{record}");
    }
    assert_eq!(record["machine"]["device"], "cpu");
    let commit =
        Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(["rev-parse", "HEAD"]).output();
    if commit.is_ok_and(|output| output.status.success()) {
        assert_eq!(record["git_commit"].as_str().unwrap().len(), 40, "{record}");
    }

    // The other studies take the heads that are there.
    let heads = dir.path().join("runs/detection-mini-smoke-1").to_str().unwrap().to_owned();
    let study = |arguments: &[&str]| {
        small_detection(dir.path(), WEIGHTS, &[&["--heads", &heads], arguments].concat())
    };
    let trade = study(&["--figure", "3a"]);
    assert_eq!(column(&trade, "iterations"), [0, 1, 2, 4, 8, 16, 32, 64]);
    assert!(dir.path().join("runs/detection-mini-smoke-2/trade.png").is_file());
    let grid = study(&["--grid", "lambda", "--methods", "ebm,direct,laplace"]);
    assert_eq!(column(&grid, "method"), ["ebm"; 45]);
    let objectives = study(&["--objectives", "--train-missing"]);
    let all = "ml_is kld_is nce nce_plus info_nce dsm ml_mcmc";
    assert_eq!(column(&objectives, "method"), all.split(' ').collect::<Vec<_>>());
    assert_eq!(objectives["study"], "Objectives");
    let ablation = study(&["--table", "1", "--train-missing"]);
    assert_eq!(ablation["rows"].as_array().unwrap().len(), 18);
    assert_eq!(ablation["rows"][1]["sigmas"], serde_json::json!([0.0375]));
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(args).stdout(writer).output().unwrap();
        // As a shell says of a program that SIGPIPE ended: 128 + 13.
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]), "{args:?}");
    }
}

#[test]
fn the_toy_reproduction_runs_and_prints_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(folder.path());
    let args =
        ["reproduce", "toy", "--smoke", "--seeds", "2", "--problem", "dataset1", "--json", "--out", out];
    let [printed, errors] = succeeds(&[&args[..], &["--methods", "Gaussian;ML-IS;SM"]].concat());
    let object = schema::document(&printed, "reproduce toy");
    let last = "expected: nothing was compared: the results of --smoke mean nothing";
    assert_eq!(errors.lines().last(), Some(last));
    let written = std::fs::read(Path::new(out).join("toy-smoke-1/results.json")).unwrap();
    assert_eq!(schema::document(&written, "reproduce toy"), object);
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(row["dataset"], "dataset1");
        assert!(row["kl"].as_f64().unwrap() > 0.0 && row["train_seconds"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Two models each of the Gaussian and of ML-IS.
    assert_eq!(object["calibration"].as_array().unwrap().len(), 4);
    for file in [
        "report.md",
        "results.json",
        "results.csv",
        "calibration.csv",
        "figure2_dataset1.svg",
        "figure2_dataset1.png",
        "seeds_dataset1.svg",
    ] {
        assert!(folder.path().join("toy-smoke-1").join(file).is_file(), "{file}");
    }

    let refused = |more: &[&str], part: &str| {
        program::refused(&[&["reproduce", "toy", "--out", out], more].concat(), &[part]);
    };
    refused(&["--smoke", "--check"], "nothing to compare: the results of --smoke");
    refused(&["--methods", "MLIS"], "takes some of: Gaussian; ML-IS");
    let points = folder.path().join("points.csv");
    std::fs::write(&points, "x,y\n1,2\n3\n").unwrap();
    refused(&["--data", text(&points)], "points.csv:3");
    std::fs::write(&points, "x,y\n1,2\n2,30\n").unwrap();
    refused(&["--data", text(&points)], "from −3 to 3");

    // Points of one's own have no truth: nothing is compared with a problem's, and the report says whose
    // points they are.
    let lines: String =
        (0..60).map(|i| format!("{},{}\n", f64::from(i) / 30.0, f64::from(i % 7) / 7.0)).collect();
    std::fs::write(&points, lines).unwrap();
    let more = ["--seeds", "1", "--methods", "Gaussian", "--json", "--out", out, "--data", text(&points)];
    let object = schema::document(&succeeds(&[&args[..3], &more].concat())[0], "reproduce toy");
    let row = &object["rows"][0];
    assert_eq!((&row["dataset"], &row["kl"]), (&json!("data"), &Value::Null), "{row}");
    assert!(row["held_out_nll"].as_f64().unwrap().is_finite(), "{row}");
    assert!(object["calibration"].as_array().unwrap().is_empty());
    // The refused calls had no run's directory.
    let report = std::fs::read_to_string(folder.path().join("toy-smoke-2/report.md")).unwrap();
    assert!(
        report.contains(&format!("60 points of `{}`, of which 12 are held out", points.display())),
        "{report}"
    );
}

/// Figure 2 is small enough to be made as the configuration says, in part.
#[test]
fn a_run_says_whether_its_figures_are_those_expected() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["reproduce", "toy", "--seeds", "1", "--problem", "dataset1", "--methods", "Gaussian"];
    let [printed, errors] =
        succeeds(&[&args[..], &["--check", "--json", "--out", text(folder.path())]].concat());
    assert_eq!(errors.lines().last(), Some("expected: 1 of 1 figures within their tolerances"));
    let document = schema::document(&printed, "reproduce toy");
    // No Gaussian for each x comes below 0.69995 nats: crates/ebm-toy/tests/golden/networks.py.
    assert!(document["rows"][0]["kl"].as_f64().unwrap() > 0.6999, "{document}");
    let expected = &document["expected"];
    assert_eq!((&expected["compared"], &expected["missed"]), (&json!(1), &json!(0)), "{expected}");
}
