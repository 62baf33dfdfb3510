//! LaSOT: long videos, 20 of each of 70 classes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reader::{Attempt, Collector, Extra, Trouble, boxes, folders, list, sequence, visible};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::Result;
use crate::quarantine::DefectCode;

const LAYOUT: &str = "CLASS/CLASS-NUMBER/img/00000001.jpg and CLASS/CLASS-NUMBER/groundtruth.txt";

/// The names of the 280 sequences of the test set, four of each class, a line each.
pub const TEST: &str = include_str!("lasot_test.txt");

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
/// Those of [`otb::load`](super::otb::load).
pub fn load(root: &Path, split: &Split, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let mut there = find(root)?;
    let is_test = |name: &&String| TEST.lines().any(|test| test == *name);
    let names: Vec<String> = match split {
        Split::Test => TEST.lines().map(str::to_owned).collect(),
        Split::Listed(path) => list(path)?,
        Split::All => there.keys().cloned().collect(),
        Split::Train => there.keys().filter(|name| !is_test(name)).cloned().collect(),
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
    let flags = ["full_occlusion.txt", "out_of_view.txt"];
    let visible = visible(folder, flags, boxes.len(), |flags| flags == (0, 0))?;
    Ok(sequence(name, folder.join("img"), (1, 8), boxes, visible))
}
