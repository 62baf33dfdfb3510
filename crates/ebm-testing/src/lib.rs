//! What tests need that the repository does not hold: large files ([`external`]) and MPI ([`mpi`]); and files
//! that tests of several crates read ([`fixture`]).
//!
//! A test that goes without says so on stderr, past libtest's capture, and is recorded;
//! `xtask/tests/skipped.rs`, which `cargo test --workspace` runs last, counts the records of its run. Where
//! the environment variable `EBM_REQUIRE` names `data`, `mpi`, `cuda` or `browser` (or several, with commas between
//! them), a test that would go without fails instead.
#![allow(clippy::panic, reason = "only tests call this, and they fail by panicking")]

pub mod mpi;

use std::fs::{create_dir_all, read_dir, read_to_string, write};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, io, thread};

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
    let full = folder.join(path);
    if full.exists() {
        return Some(full);
    }
    missing("data", &full.display().to_string(), "let EBM_TEST_DATA name the folder that holds it");
    None
}

/// What `EBM_REQUIRE` may name.
const KINDS: [&str; 4] = ["data", "mpi", "cuda", "browser"];

/// Says and records that the calling test goes without `what`.
///
/// # Panics
///
/// With `remedy`, where `EBM_REQUIRE` names `kind`.
pub fn missing(kind: &str, what: &str, remedy: &str) {
    let required = env::var("EBM_REQUIRE").unwrap_or_default();
    for word in required.split(',').filter(|word| !word.is_empty()) {
        assert!(KINDS.contains(&word), "EBM_REQUIRE names {word}; it may name {}", KINDS.join(", "));
    }
    assert!(
        !required.split(',').any(|word| word == kind),
        "{what} is not here, and EBM_REQUIRE names {kind}: {remedy}"
    );
    let test = test_name();
    let line = format!("skipped: {test}: {what} is not here; {remedy}\n");
    // In one write, so that lines of several tests do not mix; where stderr is closed, the record remains.
    let _ = io::stderr().lock().write_all(line.as_bytes());
    let folder = records();
    let file = folder.join(test.replace("::", "."));
    let written = create_dir_all(&folder).and_then(|()| write(&file, format!("{}\n{line}", run())));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// The lines of all tests that went without something in this run of cargo.
pub fn skipped() -> Vec<String> {
    let folder = records();
    let Ok(entries) = read_dir(&folder) else { return Vec::new() };
    let run = run();
    let line = |path: PathBuf| {
        let text = read_to_string(&path).ok()?;
        let (of, line) = text.split_once('\n')?;
        (of == run).then(|| line.trim_end().to_owned())
    };
    let mut lines: Vec<String> = entries.filter_map(|entry| line(entry.ok()?.path())).collect();
    lines.sort();
    lines
}

/// This run: the process that started this one, `cargo test`, which starts all others too. Records of earlier
/// runs, and of tests that no longer exist, have another.
fn run() -> String {
    #[cfg(unix)]
    return std::os::unix::process::parent_id().to_string();
    #[cfg(not(unix))]
    return String::new();
}

/// `crate::binary::test`. Several crates have test files of the same name. libtest names a test's thread
/// after it.
fn test_name() -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "?".into());
    let exe = env::current_exe().unwrap_or_default();
    let stem = exe.file_stem().unwrap_or_default().to_string_lossy();
    let binary = stem.rsplit_once('-').map_or(&*stem, |(name, _)| name);
    format!("{package}::{binary}::{}", thread::current().name().unwrap_or("?"))
}

fn records() -> PathBuf {
    target().join("skipped-tests")
}

/// The target folder: the one above this program that cargo has marked as a cache.
pub fn target() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let marked = exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}
