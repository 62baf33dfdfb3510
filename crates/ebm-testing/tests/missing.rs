//! Messages and records of tests that lack a resource: this test starts itself in an empty environment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use ebm_testing::{external, mpi, target};

/// Environment variable that names the resource to look for in a process that another test starts.
const LOOK_FOR: &str = "EBM_TEST_LOOK_FOR";

/// Looks for a resource when another test starts it; does nothing otherwise.
#[test]
fn worker() {
    let Ok(what) = std::env::var(LOOK_FOR) else { return };
    let found = if what == "mpi" { mpi::launchers().pop() } else { external(&what) };
    // libtest does not capture this.
    write!(std::io::stderr(), "found {found:?}").unwrap();
}

/// Starts the worker, and returns its success, its output and the records that it leaves in a folder.
fn look_for(records: &Path, what: &str, required: &str) -> (bool, String, Vec<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker"]).env(LOOK_FOR, what).env("EBM_REQUIRE", required);
    command.env("EBM_TEST_DATA", records.join("data")).env("EBM_SKIPPED_TESTS", records.join("skipped"));
    let output = command.env("PATH", "").env_remove("EBM_MPIEXEC").output().unwrap();
    let files = std::fs::read_dir(records.join("skipped")).into_iter().flatten();
    let records = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    (output.status.success(), mpi::text(&output), records)
}

#[test]
fn what_is_missing_is_said_and_recorded_until_it_is_there() {
    let folder = target().join("tmp/missing");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("data")).unwrap();

    let (success, said, records) = look_for(&folder, "a file", "mpi");
    let line =
        "ebm-testing::missing::worker: a file is not here; let EBM_TEST_DATA name the folder that holds it";
    assert!(success && said.contains("found None") && said.contains(&format!("skipped: {line}\n")), "{said}");
    let [record] = &records[..] else { panic!("{records:?}") };
    let lines: Vec<&str> = record.lines().collect();
    assert!(target().join(lines[0]).exists(), "{record}");
    assert_eq!(lines[1..], ["--test missing", "worker", line]);

    let (success, said, _) = look_for(&folder, "a file", "mpi,data");
    assert!(!success && said.contains("EBM_TEST_DATA"), "{said}");
    let (success, said, _) = look_for(&folder, "a file", "dta");
    assert!(!success && said.contains("EBM_REQUIRE names dta"), "{said}");

    // Another resource of the test has another record.
    assert_eq!(look_for(&folder, "another", "").2.len(), 2);
    std::fs::write(folder.join("data/a file"), "").unwrap();
    let (success, said, records) = look_for(&folder, "a file", "data");
    assert!(success && said.contains("a file\")") && records.len() == 1, "{said}");
    assert!(records[0].contains("another is not here"), "{records:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn launchers_are_found_where_they_have_been_fetched() {
    let folder = target().join("tmp/missing-mpi");
    if target().join("mpi").exists() {
        let (success, said, _) = look_for(&folder, "mpi", "mpi");
        assert!(success && said.contains("bin/mpiexec"), "{said}");
        return;
    }
    let (success, said, _) = look_for(&folder, "mpi", "data");
    assert!(success && said.contains("xtask/mpi/setup.sh"), "{said}");
    let (success, said, _) = look_for(&folder, "mpi", "mpi");
    assert!(!success && said.contains("xtask/mpi/setup.sh"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
