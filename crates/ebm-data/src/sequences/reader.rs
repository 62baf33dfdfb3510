//! Shared parts of the dataset readers: options, defects, lists and folders.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{names_in, read_text, stays_inside};
use crate::quarantine::{DefectCode, Finding, SampleError, SampleResult, Tolerance};

/// Largest size of a file, in bytes: half a million flags or names.
const LIMIT: u64 = 64 << 20;

/// Options of reading a dataset of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceOptions {
    /// `true` to check that every frame exists, `false` to check only the first and the last. Checking each of
    /// the 14 million frames of TrackingNet takes minutes.
    pub every_frame: bool,
    /// Tolerated fraction of defective sequences.
    pub tolerance: Tolerance,
}

impl SequenceOptions {
    /// Returns the options for training: 1 defective sequence in 100, only the first and the last frame are checked.
    pub fn train() -> Self {
        Self { every_frame: false, tolerance: Tolerance { max_bad_fraction: 0.01, report: None } }
    }

    /// Returns the options for a benchmark: every frame is checked, and all but one of the sequences may be
    /// defective. The caller lists the defects with the results of the others.
    pub fn benchmark() -> Self {
        Self { every_frame: true, tolerance: Tolerance { max_bad_fraction: 1., report: None } }
    }
}

/// Returns a defect of a sequence whose name is filled in later.
pub(super) fn sequence_defect(path: &Path, code: DefectCode, detail: String) -> SampleError {
    Finding::new(code, detail).into_sample_error(path, "")
}

/// Converts an error of reading an annotation file: to a defect if the file is missing or malformed, to a fatal
/// error if the machine fails.
pub(super) fn annotation_error(path: &Path, error: Error) -> SampleError {
    use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
    match &error {
        Error::Io { source, .. } if !matches!(source.kind(), NotFound | NotADirectory | InvalidInput) => {
            SampleError::Fatal(error)
        }
        _ => sequence_defect(path, DefectCode::BadAnnotation, error.to_string()),
    }
}

/// Reads `count` whole numbers from a file, separated by commas, blanks or line ends.
pub(super) fn read_flags(path: &Path, count: usize) -> SampleResult<Vec<u32>> {
    let text = read_text(path, LIMIT).map_err(|error| annotation_error(path, error))?;
    let fail = |detail| sequence_defect(path, DefectCode::BadAnnotation, detail);
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let parse = |word: &str| word.parse().map_err(|_| fail(format!("{word:?} is no whole number")));
    let numbers = words.map(parse).collect::<SampleResult<Vec<u32>>>()?;
    if numbers.len() != count {
        return Err(fail(format!("{} numbers for {count} boxes", numbers.len())));
    }
    Ok(numbers)
}

/// Reads the lines of a list, trimmed and without empty lines.
pub(super) fn list(path: &Path) -> Result<Vec<String>> {
    let text = read_text(path, LIMIT)?;
    let lines: Vec<String> =
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    match lines.iter().find(|line| !stays_inside(line)) {
        Some(line) => Err(Error::format(
            path,
            "a list of sequences",
            format!("{line:?} is no name; write the name of one sequence in each line"),
        )),
        None => Ok(lines),
    }
}

/// Returns the sorted names of the entries of a folder that `keep` accepts.
pub(super) fn entries(folder: &Path, keep: impl Fn(&Path) -> bool) -> Result<BTreeSet<String>> {
    let names = names_in(folder)?.into_iter();
    Ok(names.filter(|name| !name.starts_with('.') && keep(&folder.join(name))).collect())
}

/// Returns the sorted names of the text files of a folder, without extension.
pub(super) fn text_files(folder: &Path) -> Result<BTreeSet<String>> {
    let names = entries(folder, |path| path.extension().is_some_and(|extension| extension == "txt"))?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".txt")).map(str::to_owned).collect())
}

/// Returns the sorted names of the subfolders of a folder.
pub(super) fn folders(folder: &Path) -> Result<BTreeSet<String>> {
    entries(folder, Path::is_dir)
}
