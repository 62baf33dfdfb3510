//! `ebm data check` as a user runs it: its output and exit codes.

use crate::common::schema;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ebm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_clean_set_has_code_0_and_a_defect_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let scenes = dir.path().join("scenes");
    assert!(ebm(&["data", "scenes", "--out", text(&scenes), "--count", "2"]).status.success());
    let (annotations, images) = (scenes.join("annotations.json"), scenes.join("images"));
    let check = ["data", "check", "coco", text(&annotations), "--images", text(&images), "--json"];
    let output = ebm(&check);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));

    let mut file: Value = serde_json::from_slice(&std::fs::read(&annotations).unwrap()).unwrap();
    file["annotations"][0]["bbox"][2] = Value::from(-3.0);
    let image = file["images"][1]["file_name"].as_str().unwrap().to_owned();
    std::fs::write(&annotations, file.to_string()).unwrap();
    std::fs::remove_file(images.join(image)).unwrap();
    let output = ebm(&check);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let found = schema::document(&output.stdout, "data check");
    assert!(found.to_string().contains("missing_file"), "{found}");
    assert_eq!(ebm(&check[..3]).status.code(), Some(2));
}

/// File systems of other systems refuse such names.
#[cfg(target_os = "linux")]
#[test]
fn names_need_not_be_unicode() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const DETECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors");
    let dir = tempfile::tempdir().unwrap();
    let scenes = dir.path().join("scenes");
    assert!(ebm(&["data", "scenes", "--out", text(&scenes), "--count", "1"]).status.success());
    let images = scenes.join(OsStr::from_bytes(b"\xff"));
    std::fs::rename(scenes.join("images"), &images).unwrap();
    let run = |args: &[&str], code: i32, command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).arg(&images).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let first = if command == "data check" { &*lines } else { lines.lines().next().unwrap() };
        assert!(schema::document(first.as_bytes(), command).to_string().contains('\u{fffd}'));
    };
    let detect = ["predict", "detection", "--detector", DETECTOR, "--min-score", "0"];
    run(&detect, 0, "predict detection");
    let image = std::fs::read_dir(&images).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(image).unwrap();
    let annotations = scenes.join("annotations.json");
    run(&["data", "check", "coco", text(&annotations), "--json", "--images"], 3, "data check");
}
