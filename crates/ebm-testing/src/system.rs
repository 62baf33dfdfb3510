//! Programs and devices that most systems have.

use std::path::{Path, PathBuf};

use crate::{needs, program};

/// Returns the path of `prlimit`, which starts a program with limited resources.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `system`.
pub fn prlimit() -> Option<PathBuf> {
    needs("system", "prlimit", "install util-linux", program(&["prlimit"]))
}

/// Returns the device that is always full.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `system`.
pub fn full_device() -> Option<&'static Path> {
    let full = Some(Path::new("/dev/full")).filter(|full| full.exists());
    needs("system", "/dev/full", "run the test on Linux", full)
}
