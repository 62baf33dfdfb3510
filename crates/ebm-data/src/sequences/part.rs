//! Sequences that are parts of longer videos, as benchmarks configure them.

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Rect, read_boxes};
use crate::error::{Error, Result};

/// Which frames and boxes of a folder are a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Part {
    /// The sequence's name: that of the folder, and behind a mark the number of the part or the target, if it has
    /// several.
    pub name: String,
    /// The number of the first frame that counts.
    pub first: usize,
    /// How many frames count, from the first on. Some folders go on after them.
    pub frames: usize,
    /// The digits of a frame's number: `img/0001.jpg` has four.
    pub digits: usize,
    /// Boxes in the published file that belong to frames before [`Part::first`].
    pub omitted: usize,
}

/// The 51 sequences of UAV123 that are parts of 19 folders.
pub static UAV123: LazyLock<Vec<Part>> = LazyLock::new(|| table(include_str!("uav123.csv")));

/// The rows of a table in the program's text.
pub(super) fn table(text: &str) -> Vec<Part> {
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().filter_map(std::result::Result::ok).collect()
}

impl Part {
    /// The folder, whose name ends before the last `mark`.
    pub fn folder(&self, mark: char) -> &str {
        self.name.rsplit_once(mark).map_or(&self.name, |(folder, _)| folder)
    }

    /// The boxes that count of those in a file.
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
