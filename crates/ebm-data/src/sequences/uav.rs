//! UAV123: targets seen from drones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::reader::{Attempt, Collector, Extra, Trouble, boxes, folders, sequence, table, text_files};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::Result;
use crate::quarantine::DefectCode;

const LAYOUT: &str = "data_seq/UAV123/FOLDER/000001.jpg and anno/UAV123/NAME.txt";

/// A sequence that is a part of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Range {
    /// The sequence's name: that of the folder, `_`, and the number of the part.
    pub name: String,
    /// The number of its first frame.
    pub first: usize,
    /// The number of its last frame.
    pub last: usize,
}

impl Range {
    /// The folder of its frames.
    pub fn folder(&self) -> &str {
        self.name.rsplit_once('_').map_or(&self.name, |(folder, _)| folder)
    }
}

/// The 51 sequences of UAV123 that are parts of 19 folders, as configured in the benchmark's own files.
/// (Those of its version with every third frame have the same ranges, each number one more than a multiple of
/// three.)
pub static RANGES: LazyLock<Vec<Range>> = LazyLock::new(|| table(include_str!("uav123.csv")));

/// Reads all sequences of the folder `root`, by name: frames in `data_seq/UAV123/FOLDER/%06d.jpg` from 1,
/// boxes in `anno/UAV123/NAME.txt`, NaN where the target is absent. The folder of most has the sequence's
/// name; the others are parts of a folder, as [`RANGES`] says.
///
/// # Errors
/// Those of [`otb::load`](super::otb::load).
pub fn load(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let (frames, annotations) = (root.join("data_seq/UAV123"), root.join("anno/UAV123"));
    let folders = folders(&frames)?;
    let mut names = text_files(&annotations)?;
    names.extend(named_by(&folders));
    for name in names {
        let annotation = annotations.join(format!("{name}.txt"));
        collector.push(&name, Extra::Allowed, read(&frames, &annotation, &name))?;
    }
    collector.finish(root, LAYOUT)
}

/// The sequences that ought to be in `folders`.
fn named_by(folders: &BTreeSet<String>) -> Vec<String> {
    let parts = RANGES.iter().filter(|range| folders.contains(range.folder()));
    let whole = folders.iter().filter(|folder| RANGES.iter().all(|range| range.folder() != **folder));
    parts.map(|range| &range.name).chain(whole).cloned().collect()
}

fn read(frames: &Path, annotation: &Path, name: &str) -> Attempt<Sequence> {
    let boxes = boxes(annotation)?;
    let Some(range @ Range { first, last, .. }) = RANGES.iter().find(|range| range.name == name) else {
        return Ok(sequence(name, frames.join(name), (1, 6), boxes, None));
    };
    if last + 1 - first != boxes.len() {
        let detail = format!("{} boxes for the frames {first} to {last}", boxes.len());
        return Err(Trouble::Defect(annotation.to_owned(), DefectCode::BadAnnotation, detail));
    }
    Ok(sequence(name, frames.join(range.folder()), (*first, 6), boxes, None))
}
