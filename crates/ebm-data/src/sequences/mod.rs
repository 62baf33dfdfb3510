//! Videos with the box of one target in each frame: what trackers learn from and are measured on.
//!
//! [`Dataset`] reads those of each publisher, [`coco`] makes some of still images. To train, [`sampler::PairSampler`] draws two frames of one video, and a [`pairs::PairRecipe`] lets a
//! [`Loader`](crate::loader::Loader) make batches of them, cut out around the target as [`crop`] says.

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

/// A video and the boxes of its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Its name in the dataset's own spelling.
    pub name: String,
    /// Where the frames are.
    pub frames: Frames,
    /// A box for each frame, as annotated: in the coordinates of the dataset's files, absent ones NaN or
    /// without extent.
    pub boxes: Vec<Rect>,
    /// Whether the target can be seen, frame by frame, where the dataset says so.
    pub visible: Option<Vec<bool>>,
}

impl Sequence {
    /// Whether frame `i` has a box with positive sides, and the target is not known to be out of sight.
    pub fn is_valid(&self, i: usize) -> bool {
        let positive = self.boxes.get(i).is_some_and(|[x, y, width, height]| {
            x.is_finite() && y.is_finite() && *width > 0.0 && *height > 0.0 && (width * height).is_finite()
        });
        positive && self.visible.as_ref().is_none_or(|visible| visible.get(i) == Some(&true))
    }
}

/// SHA-256 of the names and boxes of sequences, in their order.
pub fn digest(sequences: &[Sequence]) -> String {
    crate::digest::digest(sequences.iter().map(|one| (&one.name, &one.boxes, &one.visible)))
}

/// The sequences of a dataset, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequences {
    /// In the order of the reader.
    pub sequences: Vec<Sequence>,
    /// Defective sequences.
    pub quarantine: Quarantine,
}

/// The image files of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frames {
    /// `directory/{number}.jpg`, the numbers running on from `first`.
    Numbered {
        /// Where they are.
        directory: PathBuf,
        /// The number of the first frame.
        first: usize,
        /// How many frames there are.
        count: usize,
        /// Numbers are filled up with zeros to as many digits.
        digits: usize,
    },
    /// As listed.
    Listed(Vec<PathBuf>),
}

impl Frames {
    /// The number of frames.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbered { count, .. } => *count,
            Self::Listed(paths) => paths.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file of frame `i`, counted from 0.
    pub fn path(&self, i: usize) -> Option<PathBuf> {
        match self {
            Self::Numbered { count, .. } => self.numbered(i).filter(|_| i < *count),
            Self::Listed(paths) => paths.get(i).cloned(),
        }
    }

    /// The file with the number of frame `i`, which may be behind the last, where frames are numbered.
    fn numbered(&self, i: usize) -> Option<PathBuf> {
        let Self::Numbered { directory, first, digits, .. } = self else { return None };
        Some(directory.join(format!("{:0digits$}.jpg", first + i, digits = *digits)))
    }
}

/// The spelling by which names of sequences are compared: small letters, and `_` where a source writes `.`, `-` or a
/// blank, so that `Human4.2`, `human4-2` and `human4_2` are one.
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
