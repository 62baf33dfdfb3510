//! What a test that goes without something says: this test starts itself where nothing is there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output};

use ebm_testing::{external, mpi, skipped, target};

/// What a process that another test has started is to look for.
const LOOK_FOR: &str = "EBM_TEST_LOOK_FOR";

/// Started by the others; nothing where nobody has.
#[test]
fn worker() {
    let Ok(what) = std::env::var(LOOK_FOR) else { return };
    let found = if what == "mpi" { mpi::launchers().pop() } else { external(&what) };
    // Where libtest does not capture it; counted are the records of what the test that started this has
    // started.
    write!(std::io::stderr(), "found {found:?}, {} skipped", skipped().len()).unwrap();
}

fn look_for(what: &str, required: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker"]).env(LOOK_FOR, what).env("EBM_REQUIRE", required);
    command.env("EBM_TEST_DATA", concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).env("CARGO_PKG_NAME", what);
    command.env("PATH", "").env_remove("EBM_MPIEXEC").output().unwrap()
}

#[test]
fn what_is_missing_is_said_counted_and_where_required_an_error() {
    let output = look_for("missing.rs", "data");
    assert!(output.status.success() && mpi::text(&output).contains("tests/missing.rs\"), 0 skipped"));

    let output = look_for("absent", "mpi");
    let text = mpi::text(&output);
    assert!(output.status.success() && text.contains("skipped: absent::missing::worker: "), "{text}");
    assert!(text.contains("found None, 1 skipped"), "{text}");

    let output = look_for("absent", "mpi,data");
    let text = mpi::text(&output);
    assert!(!output.status.success() && text.contains("EBM_TEST_DATA"), "{text}");

    let output = look_for("absent", "dta");
    assert!(!output.status.success() && mpi::text(&output).contains("EBM_REQUIRE names dta"));

    // Where the launchers have been fetched, they are found.
    if target().join("mpi").exists() {
        let output = look_for("mpi", "mpi");
        assert!(output.status.success() && mpi::text(&output).contains("bin/mpiexec"));
        return;
    }
    let output = look_for("mpi", "data");
    assert!(output.status.success() && mpi::text(&output).contains("xtask/mpi/setup.sh"));
    let output = look_for("mpi", "mpi");
    assert!(!output.status.success() && mpi::text(&output).contains("xtask/mpi/setup.sh"));
}
