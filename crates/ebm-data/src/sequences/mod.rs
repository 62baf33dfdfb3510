//! Videos with the box of one target in each frame, for the training and the evaluation of trackers.
//!
//! [`Dataset`] reads the published datasets, and [`coco`] makes sequences from still images. For training,
//! [`sampler::PairSampler`] draws two frames of one video. A [`pairs::PairRecipe`] lets a
//! [`Loader`](crate::loader::Loader) make batches of pairs, cropped around the target as in [`crop`].

mod box_list;
pub mod coco;
pub mod crop;
mod dataset;
pub mod otb;
pub mod pairs;
mod part;
mod reader;
pub mod sampler;
pub mod variation;

use std::path::PathBuf;

use crate::quarantine::Quarantine;

pub use crate::rect::Rect;
pub use box_list::{read_boxes, write_boxes};
pub use dataset::{Dataset, LASOT_TEST};
pub use part::{Part, UAV123};
pub use reader::SequenceOptions;

/// Video with the boxes of its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Name in the dataset's own spelling.
    pub name: String,
    /// Files of the frames.
    pub frames: Frames,
    /// Box for each frame, as annotated: in the coordinates of the dataset's files. A missing box is NaN or
    /// without extent.
    pub boxes: Vec<Rect>,
    /// Visibility of the target in each frame, if the dataset states it.
    pub visible: Option<Vec<bool>>,
}

impl Sequence {
    /// Returns whether frame `i` has a box with positive sides, and the target is not known to be invisible.
    pub fn is_valid(&self, i: usize) -> bool {
        let positive = self.boxes.get(i).is_some_and(|[x, y, width, height]| {
            x.is_finite() && y.is_finite() && *width > 0.0 && *height > 0.0 && (width * height).is_finite()
        });
        positive && self.visible.as_ref().is_none_or(|visible| visible.get(i) == Some(&true))
    }
}

/// Returns the SHA-256 of the names, boxes and visibility of sequences, in their order.
pub fn digest(sequences: &[Sequence]) -> String {
    crate::digest::digest(sequences.iter().map(|one| (&one.name, &one.boxes, &one.visible)))
}

/// Sequences of a dataset, and the defective ones that were left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequences {
    /// Sequences in the order of the reader.
    pub sequences: Vec<Sequence>,
    /// Defective sequences.
    pub quarantine: Quarantine,
}

/// Image files of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Files `directory/{number}.jpg` with consecutive numbers from `first`.
    Numbered {
        /// Folder of the frames.
        directory: PathBuf,
        /// Number of the first frame.
        first: usize,
        /// Number of frames.
        count: usize,
        /// Number of digits to which a number is padded with zeros.
        digits: usize,
    },
    /// Files in a list.
    Listed(Vec<PathBuf>),
}

impl Frames {
    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbered { count, .. } => *count,
            Self::Listed(paths) => paths.len(),
        }
    }

    /// Returns whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the file of frame `i`, counted from 0.
    pub fn path(&self, i: usize) -> Option<PathBuf> {
        match self {
            Self::Numbered { count, .. } => self.numbered(i).filter(|_| i < *count),
            Self::Listed(paths) => paths.get(i).cloned(),
        }
    }

    /// Returns the file of frame `i` of numbered frames, also for a frame after the last.
    fn numbered(&self, i: usize) -> Option<PathBuf> {
        let Self::Numbered { directory, first, digits, .. } = self else { return None };
        Some(directory.join(format!("{:0digits$}.jpg", first + i, digits = *digits)))
    }
}

/// Returns the form in which names of sequences are compared: in lower case, with `_` for `.`, `-` and a blank,
/// so that `Human4.2`, `human4-2` and `human4_2` are equal.
pub fn name_key(name: &str) -> String {
    let plain = |c| if matches!(c, '.' | '-' | ' ') { '_' } else { c };
    name.chars().flat_map(char::to_lowercase).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_as_datasets_number_them() {
        let frames = Frames::Numbered { directory: "a/img".into(), first: 300, count: 2, digits: 4 };
        assert_eq!(frames.path(1), Some(PathBuf::from("a/img/0301.jpg")));
        assert_eq!((frames.len(), frames.path(2)), (2, None));
    }

    #[test]
    fn a_frame_counts_when_its_box_has_sides_and_its_target_can_be_seen() {
        let boxes = vec![[1., 2., 3., 4.], [f64::NAN; 4], [1., 2., 0., 4.], [0., 0., 1., 1.]];
        let visible = Some(vec![true, true, true, false]);
        let mut sequence =
            Sequence { name: "a".to_owned(), frames: Frames::Listed(Vec::new()), boxes, visible };
        assert_eq!([0, 1, 2, 3, 4].map(|i| sequence.is_valid(i)), [true, false, false, false, false]);
        sequence.visible = None;
        assert!(sequence.is_valid(3));
    }

    #[test]
    fn spellings_of_one_name_have_one_key() {
        for name in ["Human4.2", "human4-2", "HUMAN4_2", "human4 2"] {
            assert_eq!(name_key(name), "human4_2");
        }
        assert_ne!(name_key("Car1"), name_key("Car.1"));
    }
}
