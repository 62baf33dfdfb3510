//! A browser that tests open pages in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{needs, program};

/// Returns the path of Chromium, if it is installed.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `browser`.
pub fn chromium() -> Option<PathBuf> {
    let found = program(&["chromium", "chromium-browser", "google-chrome"]);
    needs("browser", "chromium", "install it with xtask/browser/setup.sh", found)
}

/// Opens the page at `path`, and returns its document after its scripts have run. `folder` is for the browser's own files.
///
/// # Panics
///
/// If the browser does not start or fails.
pub fn dump_dom(chromium: &Path, page: &Path, folder: &Path) -> String {
    let page = fs::canonicalize(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let output = Command::new(chromium)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", chromium.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
