//! TrackingNet: twelve sets to train on, of about 2500 videos each, and one to be measured on.

use std::path::Path;

use super::reader::{Collector, Extra, boxes, folders, only_first_known, sequence, text_files};
use super::{SequenceOptions, Sequences};
use crate::error::Result;

const LAYOUT: &str = "TRAIN_k/frames/VIDEO/0.jpg and TRAIN_k/anno/VIDEO.txt, or TEST/…";

/// Which part of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// `TRAIN_k` with k from 0 to 11; ATOM is trained on 0 to 3.
    Train(usize),
    /// `TEST`, of which only the first box of each video is published: the others are NaN.
    Test,
}

impl Set {
    /// The sets that ATOM is trained on.
    pub const ATOM: [Self; 4] = [Self::Train(0), Self::Train(1), Self::Train(2), Self::Train(3)];

    fn folder(self) -> String {
        match self {
            Self::Train(k) => format!("TRAIN_{k}"),
            Self::Test => "TEST".to_owned(),
        }
    }
}

/// Reads the videos of `sets` in the folder `root`, each set by name: frames in
/// `TRAIN_k/frames/VIDEO/{n}.jpg`, n from 0 without leading zeros, boxes in `TRAIN_k/anno/VIDEO.txt`, as
/// many.
///
/// The boxes of a set take 32 bytes for each of its frames, about 1.2 million; no path of a frame is kept.
///
/// # Errors
/// Those of [`otb::load`](super::otb::load).
pub fn load(root: &Path, sets: &[Set], options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    for set in sets {
        let folder = root.join(set.folder());
        let (frames, annotations) = (folder.join("frames"), folder.join("anno"));
        let mut names = folders(&frames)?;
        names.extend(text_files(&annotations)?);
        for name in names {
            let directory = frames.join(&name);
            let attempt =
                boxes(&annotations.join(format!("{name}.txt"))).and_then(|boxes| match (set, &*boxes) {
                    (Set::Test, [first]) => only_first_known(*first, &directory),
                    _ => Ok(boxes),
                });
            let attempt = attempt.map(|boxes| sequence(&name, directory, (0, 1), boxes, None));
            collector.push(&name, Extra::Refused, attempt)?;
        }
    }
    collector.finish(root, LAYOUT)
}
