//! What tests need that the repository does not hold: large files ([`external`]), MPI ([`mpi`]), a [`browser`] and what is
//! usual but not everywhere ([`system`]); files that tests of several crates read ([`fixture`]); and [`signal`].
//!
//! A test that goes without says so through [`needs`]: it is recorded, and `xtask/fresh/skipped.sh` lists the records.
//! Where the environment variable `EBM_REQUIRE` names `data`, `mpi`, `cuda`, `browser` or `system` (or several, with
//! commas between them), a test that would go without fails instead.
#![allow(clippy::panic, reason = "only tests call this, and they fail by panicking")]

pub mod browser;
pub mod mpi;
mod needs;
pub mod system;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use needs::needs;

/// Where files outside the repository lie if `EBM_TEST_DATA` does not say.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// A folder of `fixtures/`, small parts of published sets: `coco`, `coco_eval`, `otb`, `prroi_pool`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// A file or folder that is not in the repository, by its path under the folder that `EBM_TEST_DATA` names.
///
/// # Panics
///
/// If it is missing and `EBM_REQUIRE` names `data`.
pub fn external(path: &str) -> Option<PathBuf> {
    let folder = env::var_os("EBM_TEST_DATA").map_or_else(|| BESIDE.into(), PathBuf::from);
    let found = Some(folder.join(path)).filter(|full| full.exists());
    needs("data", path, "let EBM_TEST_DATA name the folder that holds it", found)
}

/// The first of these programs that is in a folder of `PATH`.
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.find(|path| path.exists())
}

/// Sends a process the signal of this name; false where there is no such process. The shell does it, as a small system has
/// no program `kill`.
///
/// # Panics
///
/// If there is no `sh`.
pub fn signal(process: u32, name: &str) -> bool {
    let mut shell = Command::new("sh");
    let sent = shell.args(["-c", "kill -s \"$0\" \"$1\"", name, &process.to_string()]).status();
    sent.unwrap_or_else(|error| panic!("sh: {error}")).success()
}

/// The target folder: the one above this program that cargo has marked as a cache.
pub fn target() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let marked = exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}
