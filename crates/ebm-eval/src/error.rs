//! What can go wrong when results are read, checked and scored.

use std::path::PathBuf;

use ebm_base::files::ErrorKind;
use ebm_data::sequences::Rect;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate; each names the place and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}; check that the path exists and its permissions", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done: "read" or "write".
        action: &'static str,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error(
        "{}: not a valid COCO file: {source}; {}",
        path.display(),
        json_remedy(source)
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason, with line and column.
        source: serde_json::Error,
    },
    /// Detections that must not be scored.
    #[error("{origin}, detection {index}: {problem}{}; {}", more(*.count, *.total), problem.remedy())]
    Detection {
        /// The file, or "detections in memory".
        origin: String,
        /// The position of the first in the list, from 0.
        index: usize,
        /// What is wrong with it.
        problem: BoxProblem,
        /// How many have a problem of this kind.
        count: usize,
        /// How many detections there are.
        total: usize,
    },
    /// The annotation file of a test set: nobody but the server can score on it.
    #[error(
        "{0}: no annotations, as in the file of a test set: the figures come from the server; write the result \
         files with `ebm eval detection --images DIR --detector WEIGHTS --out DIR` and send them there"
    )]
    NotAnnotated(String),
    /// An annotation that makes scoring meaningless.
    #[error("{origin}, annotation {index}: {problem}; repair the annotations before scoring")]
    Annotation {
        /// The file, or "annotations in memory".
        origin: String,
        /// Its position in the list, from 0.
        index: usize,
        /// What is wrong with it.
        problem: BoxProblem,
    },
    /// In this file or in memory, an image, a category or an annotation has the id of another, so that figures would
    /// depend on which one is meant.
    #[error("{0}: {1} id {2} occurs twice; give every {1} its own id")]
    DuplicateId(String, &'static str, u64),
    /// The annotations, of this file or in memory, contain no images or no categories: nothing can be scored.
    #[error("{0}: no {1}; pass the annotation file of the split that was detected on")]
    NothingToScore(String, &'static str),
    /// The evaluator refused what our checks let through.
    #[error("these detections cannot be scored on these annotations: {0}")]
    Evaluator(#[from] hotcoco::Error),
    /// A metric of nothing.
    #[error("no {0}; pass at least one")]
    Empty(&'static str),
    /// A number that a metric can not use.
    #[error("{what}, index {index}: {value} is not {expected}; repair it or leave out that example")]
    Value {
        /// Which numbers.
        what: &'static str,
        /// Its position, from 0.
        index: usize,
        /// The number.
        value: f64,
        /// What is required.
        expected: &'static str,
    },
    /// Two lists that must have one entry for each example.
    #[error("{found} {what} for {expected}; pass one for each")]
    Lengths {
        /// What there is the wrong number of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// More examples of a kind are needed than there are: their name, how many there are, and how many are needed.
    #[error("{1} {0} are too few; pass at least {2}")]
    TooFew(&'static str, usize, usize),
    /// A sequence, by its name or its result file, that can not be scored.
    #[error("{0}: {1}")]
    Tracking(String, TrackingProblem),
    /// No sequence could be scored: their number, the name of the first, and what is wrong with it.
    #[error("none of the {0} sequences could be scored; first: {1}: {2}")]
    NoSequence(usize, String, String),
    /// Reports that were not made in the same way: the first and the one of this number, from 1.
    #[error("run {0} was scored by other conventions than run 1; score all runs alike")]
    OtherConvention(usize),
    /// A list of boxes could not be read or written.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Data(error) => error.kind(),
            _ => ErrorKind::Data,
        }
    }
}

/// Says of how many detections the error names only the first.
fn more(count: usize, total: usize) -> String {
    if count > 1 { format!(" (the first of {count} such of {total})") } else { String::new() }
}

/// What is wrong with a detection or an annotation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BoxProblem {
    /// A coordinate, the area or the score, called so, is NaN or infinite.
    #[error("{0} is {1}")]
    NonFinite(&'static str, f64),
    /// A width, height or area, called so, is below zero.
    #[error("{0} is {1}, below zero (boxes are x, y, width, height)")]
    Negative(&'static str, f64),
    /// The magnitude of a field, called so, is beyond the last number: no image or score has it.
    #[error("{0} is {1}, beyond ±{2}")]
    Absurd(&'static str, f64, f64),
    /// An image that the annotations do not have.
    #[error("image id {0} is not in the annotations (wrong split?)")]
    UnknownImage(u64),
    /// A category that the annotations do not have.
    #[error("category id {0} is not in the annotations (a class index instead of a category id?)")]
    UnknownCategory(u64),
    /// A field, called so, with what stands there and what should.
    #[error("{0} is {1}, not {2}")]
    Malformed(&'static str, String, &'static str),
    /// A box without extent, which has no y.
    #[error("width or height is 0")]
    NoExtent,
    /// A box (left, top, width, height) that lies beside its image, whose columns and rows follow.
    #[error("[{}, {}, {}, {}] lies outside of the image, {} x {}", .0[0], .0[1], .0[2], .0[3], .1[0], .1[1])]
    Outside([f64; 4], [usize; 2]),
    /// The image of this id cannot be read, for this reason.
    #[error("image id {0}: {1}")]
    Unreadable(u64, String),
    /// A category that a network does not know.
    #[error("category id {0} is not a class of the refiner")]
    UnknownClass(u64),
    /// A score that is no probability.
    #[error("score is {0}, not between 0 and 1")]
    NoProbability(f64),
    /// A detection that another repeats in every field.
    #[error("the same image, category, box and score as detection {0}")]
    Repeated(usize),
}

impl BoxProblem {
    /// What to do about a detection with this problem.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::UnknownImage(_) => "pass the annotation file of the images that these results are of",
            Self::UnknownCategory(_) => {
                "write the category ids of the annotation file, not positions in a list"
            }
            Self::NoProbability(_) => {
                "only the order of scores counts: map them to 0..1, by a sigmoid or a division by their maximum"
            }
            Self::Malformed(..) | Self::NoExtent | Self::Outside(..) | Self::UnknownClass(_) => {
                "repair it, or have it kept as it is with --keep-unrefined"
            }
            Self::Unreadable(..) => {
                "repair the image, or have its boxes kept as they are with --keep-unrefined"
            }
            Self::Repeated(_) => "drop repeated detections: each would count as a false one",
            _ => "repair or drop it before scoring",
        }
    }
}

/// Why a sequence can not be scored, and what to do about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackingProblem {
    /// No result file has the sequence's name.
    #[error("no result file has this name; track the sequence, or give the folder that has its results")]
    Missing,
    /// These result files have the sequence's name.
    #[error("several files have this name: {}; leave one of them", list(.0))]
    Ambiguous(Vec<PathBuf>),
    /// Fewer boxes than frames, where the convention does not allow for it.
    #[error("{0} boxes for {1} frames; track the sequence to its end")]
    Short(usize, usize),
    /// More boxes than frames.
    #[error("{0} boxes for {1} frames: of another sequence, or of frames that do not count; track it again")]
    Long(usize, usize),
    /// The first box, which the tracker was given, is not the annotated one, the second.
    #[error(
        "the first box {0:?} has nothing in common with the annotated {1:?}: the result of another sequence; check the \
         names of the files"
    )]
    FirstBox(Rect, Rect),
    /// In this frame, counted from 1, which is the line of the file, the predicted box is none.
    #[error("frame {0}: {1:?} is no box (x, y, width, height); correct the tracker or the file")]
    Malformed(usize, Rect),
    /// Visibility has fewer or more entries than there are frames.
    #[error("visibility for {0} of {1} frames; give it for each")]
    Visibility(usize, usize),
    /// No frame counts.
    #[error("no annotated frame counts; leave the sequence out")]
    NoFrames,
    /// This line of a file of times, counted from 1, is no number.
    #[error("line {0} is no number of seconds; remove the file and the sequence's boxes, and track it again")]
    Times(usize),
    /// A name that was there before.
    #[error("the name occurs twice; give every sequence its own")]
    Duplicate,
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// What to do about a file that could not be read as JSON, or is other JSON than was expected.
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
