//! The frames of OTB-100.

use std::path::Path;

use super::{OtbSequence, SEQUENCES, annotation_file, folders, read_annotation};
use crate::error::Result;
use crate::sequences::reader::{Attempt, Collector, Extra, annotation_trouble, numbered};
use crate::sequences::{Sequence, SequenceOptions, Sequences};

const LAYOUT: &str = "Basketball/img/0001.jpg and Basketball/groundtruth_rect.txt";

/// Reads all of the [`SEQUENCES`] from the folders in `root`, in their order: boxes as [`annotations`](super::annotations)
/// reads them, frames in `img/` beside them. One that is not there is a defect, so that a folder with some of them can be
/// read with [`SequenceOptions::benchmark`]. Coordinates stay as they are, counted from 1.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) when `root` cannot be listed, [`Error::TooManyDefects`](crate::Error::TooManyDefects)
/// above the tolerated fraction, or when it has none of the sequences, [`Error::Argument`](crate::Error::Argument) for a
/// fraction out of its domain.
pub fn load(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let folders = folders(root)?;
    let read = |sequence: &OtbSequence| -> Attempt<Sequence> {
        let expected = root.join(sequence.folder).join(sequence.annotation);
        let path = annotation_file(sequence, root, &folders).map_err(|e| annotation_trouble(&expected, e))?;
        let boxes = read_annotation(sequence, &path).map_err(|e| annotation_trouble(&path, e))?;
        let directory = path.with_file_name("img");
        let frames = numbered(directory, sequence.first, boxes.len(), sequence.digits);
        Ok(Sequence { name: sequence.name.to_owned(), frames, boxes, visible: None })
    };
    for sequence in &SEQUENCES {
        collector.push(sequence.name, Extra::Allowed, read(sequence))?;
    }
    collector.finish(root, LAYOUT)
}
