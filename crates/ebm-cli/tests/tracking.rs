//! Tracking as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

#[path = "common/schema.rs"]
mod schema;

use std::path::Path;
use std::process::{Command, Output};

fn ebm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn succeeds(args: &[&str]) -> Output {
    let output = ebm(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn refused(args: &[&str], part: &str) {
    let output = ebm(args);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains(part), "{part:?} is not in {message}");
}

/// Two sequences, of which the second has no result that fits.
#[test]
fn boxes_of_any_tracker_are_scored() {
    let dir = tempfile::tempdir().unwrap();
    let (annotations, results) = (dir.path().join("annotations"), dir.path().join("results"));
    for folder in [&annotations, &results] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(annotations.join("one.txt"), "10,10,20,20\n10,10,20,20\n").unwrap();
    std::fs::write(annotations.join("two.txt"), "5,5,10,10\n5,5,10,10\n").unwrap();
    // The first frame counts as annotated; the second has an overlap of one third.
    std::fs::write(results.join("One.txt"), "10\t10\t20\t20\n20\t10\t20\t20\n").unwrap();
    std::fs::write(results.join("two.txt"), "5,5,10,10\n5,5,10\n").unwrap();
    let args = ["eval", "tracking", "--dataset", "other", "--annotations", text(&annotations), "--results"];
    let args = [&args[..], &[text(&results), "--json"]].concat();
    let object = schema::document(&succeeds(&args).stdout, "eval tracking");
    assert_eq!(object["sequences"], 1);
    let row = &object["rows"][0];
    // Thresholds 0 to 0.95 for the first frame, 0 to 0.3 for the second.
    let expected = (20.0 + 7.0) / 42.0;
    assert!((row["auc"].as_f64().unwrap() - expected).abs() < 1e-9, "{object}");
    assert_eq!((row["op50"].as_f64(), row["op75"].as_f64()), (Some(0.5), Some(0.5)));
    assert_eq!(row["precision"].as_f64(), Some(1.0));
    assert!(object["failed"][0]["reason"].as_str().unwrap().contains("line 2"), "{object}");

    refused(
        &["eval", "tracking", "--dataset", "otb100", "--annotations", "nowhere", "--results", "x"],
        "nowhere",
    );
}

#[test]
fn tracking_is_reproduced_and_a_target_followed() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (out, datasets, weights) = (place("runs"), place("datasets"), place("weights"));
    let args = ["reproduce", "tracking", "--smoke", "--seeds", "1", "--json", "--out", text(&out)];
    let args = [&args[..], &["--datasets", text(&datasets), "--weights", text(&weights)]].concat();
    let object = schema::document(&succeeds(&args).stdout, "reproduce tracking");
    let rows = object["rows"].as_array().unwrap();
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!((object["scale"].as_str(), methods), (Some("mini"), vec!["atom", "atom_star", "ebm"]));
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row["auc"].as_f64().unwrap())));
    let run = out.join("tracking-mini-smoke-1");
    for file in
        ["report.md", "results.json", "success.svg", "success.png", "example.png", "backbone.safetensors"]
    {
        assert!(run.join(file).is_file(), "{file}");
    }

    // The trained module on a video of its own.
    let video = datasets.join("generated/videos-smoke/test/video_0001");
    let annotation = std::fs::read_to_string(video.join("groundtruth_rect.txt")).unwrap();
    let first = annotation.lines().next().unwrap();
    let (frames, ebm_run, pictures) = (video.join("img"), run.join("ebm-0"), place("pictures"));
    let args = ["predict", "tracking", text(&frames), "--run", text(&ebm_run), "--box", first, "--json"];
    let args = [&args[..], &["--out", text(&pictures), "--pictures", "10", "--density"]].concat();
    let output = succeeds(&args);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 23);
    let line = schema::document(lines.lines().next().unwrap().as_bytes(), "predict tracking");
    assert_eq!((line["frame"].as_u64(), line["bbox"].as_array().unwrap().len()), (Some(1), 4));
    let boxes = std::fs::read_to_string(pictures.join("video_0001.txt")).unwrap();
    assert_eq!(boxes.lines().count(), 24);
    assert!(pictures.join("000001.png").is_file());

    // What can not be followed says why.
    let with = |bbox| {
        [
            "predict",
            "tracking",
            text(&frames),
            "--run",
            text(&ebm_run),
            "--out",
            text(&pictures),
            "--box",
            bbox,
        ]
    };
    refused(&with("1,2,3"), "x,y,width,height");
    refused(&with("10,10,0,5"), "sides must be positive");
    refused(&with("9000,10,5,5"), "inside the image");
    let nowhere = place("nowhere");
    refused(
        &["predict", "tracking", text(&nowhere), "--run", text(&run), "--out", "x", "--box", "1,1,9,9"],
        "tracker.toml",
    );
    refused(
        &[
            "predict",
            "tracking",
            text(&nowhere),
            "--run",
            text(&ebm_run),
            "--out",
            text(&pictures),
            "--box",
            "1,1,9,9",
        ],
        "folder with the frames",
    );
}
