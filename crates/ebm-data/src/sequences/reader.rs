//! What the readers of all datasets share: options, defects, lists and folders.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{names_in, read_text, stays_inside};
use crate::quarantine::{Attempt, DefectCode, Finding, Tolerance, Trouble};

/// Half a million flags or names.
const LIMIT: u64 = 64 << 20;

/// How to read a dataset of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceOptions {
    /// Whether each frame must be there, not the first and the last alone. To ask the file system for each of the 14
    /// million of TrackingNet takes minutes.
    pub every_frame: bool,
    /// How many sequences may be defective.
    pub tolerance: Tolerance,
}

impl SequenceOptions {
    /// For training: 1 defective sequence in 100, the ends of each looked at.
    pub fn train() -> Self {
        Self { every_frame: false, tolerance: Tolerance { max_bad_fraction: 0.01, report: None } }
    }

    /// For a benchmark: each frame looked at, and any number of defective sequences but all, so that the
    /// caller lists them with the results of the others.
    pub fn benchmark() -> Self {
        Self { every_frame: true, tolerance: Tolerance { max_bad_fraction: 1., report: None } }
    }
}

/// A defect of a sequence that is not named yet.
pub(super) fn trouble(path: &Path, code: DefectCode, detail: String) -> Trouble {
    Finding::new(code, detail).trouble(path, "")
}

/// What a failure to read an annotation file means: that it is missing or defective, or that the machine
/// fails.
pub(super) fn annotation_trouble(path: &Path, error: Error) -> Trouble {
    use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
    match &error {
        Error::Io { source, .. } if !matches!(source.kind(), NotFound | NotADirectory | InvalidInput) => {
            Trouble::Fatal(error)
        }
        _ => trouble(path, DefectCode::BadAnnotation, error.to_string()),
    }
}

/// `count` whole numbers from a file, separated by commas, blanks or line ends.
pub(super) fn read_flags(path: &Path, count: usize) -> Attempt<Vec<u32>> {
    let text = read_text(path, LIMIT).map_err(|error| annotation_trouble(path, error))?;
    let fail = |detail| trouble(path, DefectCode::BadAnnotation, detail);
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let parse = |word: &str| word.parse().map_err(|_| fail(format!("{word:?} is no whole number")));
    let numbers = words.map(parse).collect::<Attempt<Vec<u32>>>()?;
    if numbers.len() != count {
        return Err(fail(format!("{} numbers for {count} boxes", numbers.len())));
    }
    Ok(numbers)
}

/// The lines of a list, without blanks around and without empty ones.
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

/// The names of the entries of a folder, sorted, that `keep` keeps.
pub(super) fn entries(folder: &Path, keep: impl Fn(&Path) -> bool) -> Result<BTreeSet<String>> {
    let names = names_in(folder)?.into_iter();
    Ok(names.filter(|name| !name.starts_with('.') && keep(&folder.join(name))).collect())
}

/// The names without extension of the text files of a folder, sorted.
pub(super) fn text_files(folder: &Path) -> Result<BTreeSet<String>> {
    let names = entries(folder, |path| path.extension().is_some_and(|extension| extension == "txt"))?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".txt")).map(str::to_owned).collect())
}

/// The subfolders of a folder, sorted.
pub(super) fn folders(folder: &Path) -> Result<BTreeSet<String>> {
    entries(folder, Path::is_dir)
}
