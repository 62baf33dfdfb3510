//! How many tests went without what they need. Cargo runs the tests of xtask last, so that in
//! `cargo test --workspace` all others have left their records.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

/// The tests that may go without: they need weights that may not be given away, or MPI.
const MOST: usize = 5;

/// What tests in a browser say that go without one, where it cannot be installed.
const NO_BROWSER: &str = ": chromium is not here;";

#[test]
fn few_tests_are_skipped() {
    let skipped = ebm_testing::skipped();
    let lines: String = skipped.iter().map(|line| format!("\n  {line}")).collect();
    let text = format!("{} tests skipped{lines}\n", skipped.len());
    std::io::stderr().lock().write_all(text.as_bytes()).unwrap();
    let others = skipped.iter().filter(|line| !line.contains(NO_BROWSER)).count();
    assert!(others <= MOST, "more than {MOST} tests were skipped that need no browser");
}
