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
