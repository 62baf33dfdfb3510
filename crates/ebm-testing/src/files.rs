//! Folders of tests: their files written, listed and read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

fn must<T>(outcome: io::Result<T>, path: &Path) -> T {
    outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes the file `name` in `folder`, with the folders above it, and returns its path.
///
/// # Panics
///
/// If it cannot be written.
pub fn write(folder: &Path, name: &str, content: &(impl AsRef<[u8]> + ?Sized)) -> PathBuf {
    let path = folder.join(name);
    must(path.parent().map_or(Ok(()), fs::create_dir_all), &path);
    must(fs::write(&path, content), &path);
    path
}

/// Returns the sorted names of the files and folders in `folder`.
///
/// # Panics
///
/// If it cannot be listed.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = must(fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>), folder);
    let mut names: Vec<String> =
        entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns the contents of all files below `folder`, by their paths in it.
///
/// # Panics
///
/// If they cannot be read.
pub fn below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            found.extend(below(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, must(fs::read(&path), &path));
        }
    }
    found
}
