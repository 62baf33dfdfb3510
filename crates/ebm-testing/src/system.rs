//! What most systems have.

use std::path::{Path, PathBuf};

use crate::{needs, program};

/// `prlimit`, which starts a program that may have only so much of something.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `system`.
pub fn prlimit() -> Option<PathBuf> {
    needs("system", "prlimit", "install util-linux", program(&["prlimit"]))
}

/// The device that is always full.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `system`.
pub fn full_device() -> Option<&'static Path> {
    let full = Some(Path::new("/dev/full")).filter(|full| full.exists());
    needs("system", "/dev/full", "run the test on Linux", full)
}
