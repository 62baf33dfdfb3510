//! What the readers of all datasets share: sound and defective sequences, and whether the frames are there.

use std::collections::BTreeSet;
use std::path::Path;

use super::dataset::Place;
use super::{Rect, Sequence, Sequences};
use crate::error::{Error, Result};
use crate::files::{names_in, read_text, stays_inside};
use crate::quarantine::{Attempt, Defect, DefectCode, Finding, Tolerance, Trouble};

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

/// What `read` finds in the places, each defective sequence by itself, unless too many are, or all; `None` without any
/// place. Where a sequence `is_part` of its folder, frames may go on behind its last box.
pub(super) fn collect(
    places: Vec<Place>,
    read: impl Fn(Place) -> Attempt<Sequence>,
    is_part: bool,
    options: &SequenceOptions,
) -> Result<Option<Sequences>> {
    let SequenceOptions { every_frame, tolerance } = options;
    let count = places.len();
    let mut found = Sequences::default();
    for place in places {
        let sample = format!("sequence {}", place.name);
        let file = place.boxes.clone();
        let checked = read(place).and_then(|sequence| {
            check_frames(&sequence, &file, is_part, *every_frame)?;
            Ok(sequence)
        });
        match checked {
            Ok(sequence) => found.sequences.push(sequence),
            Err(Trouble::Defect(defect)) => found.quarantine.defects.push(Defect { sample, ..defect }),
            Err(Trouble::Fatal(error)) => return Err(error),
        }
    }
    tolerance.apply(&found.quarantine, found.sequences.len())?;
    if found.sequences.is_empty() && count > 0 {
        // However much is tolerated, something must be left.
        let max_bad_fraction = (count - 1) as f64 / count as f64;
        Tolerance { max_bad_fraction, ..tolerance.clone() }.check(&found.quarantine, count, count)?;
    }
    Ok(Some(found).filter(|_| count > 0))
}

fn check_frames(sequence: &Sequence, file: &Path, is_part: bool, every_frame: bool) -> Attempt<()> {
    let frames = &sequence.frames;
    let (count, boxes) = (frames.len(), sequence.boxes.len());
    let fail = |path: &Path, code, detail| Err(trouble(path, code, detail));
    if boxes == 0 || count != boxes {
        return fail(file, DefectCode::BadAnnotation, format!("{boxes} boxes for {count} frames"));
    }
    let step = if every_frame { 1 } else { (count - 1).max(1) };
    let absent = |i| frames.path(i).filter(|path| !path.is_file()).map(|path| (i, path));
    if let Some((i, path)) = (0..count).step_by(step).find_map(absent) {
        let detail = format!("frame {} of {count}, as many as there are boxes, is not there", i + 1);
        // Without the first there is no folder or another numbering; without a later one there are too few.
        let code = if i == 0 { DefectCode::MissingFile } else { DefectCode::BadAnnotation };
        return fail(&path, code, detail);
    }
    let next = frames.numbered(count).filter(|next| !is_part && next.exists());
    next.map_or(Ok(()), |next| {
        let detail = format!("{boxes} boxes, but the folder has more frames");
        fail(&next, DefectCode::BadAnnotation, detail)
    })
}

/// That the sequence is defective; [`collect`] knows which.
fn trouble(path: &Path, code: DefectCode, detail: String) -> Trouble {
    Finding::new(code, detail).trouble(path, "")
}

/// What a failure to read an annotation file means: that it is missing or defective, or that the machine
/// fails.
pub(super) fn annotation_trouble(path: &Path, error: Error) -> Trouble {
    match &error {
        Error::Io { source, .. } if !is_absent(source) => Trouble::Fatal(error),
        _ => trouble(path, DefectCode::BadAnnotation, error.to_string()),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidInput)
}

/// Whether the target can be `seen` in each of `count` frames, by the numbers that two files of `folder` have for it.
pub(super) fn visible(
    folder: &Path,
    files: [&str; 2],
    count: usize,
    seen: fn((u32, u32)) -> bool,
) -> Attempt<Vec<bool>> {
    let [first, second] = files.map(|file| numbers(&folder.join(file), count));
    Ok(first?.into_iter().zip(second?).map(seen).collect())
}

/// `count` whole numbers from a file, separated by commas, blanks or line ends.
fn numbers(path: &Path, count: usize) -> Attempt<Vec<u32>> {
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

/// Boxes for as many JPEG files as `directory` holds, all NaN but the first: benchmarks keep the others to
/// themselves.
pub(super) fn only_first_known(first: Rect, directory: &Path) -> Attempt<Vec<Rect>> {
    let is_frame = |path: &Path| path.extension().is_some_and(|extension| extension == "jpg");
    let count = match entries(directory, is_frame) {
        Ok(names) => names.len(),
        Err(Error::Io { source, .. }) if is_absent(&source) => 0,
        Err(error) => return Err(Trouble::Fatal(error)),
    };
    if count == 0 {
        let detail = "no frame is there".to_owned();
        return Err(trouble(directory, DefectCode::MissingFile, detail));
    }
    let mut boxes = vec![[f64::NAN; 4]; count];
    boxes[0] = first;
    Ok(boxes)
}
