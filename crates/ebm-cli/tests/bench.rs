//! `ebm bench` as a user runs it, with and without something that answers as PyTorch does.

use crate::common::schema;

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// A cheap work at its tiny size.
const TINY: [&str; 4] = ["bench", "--smoke", "--only", "conv-forward"];

fn ebm(args: &[&str], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).args(more).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn without_python_ours_is_timed_alone() {
    let output = ebm(&TINY, &["--python", "no-such-python", "--threads", "1"]);
    let (page, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert!(
        ["no-such-python", "pip install torch", "--python PATH"].iter().all(|part| errors.contains(part))
    );
    assert!(page.contains("There was no PyTorch on this machine"), "{page}");
    assert!(page.contains("| 3×3 256→256 on 100×136, forward"), "{page}");
}

#[test]
fn json_is_one_object_and_the_page_goes_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("page.md");
    let output = ebm(
        &TINY,
        &["--python", "no-such-python", "--rounds", "3", "--json", "--out", out.to_str().unwrap()],
    );
    let report = schema::document(&output.stdout, "bench");
    let work = &report["rows"][0];
    assert_eq!(
        (&work["name"], &work["ratio"], &work["met"]),
        (&"conv-forward".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(work["times"]["ours"]["seconds"].as_array().unwrap().len(), 3);
    assert!(std::fs::read_to_string(out).unwrap().starts_with("# Performance\n"));
    let figures = std::fs::read_to_string(dir.path().join("results/page.csv")).unwrap();
    assert_eq!(figures.lines().count(), 2, "{figures}");
}

#[test]
fn works_are_listed_and_unknown_ones_refused() {
    let output = ebm(&["bench", "--list"], &[]);
    let list = text(&output.stdout);
    assert!(list.lines().count() >= 11 && list.contains("resnet50-b1 "), "{list}");
    for (args, part) in [
        (&["bench", "--only", "convolution"][..], "conv-forward"),
        (&["bench", "--smoke", "--out", "no/such/folder/page.md"], "no/such/folder"),
        (&["bench-worker", "convolution"], "ebm bench"),
    ] {
        let output = ebm(args, &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

/// A program that answers in place of Python; it gets `-c SCRIPT` and the script's arguments.
#[cfg(unix)]
fn python(dir: &Path, body: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("python");
    let versions = r#"{"python": "3.1", "torch": "2.1", "instructions": "X", "import_mib": 100}"#;
    let script =
        format!("#!/bin/sh\nif [ \"$3\" = probe ]; then echo '{versions}'; exit; fi\nform=$5\n{body}\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[cfg(unix)]
#[test]
fn the_fastest_form_is_the_peer_and_an_optional_one_may_fail() {
    let dir = tempfile::tempdir().unwrap();
    let python = python(
        dir.path(),
        "case $form in compile) echo no compiler >&2; exit 1;; eager) t=2000;; *) t=1000;; esac
         echo ready
         while read request; do case $request in run) echo $t;; peak) echo 300;; esac; done",
    );
    let output = ebm(&TINY, &["--python", &python, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = schema::document(&output.stdout, "bench");
    let work = &report["rows"][0];
    assert_eq!((&work["best"], &work["met"]), (&"channels_last".into(), &true.into()), "{work}");
    assert_eq!(work["times"]["notes"][0], "compile does not work here: no compiler");
    assert_eq!(work["times"]["peers"][0]["peak_mib"], 300);
    assert_eq!(report["versions"]["peer"]["torch"], "2.1");
}

#[cfg(unix)]
#[test]
fn a_peer_that_dies_fails_the_run_and_leaves_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let python = python(dir.path(), "echo ready; read request; echo out of memory >&2; exit 9");
    let page = dir.path().join("page.md");
    std::fs::write(&page, "before").unwrap();
    let output = ebm(&TINY, &["--python", &python, "--out", page.to_str().unwrap()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        ["conv-forward, eager", "out of memory", "9"].iter().all(|part| errors.contains(part)),
        "{errors}"
    );
    assert_eq!(std::fs::read_to_string(page).unwrap(), "before");
}
