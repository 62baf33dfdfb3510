//! LaSOT: long videos, 20 of each of 70 classes.

mod test_set;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reader::{Attempt, Collector, Extra, Trouble, boxes, folders, list, numbered, numbers};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::Result;
use crate::quarantine::DefectCode;

pub use test_set::TEST;

const LAYOUT: &str = "CLASS/CLASS-NUMBER/img/00000001.jpg and CLASS/CLASS-NUMBER/groundtruth.txt";

/// Which part of the dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// Everything in the folder but [`TEST`].
    Train,
    /// [`TEST`]; one that is not there is a defect.
    Test,
    /// Everything in the folder.
    All,
    /// What a file lists, a name such as `airplane-1` in each line.
    Listed(PathBuf),
}

/// Reads the sequences of a split of the dataset in the folder `root`, by name or in the order of the list: in
/// `CLASS/NAME` (or `NAME`) frames `img/%08d.jpg` from 1, boxes in `groundtruth.txt`, as many, and for each frame a number
/// in `full_occlusion.txt` and one in `out_of_view.txt`. A target is visible if both are 0.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) for a folder or list that cannot be read,
/// [`Error::Format`](crate::Error::Format) for one without names,
/// [`Error::TooManyDefects`](crate::Error::TooManyDefects) above the tolerated fraction,
/// [`Error::Argument`](crate::Error::Argument) for a fraction out of its domain.
pub fn load(root: &Path, split: &Split, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let mut there = find(root)?;
    let test = || TEST.iter().flat_map(|(class, numbers)| numbers.map(|number| format!("{class}-{number}")));
    let names: Vec<String> = match split {
        Split::Test => test().collect(),
        Split::Listed(path) => list(path)?,
        Split::All => there.keys().cloned().collect(),
        Split::Train => {
            let test: Vec<String> = test().collect();
            there.keys().filter(|name| !test.contains(name)).cloned().collect()
        }
    };
    for name in names {
        let attempt = match there.remove(&name) {
            Some(folder) => read(&folder, &name),
            None => {
                let detail = "no such folder, or listed twice".to_owned();
                Err(Trouble::Defect(root.join(&name), DefectCode::MissingFile, detail))
            }
        };
        collector.push(&name, Extra::Refused, attempt)?;
    }
    collector.finish(root, LAYOUT)
}

/// The folders of the sequences, by name.
fn find(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for class in folders(root)? {
        let folder = root.join(&class);
        if ["img", "groundtruth.txt"].iter().any(|entry| folder.join(entry).exists()) {
            found.insert(class, folder);
            continue;
        }
        for name in folders(&folder)? {
            if name.strip_prefix(&*class).is_some_and(|rest| rest.starts_with('-')) {
                found.insert(name.clone(), folder.join(name));
            }
        }
    }
    Ok(found)
}

fn read(folder: &Path, name: &str) -> Attempt<Sequence> {
    let boxes = boxes(&folder.join("groundtruth.txt"))?;
    let hidden = numbers(&folder.join("full_occlusion.txt"), boxes.len())?;
    let outside = numbers(&folder.join("out_of_view.txt"), boxes.len())?;
    let visible =
        hidden.iter().zip(&outside).map(|(&hidden, &outside)| hidden == 0 && outside == 0).collect();
    let frames = numbered(folder.join("img"), 1, boxes.len(), 8);
    Ok(Sequence { name: name.to_owned(), frames, boxes, visible: Some(visible) })
}
