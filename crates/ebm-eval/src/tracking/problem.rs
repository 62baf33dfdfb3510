//! What can be wrong with a tracker's result, or with the annotation that it is compared with.

use std::path::PathBuf;

use ebm_data::sequences::Rect;

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
