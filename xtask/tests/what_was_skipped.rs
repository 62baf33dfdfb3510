//! Lists the tests that lacked something. Cargo runs the tests of xtask last, and this program after its others, so
//! that in `cargo test --workspace` all tests have left their records.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// No machine that has Rust leaves out more.
const MOST: usize = 30;

fn skipped(target: &Path, arguments: &[&str]) -> String {
    let mut list = Command::new("bash");
    list.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/fresh/skipped.sh"))
        .args(arguments)
        .env("CARGO_TARGET_DIR", target);
    let output = list.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn few_tests_are_skipped() {
    let text = skipped(&ebm_testing::target(), &[]);
    // Past libtest's capture.
    std::io::stderr().lock().write_all(text.as_bytes()).unwrap();
    assert!(text.lines().count() <= 1 + MOST, "more than {MOST}");
}

#[test]
fn a_test_that_went_without_is_listed_until_its_program_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a target");
    let records = target.join("skipped-tests");
    std::fs::create_dir_all(&records).unwrap();
    assert_eq!(skipped(&target, &[]), "0 tests went without what they need\n");
    assert_eq!(skipped(&target, &["--again"]), "");
    let built = |program: &str, seconds: i64| {
        let at = SystemTime::now();
        let by = Duration::from_secs(seconds.unsigned_abs());
        let file = std::fs::File::create(target.join(program)).unwrap();
        file.set_modified(if seconds < 0 { at - by } else { at + by }).unwrap();
    };
    for program in ["a-1", "b-2"] {
        built(program, -60);
    }
    let record = |name: &str, text: &str| std::fs::write(records.join(name), text).unwrap();
    record("one", "a-1\n--test a\nfirst::one\na::first: mpiexec is not here; fetch it\n");
    record("two", "a-1\n--test a\nsecond\na::second: data are not here; fetch them\n");
    record("three", "b-2\n--lib\nthird\nb::third: no browser; install it\n");
    record("gone", "c-3\n--lib\nfourth\nc::fourth: none\n");
    let list = skipped(&target, &[]);
    assert!(
        list.starts_with("3 tests went") && list.contains("\n  a::first: mpiexec is not here; fetch it\n")
    );
    let again = "--test a --lib -- --exact first::one third second\n";
    assert_eq!(skipped(&target, &["--again"]), again);
    built("a-1", 60);
    assert_eq!(skipped(&target, &["--again"]), "--lib -- --exact third\n");
    record("three", "b-2\n--lib\nmain\nb::main: no browser; install it\n");
    assert_eq!(skipped(&target, &["--again"]), "--lib\n");
}
