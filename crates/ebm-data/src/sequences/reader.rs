//! What the readers of all datasets share: sound and defective sequences, and whether the frames are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::box_list::read_boxes;
use super::{Frames, Rect, Sequence, Sequences};
use crate::error::{Error, Result};
use crate::files::{names_in, read_limited, stays_inside};
use crate::quarantine::{Defect, DefectCode, Tolerance};

/// Half a million flags or names.
const LIMIT: u64 = 64 << 20;

/// How closely to look at the frames of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCheck {
    /// The first and the last frame must be there, and none behind the last where the dataset has none there.
    Ends,
    /// Each frame must be there. Asks the file system for each: minutes for the 14 million of TrackingNet.
    All,
}

/// How to read a dataset of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceOptions {
    /// How closely to look at the frames.
    pub check: FrameCheck,
    /// How many sequences may be defective.
    pub tolerance: Tolerance,
}

impl SequenceOptions {
    /// For training: 1 defective sequence in 100, the ends of each looked at.
    pub fn train() -> Self {
        Self { check: FrameCheck::Ends, tolerance: Tolerance { max_bad_fraction: 0.01, report: None } }
    }

    /// For a benchmark: each frame looked at, and any number of defective sequences but all, so that the
    /// caller lists them with the results of the others.
    pub fn benchmark() -> Self {
        Self { check: FrameCheck::All, tolerance: Tolerance { max_bad_fraction: 1., report: None } }
    }
}

/// Why there is no sequence.
pub(super) enum Trouble {
    /// The sequence is defective.
    Defect(PathBuf, DefectCode, String),
    /// The machine's failure, which must not pass for a defect.
    Fatal(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// A result whose failure costs one sequence, or everything.
pub(super) type Attempt<T> = std::result::Result<T, Trouble>;

/// Sound and defective sequences in the order in which they are read.
pub(super) struct Collector<'a> {
    options: &'a SequenceOptions,
    sequences: Sequences,
}

impl<'a> Collector<'a> {
    pub fn new(options: &'a SequenceOptions) -> Result<Self> {
        options.tolerance.validate()?;
        Ok(Self { options, sequences: Sequences::default() })
    }

    /// Takes the sequence `name`, once its frames are found to be there, or records why there is none.
    ///
    /// # Errors
    /// The machine's failures.
    pub fn push(&mut self, name: &str, extra: Extra, attempt: Attempt<Sequence>) -> Result<()> {
        let checked = attempt.and_then(|sequence| {
            check_frames(&sequence, extra, self.options.check)?;
            Ok(sequence)
        });
        match checked {
            Ok(sequence) => self.sequences.sequences.push(sequence),
            Err(Trouble::Defect(file, code, detail)) => {
                let defect = Defect { file, sample: format!("sequence {name}"), code, detail };
                self.sequences.quarantine.defects.push(defect);
            }
            Err(Trouble::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    /// Everything that was pushed, after the report was written.
    ///
    /// # Errors
    /// [`Error::TooManyDefects`] above the tolerated fraction, or without any sound sequence;
    /// [`Error::Format`] if nothing was pushed: `root` is no such dataset, whose files should be laid out as
    /// `layout` says.
    pub fn finish(self, root: &Path, layout: &'static str) -> Result<Sequences> {
        let Sequences { sequences, quarantine } = &self.sequences;
        if sequences.is_empty() && quarantine.defects.is_empty() {
            let detail = format!("no sequence found; the files should be laid out as {layout}");
            return Err(Error::format(root, "a dataset of sequences", detail));
        }
        self.options.tolerance.apply(quarantine, sequences.len())?;
        if sequences.is_empty() {
            let bad = quarantine.defects.len();
            let all_but_one = (bad - 1) as f64 / bad as f64;
            let tolerance = Tolerance { max_bad_fraction: all_but_one, ..self.options.tolerance.clone() };
            tolerance.check(quarantine, bad, bad)?;
        }
        Ok(self.sequences)
    }
}

/// Whether files may follow the last annotated frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// They may: the sequence is a part of its folder.
    Allowed,
    /// They may not: boxes are missing then.
    Refused,
}

fn check_frames(sequence: &Sequence, extra: Extra, check: FrameCheck) -> Attempt<()> {
    let frames = &sequence.frames;
    let (count, boxes) = (frames.len(), sequence.boxes.len());
    let fail = |path: PathBuf, code, detail| Err(Trouble::Defect(path, code, detail));
    let Some(last) = count.checked_sub(1) else {
        return fail(
            PathBuf::from(&sequence.name),
            DefectCode::BadAnnotation,
            "no frame and no box".to_owned(),
        );
    };
    if count != boxes {
        let path = frames.path(0).unwrap_or_default();
        return fail(path, DefectCode::BadAnnotation, format!("{boxes} boxes for {count} frames"));
    }
    let step = match check {
        FrameCheck::Ends => last.max(1),
        FrameCheck::All => 1,
    };
    let absent = |i| frames.path(i).filter(|path| !path.is_file()).map(|path| (i, path));
    let missing = (0..count).step_by(step).find_map(absent);
    if let Some((i, path)) = missing {
        let detail = format!("frame {} of {count}, as many as there are boxes, is not there", i + 1);
        // Without the first there is no folder or another numbering; without a later one there are too few.
        let code = if i == 0 { DefectCode::MissingFile } else { DefectCode::BadAnnotation };
        return fail(path, code, detail);
    }
    if let (Extra::Refused, Frames::Numbered { directory, prefix, first, count, digits, extension }) =
        (extra, frames)
    {
        let next = format!("{prefix}{:0digits$}.{extension}", first + count, digits = *digits);
        let next = directory.join(next);
        if next.exists() {
            let detail = format!("{boxes} boxes, but the folder has more frames");
            return fail(next, DefectCode::BadAnnotation, detail);
        }
    }
    Ok(())
}

/// What a failure to read an annotation file means: that it is missing or defective, or that the machine
/// fails.
pub(super) fn annotation_trouble(path: &Path, error: Error) -> Trouble {
    match &error {
        Error::Io { source, .. } if !is_absent(source) => Trouble::Fatal(error),
        _ => Trouble::Defect(path.to_owned(), DefectCode::BadAnnotation, error.to_string()),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidInput)
}

/// The boxes of an annotation file, at least one.
pub(super) fn boxes(path: &Path) -> Attempt<Vec<Rect>> {
    let boxes = read_boxes(path).map_err(|error| annotation_trouble(path, error))?;
    if boxes.is_empty() {
        return Err(Trouble::Defect(path.to_owned(), DefectCode::BadAnnotation, "no box".to_owned()));
    }
    Ok(boxes)
}

/// Whether the target can be `seen` in each of `count` frames, by the numbers that two files of `folder` have for it.
pub(super) fn visible(
    folder: &Path,
    files: [&str; 2],
    count: usize,
    seen: fn((u32, u32)) -> bool,
) -> Attempt<Option<Vec<bool>>> {
    let [first, second] = files.map(|file| numbers(&folder.join(file), count));
    Ok(Some(first?.into_iter().zip(second?).map(seen).collect()))
}

/// `count` whole numbers from a file, separated by commas, blanks or line ends.
fn numbers(path: &Path, count: usize) -> Attempt<Vec<u32>> {
    let text = text(path).map_err(|error| annotation_trouble(path, error))?;
    let fail = |detail| Trouble::Defect(path.to_owned(), DefectCode::BadAnnotation, detail);
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let parse = |word: &str| word.parse().map_err(|_| fail(format!("{word:?} is no whole number")));
    let numbers = words.map(parse).collect::<Attempt<Vec<u32>>>()?;
    if numbers.len() != count {
        return Err(fail(format!("{} numbers for {count} boxes", numbers.len())));
    }
    Ok(numbers)
}

fn text(path: &Path) -> Result<String> {
    let bytes = read_limited(path, LIMIT)?;
    String::from_utf8(bytes).map_err(|error| Error::format(path, "a text file", error))
}

/// The lines of a list, without blanks around and without empty ones.
///
/// # Errors
/// [`Error::Io`], [`Error::FileTooLarge`]; [`Error::Format`] for what is no text, or a line that leads out of
/// a folder.
pub(super) fn list(path: &Path) -> Result<Vec<String>> {
    let text = text(path)?;
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
///
/// # Errors
/// [`Error::Io`] for a folder that cannot be read.
pub(super) fn entries(folder: &Path, keep: impl Fn(&Path) -> bool) -> Result<BTreeSet<String>> {
    let names = names_in(folder)?.into_iter();
    Ok(names.filter(|name| !name.starts_with('.') && keep(&folder.join(name))).collect())
}

/// The names without extension of the text files of a folder, sorted.
///
/// # Errors
/// [`Error::Io`] for a folder that cannot be read.
pub(super) fn text_files(folder: &Path) -> Result<BTreeSet<String>> {
    let names = entries(folder, |path| path.extension().is_some_and(|extension| extension == "txt"))?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".txt")).map(str::to_owned).collect())
}

/// The subfolders of a folder, sorted.
///
/// # Errors
/// [`Error::Io`] for a folder that cannot be read.
pub(super) fn folders(folder: &Path) -> Result<BTreeSet<String>> {
    entries(folder, Path::is_dir)
}

/// The rows of a table in the program's text, whose columns are named as `T`'s fields.
pub(super) fn table<T: DeserializeOwned>(text: &str) -> Vec<T> {
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().filter_map(std::result::Result::ok).collect()
}

/// The sequence of JPEG files `directory/{number}.jpg`, the numbers running on from `first`, with zeros up to
/// `digits`, as many as there are boxes.
pub(super) fn sequence(
    name: &str,
    directory: PathBuf,
    (first, digits): (usize, usize),
    boxes: Vec<Rect>,
    visible: Option<Vec<bool>>,
) -> Sequence {
    let (prefix, extension, count) = (String::new(), "jpg".to_owned(), boxes.len());
    let frames = Frames::Numbered { directory, prefix, first, count, digits, extension };
    Sequence { name: name.to_owned(), frames, boxes, visible }
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
        return Err(Trouble::Defect(directory.to_owned(), DefectCode::MissingFile, detail));
    }
    let mut boxes = vec![[f64::NAN; 4]; count];
    boxes[0] = first;
    Ok(boxes)
}
