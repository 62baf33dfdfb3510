//! Sequences that are parts of longer videos, as configured by benchmarks.

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Rect, read_boxes};
use crate::error::{Error, Result};

/// Range of frames and boxes of a folder that forms a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Part {
    /// Name of the sequence: the name of the folder, followed by a mark and the number of the part or target if
    /// there are several.
    pub name: String,
    /// Number of the first frame of the sequence.
    pub first: usize,
    /// Number of frames of the sequence. Some folders have more frames after them.
    pub frames: usize,
    /// Number of digits of a frame's number: `img/0001.jpg` has four.
    pub digits: usize,
    /// Number of boxes in the published file that belong to frames before [`Part::first`].
    pub omitted: usize,
}

/// The 51 sequences of UAV123 that are parts of 19 folders.
pub static UAV123: LazyLock<Vec<Part>> = LazyLock::new(|| table(include_str!("uav123.csv")));

/// Parses the rows of an embedded table.
pub(super) fn table(text: &str) -> Vec<Part> {
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().filter_map(std::result::Result::ok).collect()
}

impl Part {
    /// Returns the name of the folder, which ends before the last `mark`.
    pub fn folder(&self, mark: char) -> &str {
        self.name.rsplit_once(mark).map_or(&self.name, |(folder, _)| folder)
    }

    /// Reads a file and returns the boxes of this part.
    pub(super) fn read_boxes(&self, path: &Path) -> Result<Vec<Rect>> {
        let mut boxes = read_boxes(path)?;
        let Self { name, frames, omitted, .. } = self;
        if boxes.len() == frames + omitted {
            boxes.drain(..omitted);
        }
        if boxes.len() != *frames {
            let detail = format!("{} boxes for the {frames} frames of {name}; fetch it again", boxes.len());
            return Err(Error::format(path, "its published list of boxes", detail));
        }
        Ok(boxes)
    }
}
