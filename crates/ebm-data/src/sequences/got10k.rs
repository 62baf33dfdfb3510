//! GOT-10k: short videos of things that move, with the frames in which they are absent or covered.

use std::path::{Path, PathBuf};

use super::reader::{Attempt, Collector, Extra, boxes, folders, list, only_first_known, sequence, visible};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::{Error, Result};

const LAYOUT: &str = "train/list.txt, train/NAME/00000001.jpg and train/NAME/groundtruth.txt";

/// Which part of the dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// All of `train/list.txt`.
    Train,
    /// What a file lists of `train`: for ATOM the lists known as vottrain, 7086 sequences, and votval. Each
    /// line is a name, or the place of a name in `train/list.txt`, counted from 0.
    Listed(PathBuf),
    /// All of `val/list.txt`.
    Val,
    /// All of `test/list.txt`, of which only the first box of each is published: the others are NaN.
    Test,
}

impl Split {
    fn folder(&self) -> &'static str {
        match self {
            Self::Train | Self::Listed(_) => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }
}

/// Reads the sequences of a split of the dataset in the folder `root`, in the order of the list: in
/// `train/NAME` (or `val`, `test`) frames `%08d.jpg` from 1, boxes in `groundtruth.txt`, as many, and for
/// each frame a number in `absence.label`, 1 where the target is absent, and one in `cover.label`, from 0
/// (invisible) to 8 (wholly visible). A target is visible if it is not absent and its cover is not 0.
///
/// # Errors
/// Those of [`otb::load`](super::otb::load); [`Error::Format`] also for a place that is not in `train/list.txt`.
pub fn load(root: &Path, split: &Split, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let folder = root.join(split.folder());
    for name in names(&folder, split)? {
        let attempt = read(&folder, &name, *split == Split::Test);
        collector.push(&name, Extra::Refused, attempt)?;
    }
    collector.finish(root, LAYOUT)
}

/// The names of the split; without `list.txt` those of the folders.
fn names(folder: &Path, split: &Split) -> Result<Vec<String>> {
    let path = folder.join("list.txt");
    let all =
        if path.is_file() { list(&path)? } else { folders(folder)?.into_iter().collect::<Vec<String>>() };
    let Split::Listed(chosen) = split else { return Ok(all) };
    let name = |line: String| match line.parse::<usize>() {
        Err(_) => Ok(line),
        Ok(place) => all.get(place).cloned().ok_or_else(|| {
            Error::format(
                chosen,
                "a list of sequences",
                format!("place {place} is not in {}, which has {} names", path.display(), all.len()),
            )
        }),
    };
    list(chosen)?.into_iter().map(name).collect()
}

fn read(folder: &Path, name: &str, test: bool) -> Attempt<Sequence> {
    let directory = folder.join(name);
    let mut boxes = boxes(&directory.join("groundtruth.txt"))?;
    let mut seen = None;
    if let (true, [first]) = (test, &*boxes) {
        boxes = only_first_known(*first, &directory)?;
    } else {
        let flags = ["absence.label", "cover.label"];
        seen = visible(&directory, flags, boxes.len(), |(absent, cover)| absent == 0 && cover > 0)?;
    }
    Ok(sequence(name, directory, (1, 8), boxes, seen))
}
