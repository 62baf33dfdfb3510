//! `cargo xtask cuda-setup`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::hand_over;

/// Becomes `xtask/cuda/setup.sh`, which installs what building with CUDA needs.
pub fn run(root: &Path, directory: Option<OsString>) -> Result<i32> {
    hand_over(Command::new("bash").arg("xtask/cuda/setup.sh").args(directory).current_dir(root))
        .context("`cargo xtask cuda-setup` needs bash")
}
