//! `cargo xtask check`: the quick tier of what continuous integration runs.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::cargo;

/// What is run, each as arguments of cargo: the tests are those beside the code, and those that hold the rules of the house.
/// Clippy and tests are of the sets of packages that `.ci/run` takes, so that nothing is built twice.
const STEPS: [&str; 3] = [
    "fmt --all --check",
    "clippy --workspace --all-targets --locked -- -D warnings",
    "test --workspace --locked --quiet --lib --test tidy --test layers --test pages --test packages --test docs_tables",
];

/// Runs the steps, up to the first that fails; its exit code is this task's.
pub fn run(root: &Path) -> Result<i32> {
    for step in STEPS {
        let start = Instant::now();
        let status = cargo().args(step.split(' ')).current_dir(root).status();
        let status = status.with_context(|| format!("cannot start cargo {step}"))?;
        eprintln!("check: cargo {step}: {status} after {} s", start.elapsed().as_secs());
        if !status.success() {
            return Ok(status.code().unwrap_or(1));
        }
    }
    Ok(0)
}
