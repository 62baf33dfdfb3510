//! The frames of OTB-100.

use std::path::Path;

use super::{OtbSequence, SEQUENCES, annotation_file, folders, read_annotation};
use crate::error::Result;
use crate::sequences::reader::{Attempt, Collector, Extra, annotation_trouble, entries, numbered};
use crate::sequences::{Frames, Sequence, SequenceOptions, Sequences, read_boxes};

/// The boxes of a sequence, in its folder.
const BOXES: &str = "groundtruth_rect.txt";
const LAYOUT: &str = "Basketball/img/0001.jpg and Basketball/groundtruth_rect.txt";

/// Reads all of the [`SEQUENCES`] from the folders in `root`, in their order: boxes as
/// [`annotations`](super::annotations) reads them, frames in `img/` beside them. One that is not there is a
/// defect, so that a folder with some of them can be read with [`SequenceOptions::benchmark`]. Coordinates
/// stay as they are, counted from 1.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) when `root` cannot be listed,
/// [`Error::TooManyDefects`](crate::Error::TooManyDefects) above the tolerated fraction, or when it has none
/// of the sequences, [`Error::Argument`](crate::Error::Argument) for a fraction out of its domain.
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

/// Reads sequences of one's own that are laid out as OTB's are: every folder in `root` with a
/// `groundtruth_rect.txt`, in the order of their names; its frames are the JPEG and PNG files in `img/`
/// beside it, in the order of theirs. Coordinates stay as they are.
///
/// # Errors
/// Those of [`load`].
pub fn load_folders(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let is_frame = |path: &Path| path.extension().is_some_and(|kind| kind == "jpg" || kind == "png");
    for name in entries(root, |path| path.join(BOXES).is_file())? {
        let folder = root.join(&name);
        let path = folder.join(BOXES);
        let read = || -> Attempt<Sequence> {
            let boxes = read_boxes(&path).map_err(|error| annotation_trouble(&path, error))?;
            let images = folder.join("img");
            let names = entries(&images, is_frame).map_err(|error| annotation_trouble(&images, error))?;
            let frames = Frames::Listed(names.into_iter().map(|name| images.join(name)).collect());
            Ok(Sequence { name: name.clone(), frames, boxes, visible: None })
        };
        collector.push(&name, Extra::Refused, read())?;
    }
    collector.finish(root, LAYOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_with_boxes_is_a_sequence_however_alike_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["car-1", "car_1", "notes"] {
            let images = dir.path().join(name).join("img");
            std::fs::create_dir_all(&images).unwrap();
            for frame in ["0003.jpg", "0004.png"] {
                std::fs::write(images.join(frame), "").unwrap();
            }
        }
        for name in ["car-1", "car_1"] {
            std::fs::write(dir.path().join(name).join(BOXES), "1,2,30,40\n2,2,30,40\n").unwrap();
        }
        let found = load_folders(dir.path(), &SequenceOptions::train()).unwrap();
        let names: Vec<_> = found.sequences.iter().map(|s| (s.name.as_str(), s.frames.len())).collect();
        assert_eq!(names, [("car-1", 2), ("car_1", 2)]);
    }
}
