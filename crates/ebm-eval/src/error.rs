//! Errors of reading, checking and scoring results.

use std::path::PathBuf;

use ebm_base::files::ErrorKind;
use ebm_data::sequences::Rect;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Each message names the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}; check that the path exists and its permissions", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Operation that failed: "read" or "write".
        action: &'static str,
        /// Reason that the operating system gave.
        source: std::io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error(
        "{}: not a valid COCO file: {source}; {}",
        path.display(),
        json_remedy(source)
    )]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// Reason that the parser gave, with line and column.
        source: serde_json::Error,
    },
    /// Some detections cannot be scored.
    #[error("{origin}, detection {index}: {problem}{}; {}", more(*.count, *.total), problem.remedy())]
    Detection {
        /// Path of the file, or "detections in memory".
        origin: String,
        /// Position of the first bad detection in the list, from 0.
        index: usize,
        /// Problem of the first bad detection.
        problem: BoxProblem,
        /// Number of detections with a problem of this kind.
        count: usize,
        /// Number of all detections.
        total: usize,
    },
    /// The annotation file is that of a test set without boxes: only its server can score on it.
    #[error(
        "{0}: no annotations, as in the file of a test set: the figures come from the server; write the result \
         files with `ebm eval detection --images DIR --detector WEIGHTS --out DIR` and send them there"
    )]
    NotAnnotated(String),
    /// An annotation makes scoring meaningless.
    #[error("{origin}, annotation {index}: {problem}; repair the annotations before scoring")]
    Annotation {
        /// Path of the file, or "annotations in memory".
        origin: String,
        /// Position of the annotation in the list, from 0.
        index: usize,
        /// Problem of the annotation.
        problem: BoxProblem,
    },
    /// Two images, categories or annotations of this file, or of memory, share an id.
    #[error("{0}: {1} id {2} occurs twice; give every {1} its own id")]
    DuplicateId(String, &'static str, u64),
    /// The annotations, of this file or in memory, contain no images or no categories, so nothing can be scored.
    #[error("{0}: no {1}; pass the annotation file of the split that was detected on")]
    NothingToScore(String, &'static str),
    /// The evaluator refused input that passed the checks of this crate.
    #[error("these detections cannot be scored on these annotations: {0}")]
    Evaluator(#[from] hotcoco::Error),
    /// A metric got no values.
    #[error("no {0}; pass at least one")]
    Empty(&'static str),
    /// A metric cannot use a number.
    #[error("{what}, index {index}: {value} is not {expected}; repair it or leave out that example")]
    Value {
        /// Name of the list of numbers.
        what: &'static str,
        /// Position of the number, from 0.
        index: usize,
        /// The number.
        value: f64,
        /// Required property of the number.
        expected: &'static str,
    },
    /// Two lists differ in length although each needs one entry per example.
    #[error("{found} {what} for {expected}; pass one for each")]
    Lengths {
        /// Name of the list with the wrong length.
        what: &'static str,
        /// Actual length.
        found: usize,
        /// Required length.
        expected: usize,
    },
    /// There are too few examples: their name, their number, and the required number.
    #[error("{1} {0} are too few; pass at least {2}")]
    TooFew(&'static str, usize, usize),
    /// A sequence, given by its name or its result file, cannot be scored.
    #[error("{0}: {1}")]
    Tracking(String, TrackingProblem),
    /// No sequence could be scored: the number of sequences, the name of the first, and its problem.
    #[error("none of the {0} sequences could be scored; first: {1}: {2}")]
    NoSequence(usize, String, String),
    /// Two reports use different conventions: the first one and the one with this number, counted from 1.
    #[error("run {0} was scored by other conventions than run 1; score all runs alike")]
    OtherConvention(usize),
    /// A list of boxes could not be read or written.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
}

impl Error {
    /// Returns the kind of the error, which decides the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Data(error) => error.kind(),
            _ => ErrorKind::Data,
        }
    }
}

/// Returns a note for messages that the named detection is the first of `count` bad ones.
fn more(count: usize, total: usize) -> String {
    if count > 1 { format!(" (the first of {count} such of {total})") } else { String::new() }
}

/// A problem of a detection or an annotation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BoxProblem {
    /// The named coordinate, area or score is NaN or infinite.
    #[error("{0} is {1}")]
    NonFinite(&'static str, f64),
    /// The named width, height or area is below zero.
    #[error("{0} is {1}, below zero (boxes are x, y, width, height)")]
    Negative(&'static str, f64),
    /// The magnitude of the named field exceeds the limit, the last number.
    #[error("{0} is {1}, beyond ±{2}")]
    Absurd(&'static str, f64, f64),
    /// The annotations have no image with this id.
    #[error("image id {0} is not in the annotations (wrong split?)")]
    UnknownImage(u64),
    /// The annotations have no category with this id.
    #[error("category id {0} is not in the annotations (a class index instead of a category id?)")]
    UnknownCategory(u64),
    /// The named field is malformed: its value, and the expected form.
    #[error("{0} is {1}, not {2}")]
    Malformed(&'static str, String, &'static str),
    /// The box has no extent, so it has no y.
    #[error("width or height is 0")]
    NoExtent,
    /// The box (left, top, width, height) lies outside of its image with this number of columns and rows.
    #[error("[{}, {}, {}, {}] lies outside of the image, {} x {}", .0[0], .0[1], .0[2], .0[3], .1[0], .1[1])]
    Outside([f64; 4], [usize; 2]),
    /// The image with this id cannot be read, for this reason.
    #[error("image id {0}: {1}")]
    Unreadable(u64, String),
    /// The score is no probability.
    #[error("score is {0}, not between 0 and 1")]
    NoProbability(f64),
    /// The detection repeats every field of the detection at this position.
    #[error("the same image, category, box and score as detection {0}")]
    Repeated(usize),
}

impl BoxProblem {
    /// Returns the remedy for a detection with this problem.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::UnknownImage(_) => "pass the annotation file of the images that these results are of",
            Self::UnknownCategory(_) => {
                "write the category ids of the annotation file, not positions in a list"
            }
            Self::NoProbability(_) => {
                "only the order of scores counts: map them to 0..1, by a sigmoid or a division by their maximum"
            }
            Self::Malformed(..) | Self::NoExtent | Self::Outside(..) => {
                "repair it, or keep it as it is with --keep-unrefined"
            }
            Self::Unreadable(..) => "repair the image, or keep its boxes as they are with --keep-unrefined",
            Self::Repeated(_) => "drop repeated detections: each would count as a false one",
            _ => "repair or drop it before scoring",
        }
    }
}

/// The reason why a sequence cannot be scored. Its message names the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackingProblem {
    /// No result file has the sequence's name.
    #[error("no result file has this name; track the sequence, or give the folder that has its results")]
    Missing,
    /// Several result files, listed here, have the sequence's name.
    #[error("several files have this name: {}; leave one of them", list(.0))]
    Ambiguous(Vec<PathBuf>),
    /// There are fewer boxes than frames, and the convention does not allow it.
    #[error("{0} boxes for {1} frames; track the sequence to its end")]
    Short(usize, usize),
    /// There are more boxes than frames.
    #[error("{0} boxes for {1} frames: of another sequence, or of frames that do not count; track it again")]
    Long(usize, usize),
    /// The first predicted box does not overlap the annotated one, the second, which every tracker is given.
    #[error(
        "the first box {0:?} has nothing in common with the annotated {1:?}: the result of another sequence; check the \
         names of the files"
    )]
    FirstBox(Rect, Rect),
    /// The prediction in this frame, counted from 1 like the lines of the file, is no box.
    #[error("frame {0}: {1:?} is no box (x, y, width, height); correct the tracker or the file")]
    Malformed(usize, Rect),
    /// The visibility has this number of entries for a different number of frames.
    #[error("the visibility has {0} entries for {1} frames; give one for each frame")]
    Visibility(usize, usize),
    /// No frame of the sequence counts.
    #[error("no annotated frame counts; leave the sequence out")]
    NoFrames,
    /// This line of a file of times, counted from 1, is no number.
    #[error("line {0} is no number of seconds; remove the file and the sequence's boxes, and track it again")]
    Times(usize),
    /// Two sequences have the same name.
    #[error("the name occurs twice; give every sequence its own")]
    Duplicate,
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// Returns the remedy for a file that is not JSON, or is other JSON than expected.
fn json_remedy(source: &serde_json::Error) -> &'static str {
    match source.classify() {
        serde_json::error::Category::Data => {
            "annotations are an object with `images`, `categories` and `annotations`, results a list of objects \
             with `image_id`, `category_id`, `bbox` and `score`: give such a file"
        }
        _ => {
            "NaN, Infinity and numbers beyond the range of a double are not JSON, and an unfinished file is none: \
             write the file again"
        }
    }
}
