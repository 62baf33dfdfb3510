//! UAV123: targets seen from drones.

mod ranges;

use std::collections::BTreeSet;
use std::path::Path;

use super::reader::{Attempt, Collector, Extra, Trouble, boxes, folders, numbered, text_files};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::Result;
use crate::quarantine::DefectCode;

pub use ranges::{RANGES, Range};

const LAYOUT: &str = "data_seq/UAV123/FOLDER/000001.jpg and anno/UAV123/NAME.txt";

/// Reads all sequences of the folder `root`, by name: frames in `data_seq/UAV123/FOLDER/%06d.jpg` from 1,
/// boxes in `anno/UAV123/NAME.txt`, NaN where the target is absent. The folder of most has the sequence's
/// name; the others are parts of a folder, as [`RANGES`] says.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) for a folder that cannot be read, [`Error::Format`](crate::Error::Format)
/// for one without sequences, [`Error::TooManyDefects`](crate::Error::TooManyDefects) above the tolerated
/// fraction, [`Error::Argument`](crate::Error::Argument) for a fraction out of its domain.
pub fn load(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let (frames, annotations) = (root.join("data_seq/UAV123"), root.join("anno/UAV123"));
    let folders = folders(&frames)?;
    let mut names = text_files(&annotations)?;
    names.extend(named_by(&folders));
    for name in names {
        let range = RANGES.iter().find(|range| range.name == name);
        let annotation = annotations.join(format!("{name}.txt"));
        collector.push(&name, Extra::Allowed, read(&frames, &annotation, &name, range))?;
    }
    collector.finish(root, LAYOUT)
}

/// The sequences that ought to be in `folders`.
fn named_by(folders: &BTreeSet<String>) -> Vec<String> {
    let parts =
        RANGES.iter().filter(|range| folders.contains(range.folder)).map(|range| range.name.to_owned());
    let whole = folders.iter().filter(|folder| RANGES.iter().all(|range| range.folder != **folder)).cloned();
    parts.chain(whole).collect()
}

fn read(frames: &Path, annotation: &Path, name: &str, range: Option<&Range>) -> Attempt<Sequence> {
    let boxes = boxes(annotation)?;
    let (folder, first) = range.map_or((name, 1), |range| (range.folder, range.first));
    if let Some(Range { first, last, .. }) = range.filter(|range| range.last + 1 - range.first != boxes.len())
    {
        let detail = format!("{} boxes for the frames {first} to {last}", boxes.len());
        return Err(Trouble::Defect(annotation.to_owned(), DefectCode::BadAnnotation, detail));
    }
    let frames = numbered(frames.join(folder), first, boxes.len(), 6);
    Ok(Sequence { name: name.to_owned(), frames, boxes, visible: None })
}
