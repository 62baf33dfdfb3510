//! `cargo xtask ci`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::hand_over;

/// Becomes `.ci/run`, the one place that says what continuous integration runs.
pub fn run(root: &Path) -> Result<i32> {
    hand_over(Command::new("bash").arg(".ci/run").current_dir(root))
        .context("`cargo xtask ci` needs bash; without it, run the commands named in .ci/run one by one")
}
