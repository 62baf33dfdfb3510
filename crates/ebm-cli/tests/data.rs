//! `ebm data check` as a user runs it: its output and exit codes.

use crate::common::program::{DETECTOR, command, ebm, files_in, json_in, said, succeeds, text};
use crate::common::schema;

use serde_json::Value;

#[test]
fn a_clean_set_has_code_0_and_a_defect_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let scenes = dir.path().join("scenes");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "2"]);
    let (annotations, images) = (scenes.join("annotations.json"), scenes.join("images"));
    let check = ["data", "check", "coco", text(&annotations), "--images", text(&images), "--json"];
    succeeds(&check);

    let mut file = json_in(&annotations);
    file["annotations"][0]["bbox"][2] = Value::from(-3.0);
    let image = file["images"][1]["file_name"].as_str().unwrap().to_owned();
    std::fs::write(&annotations, file.to_string()).unwrap();
    std::fs::remove_file(images.join(image)).unwrap();
    let output = ebm(&check);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
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

    let dir = tempfile::tempdir().unwrap();
    let scenes = dir.path().join("scenes");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "1"]);
    let images = scenes.join(OsStr::from_bytes(b"\xff"));
    std::fs::rename(scenes.join("images"), &images).unwrap();
    let run = |args: &[&str], code: i32, name: &str| {
        let output = command(args).arg(&images).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let first = if name == "data check" { &*lines } else { lines.lines().next().unwrap() };
        assert!(schema::document(first, name).to_string().contains('\u{fffd}'));
    };
    let detect = ["predict", "detection", "--detector", DETECTOR, "--min-score", "0"];
    run(&detect, 0, "predict detection");
    let image = files_in(&images).remove(0);
    std::fs::remove_file(image).unwrap();
    let annotations = scenes.join("annotations.json");
    run(&["data", "check", "coco", text(&annotations), "--json", "--images"], 3, "data check");
}
