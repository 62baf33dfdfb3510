//! The command line of xtask, with a shell script in cargo's place.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: a process that another thread starts while a script is written inherits the open file,
/// and the system does not run a file that is open for writing.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs xtask where cargo is a script that "builds" `ebm`, itself a script of this body.
fn with_ebm(body: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (cargo, ebm) = (folder.path().join("cargo"), folder.path().join("ebm"));
    script(&ebm, body);
    let message = format!(r#"{{"reason":"compiler-artifact","executable":"{}"}}"#, ebm.display());
    script(&cargo, &format!("echo \"cargo $*\" >&2\necho '{message}'"));
    xtask(&cargo, arguments)
}

fn xtask(cargo: &Path, arguments: &[&str]) -> Output {
    // From elsewhere than the workspace's root, as from a crate's folder.
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .env("CARGO", cargo)
        .current_dir("/")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn reproduce_passes_everything_on_and_adds_nothing_to_stdout() {
    let _alone = alone();
    let arguments = ["reproduce", "detection", "--json", "--out", "a b", "--help", "--", "-x"];
    let output = with_ebm(r#"pwd; for word in "$@"; do echo "$word"; done"#, &arguments);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap();
    let expected = format!("{}\n{}\n", root.display(), arguments.join("\n"));
    assert_eq!(text(&output.stdout), expected);
    assert!(output.status.success());
    let cargo = text(&output.stderr);
    assert!(cargo.starts_with("cargo build --release --package ebm-cli"), "{cargo}");
}

#[test]
fn download_becomes_data_get() {
    let _alone = alone();
    let output = with_ebm(r#"echo "$@""#, &["download", "coco", "--offline"]);
    assert_eq!(text(&output.stdout), "data get coco --offline\n");
}

#[test]
fn the_exit_code_and_the_signal_are_those_of_ebm() {
    let _alone = alone();
    assert_eq!(with_ebm("exit 5", &["reproduce", "detection"]).status.code(), Some(5));
    assert_eq!(with_ebm("kill -TERM $$", &["reproduce", "detection"]).status.signal(), Some(15));
}

#[test]
fn a_failed_build_stops_the_task() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    script(&cargo, "exit 101");
    let output = xtask(&cargo, &["reproduce", "detection"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mend what cargo reports above"), "{}", text(&output.stderr));
    script(&cargo, "echo '{\"reason\":\"build-finished\",\"success\":true}'");
    let output = xtask(&cargo, &["reproduce", "detection"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("named no executable `ebm`"), "{}", text(&output.stderr));
}

#[test]
fn cargo_is_not_told_of_the_package_of_xtask() {
    let _alone = alone();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    script(&cargo, "echo \"told:$CARGO_MANIFEST_DIR$CARGO_PKG_NAME\" >&2\nexit 3");
    let output = xtask(&cargo, &["check"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.starts_with("told:\ncheck: cargo fmt --all --check: exit status: 3"), "{said}");
}

#[test]
fn a_missing_cargo_is_named() {
    let _alone = alone();
    let output = xtask(Path::new("/nowhere/cargo"), &["reproduce", "detection"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere/cargo"), "{}", text(&output.stderr));
}

#[test]
fn an_unknown_task_names_the_known_ones() {
    let _alone = alone();
    let output = xtask(Path::new("cargo"), &["reproduec", "detection"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    for part in
        ["'reproduec'", "a similar subcommand exists: 'reproduce'", "`ci`", "cargo run --release -p ebm-cli"]
    {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
}
