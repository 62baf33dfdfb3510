//! Resources of tests that the repository does not contain: large files ([`external`]), MPI ([`mpi`]), a [`browser`] and
//! programs of the [`system`]; files that tests of several crates read ([`fixture`]); [`files`] of tests; and [`signal`].
//!
//! A test that skips a check for lack of a resource calls [`needs`], which records it; `xtask/fresh/skipped.sh` lists the
//! records. If the environment variable `EBM_REQUIRE` names `data`, `mpi`, `cuda`, `browser` or `system` (several with
//! commas between them), such a test fails instead.
#![allow(clippy::panic, reason = "only tests call this, and they fail by panicking")]

pub mod browser;
pub mod files;
pub mod mpi;
mod needs;
pub mod system;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use needs::needs;

/// Folder of the files outside the repository, unless `EBM_TEST_DATA` names another.
const DEFAULT_DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// Returns the path of a part of `fixtures/`, small parts of published sets: `coco`, `coco_eval`, `otb`, `prroi_pool`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// Returns a file or folder outside the repository, by its path under the folder that `EBM_TEST_DATA` names.
///
/// # Panics
///
/// If it is missing and `EBM_REQUIRE` names `data`.
pub fn external(path: &str) -> Option<PathBuf> {
    let folder = env::var_os("EBM_TEST_DATA").map_or_else(|| DEFAULT_DATA.into(), PathBuf::from);
    let found = Some(folder.join(path)).filter(|full| full.exists());
    needs("data", path, "let EBM_TEST_DATA name the folder that holds it", found)
}

/// Returns the path of the first of these programs that is in a folder of `PATH`.
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.find(|path| path.exists())
}

/// Sends a process the signal `name`; returns `false` if the process does not exist. A shell sends it, because a small
/// system has no program `kill`.
///
/// # Panics
///
/// If there is no `sh`.
pub fn signal(process: u32, name: &str) -> bool {
    let mut shell = Command::new("sh");
    let sent = shell.args(["-c", "kill -s \"$0\" \"$1\"", name, &process.to_string()]).status();
    sent.unwrap_or_else(|error| panic!("sh: {error}")).success()
}

/// Returns the target folder: the one above this program that cargo has marked as a cache.
pub fn target() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let marked = exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}
