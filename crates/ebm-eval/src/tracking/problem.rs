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
    /// Several result files have the sequence's name.
    #[error("several files have this name: {}; leave one of them", list(files))]
    Ambiguous {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Fewer boxes than frames, where the convention does not allow for it.
    #[error("{found} boxes for {frames} frames; track the sequence to its end")]
    Short {
        /// Boxes.
        found: usize,
        /// Annotated frames.
        frames: usize,
    },
    /// More boxes than frames.
    #[error(
        "{found} boxes for {frames} frames: of another sequence, or of frames that do not count; track it again"
    )]
    Long {
        /// Boxes.
        found: usize,
        /// Annotated frames.
        frames: usize,
    },
    /// The first box, which the tracker was given, is not the annotated one.
    #[error(
        "the first box {found:?} has nothing in common with the annotated {annotated:?}: the result of another \
         sequence; check the names of the files"
    )]
    FirstBox {
        /// The result's first box.
        found: Rect,
        /// The annotated one.
        annotated: Rect,
    },
    /// A predicted box is none.
    #[error("frame {frame}: {found:?} is no box (x, y, width, height); correct the tracker or the file")]
    Malformed {
        /// Counted from 1: the line of the file.
        frame: usize,
        /// The numbers.
        found: Rect,
    },
    /// Visibility is not given frame by frame.
    #[error("visibility for {found} of {frames} frames; give it for each")]
    Visibility {
        /// Entries.
        found: usize,
        /// Annotated frames.
        frames: usize,
    },
    /// No frame counts.
    #[error("no annotated frame counts; leave the sequence out")]
    NoFrames,
    /// A line of a file of times is no number.
    #[error(
        "line {line} is no number of seconds; remove the file and the sequence's boxes, and track it again"
    )]
    Times {
        /// Counted from 1.
        line: usize,
    },
    /// A name that was there before.
    #[error("the name occurs twice; give every sequence its own")]
    Duplicate,
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}
