//! Annotations for scoring the results of trackers.

use std::fs;
use std::path::{Path, PathBuf};

use ebm_data::sequences::{Rect, otb, read_boxes};

use super::report::FailedSequence;
use super::sequence::TrackingGroundTruth;
use crate::error::{Error, Result};

/// The annotations of a dataset, and the sequences without usable ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotations<'a> {
    /// Annotation of each sequence.
    pub sequences: Vec<TrackingGroundTruth<'a>>,
    /// Sequences without an annotation file, or with one that cannot be read.
    pub failed: Vec<FailedSequence>,
}

impl Annotations<'static> {
    /// Reads the 100 targets of OTB-100 from the folders in `dir`: see [`otb::annotations`].
    ///
    /// # Errors
    /// [`Error::Data`] if `dir` has none of them.
    pub fn otb100(dir: &Path) -> Result<Self> {
        let all = otb::annotations(dir)?;
        Ok(Self::collect(all.into_iter().map(|(sequence, boxes)| (sequence.name.to_owned(), boxes))))
    }

    /// Reads any dataset with a list of boxes for each sequence: `dir/{name}.txt`, or `groundtruth_rect.txt` or
    /// `groundtruth.txt` in `dir/{name}/`. A folder with `groundtruth_rect.1.txt`, `groundtruth_rect.2.txt` …
    /// has the targets `{name}.1`, `{name}.2` …. All boxes of a file count.
    ///
    /// # Errors
    /// [`Error::Io`] if `dir` cannot be listed; [`Error::Empty`] if it has no such file.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in list(dir)? {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if path.is_dir() {
                // The name of a folder has no extension, but may contain a dot.
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(name);
                files.extend(in_folder(name, &path)?);
            } else if is_text(&path) {
                files.push((name.to_owned(), path));
            }
        }
        if files.is_empty() {
            return Err(Error::Empty("file with annotated boxes in the folder"));
        }
        Ok(Self::collect(files.into_iter().map(|(name, path)| (name, read_boxes(&path)))))
    }

    fn collect(all: impl Iterator<Item = (String, ebm_data::Result<Vec<Rect>>)>) -> Self {
        let mut annotations = Self { sequences: Vec::new(), failed: Vec::new() };
        for (name, boxes) in all {
            match boxes {
                Ok(boxes) => annotations.sequences.push(TrackingGroundTruth::new(name, boxes)),
                Err(error) => annotations.failed.push(FailedSequence { name, reason: error.to_string() }),
            }
        }
        annotations
    }
}

/// Finds the annotated targets in the folder of the sequence `name`.
fn in_folder(name: &str, folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    for file in ["groundtruth_rect.txt", "groundtruth.txt"] {
        let path = folder.join(file);
        if path.is_file() {
            return Ok(vec![(name.to_owned(), path)]);
        }
    }
    let target = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.strip_prefix("groundtruth_rect.")?.strip_suffix(".txt")?;
        Some((format!("{name}.{}", number.parse::<u32>().ok()?), path.clone()))
    };
    Ok(list(folder)?.into_iter().filter_map(target).collect())
}

pub(super) fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt"))
}

/// Lists the entries of a folder, sorted by path.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::Io { path: dir.to_owned(), action: "read", source };
    let entries = fs::read_dir(dir).map_err(fail)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>().map_err(fail)?;
    paths.sort();
    Ok(paths)
}
