//! OTB-100 (OTB-2015): 98 videos and their 100 targets, and sequences of one's own that are laid out so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::reader::{Attempt, Collector, Extra, annotation_trouble, entries, folders, sequence, table};
use super::{Frames, Rect, Sequence, SequenceOptions, Sequences, name_key, read_boxes};
use crate::error::{Error, Result};

/// The boxes of a sequence, in its folder.
const BOXES: &str = "groundtruth_rect.txt";
const LAYOUT: &str = "Basketball/img/0001.jpg and Basketball/groundtruth_rect.txt";

/// A target of OTB-100: where its frames and its boxes are, and which part of a longer video counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OtbSequence {
    /// Its name: that of the folder, and behind a dot the number of the target where the folder numbers its
    /// annotations.
    pub name: String,
    /// The number of the first frame that counts.
    pub first: usize,
    /// How many frames count, from the first on. Some folders go on after them.
    pub frames: usize,
    /// The digits of a frame's number: `img/0001.jpg` has four.
    pub digits: usize,
    /// Boxes in the published file that belong to frames before [`OtbSequence::first`].
    pub omitted: usize,
}

impl OtbSequence {
    /// The folder, with the frames in `img/`, and the file with its boxes there.
    fn published(&self) -> (&str, String) {
        match self.name.split_once('.') {
            Some((folder, target)) => (folder, format!("groundtruth_rect.{target}.txt")),
            None => (&self.name, BOXES.to_owned()),
        }
    }
}

/// The 100 targets, in the order of their names.
pub static SEQUENCES: LazyLock<Vec<OtbSequence>> = LazyLock::new(|| table(include_str!("otb100.csv")));

/// A target and its boxes, or why they can not be had.
pub type Annotation = (&'static OtbSequence, Result<Vec<Rect>>);

/// The boxes of each of the [`SEQUENCES`], from the folders in `dir`: as published,
/// `Jogging/groundtruth_rect.2.txt`, or with a folder for each target, `jogging_2/groundtruth_rect.txt`. The
/// case of letters does not matter. Coordinates stay as they are, counted from 1.
///
/// A sequence without a folder, or with a file that is malformed or has another number of boxes, has its own
/// error.
///
/// # Errors
/// [`Error::Io`] when `dir` cannot be listed; [`Error::Format`] when it has none of the sequences.
pub fn annotations(dir: &Path) -> Result<Vec<Annotation>> {
    let folders = by_key(dir)?;
    let read = |sequence: &'static OtbSequence| {
        (sequence, annotation_file(sequence, dir, &folders).and_then(|path| read_annotation(sequence, &path)))
    };
    let all: Vec<_> = SEQUENCES.iter().map(read).collect();
    if all.iter().all(|(_, boxes)| matches!(boxes, Err(Error::Io { .. }))) {
        let detail = "no folder such as Basketball with a groundtruth_rect.txt in it; give the folder that holds the \
                      sequences' folders";
        return Err(Error::format(dir, "the annotations of OTB-100", detail));
    }
    Ok(all)
}

/// The folders in `dir` by [`name_key`]. Of two with one key the first in order is taken: the one with
/// capitals.
fn by_key(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for name in folders(dir)? {
        found.entry(name_key(&name)).or_insert_with(|| dir.join(name));
    }
    Ok(found)
}

fn annotation_file(
    sequence: &OtbSequence,
    dir: &Path,
    folders: &BTreeMap<String, PathBuf>,
) -> Result<PathBuf> {
    let (folder, annotation) = sequence.published();
    let published = folders.get(&name_key(folder)).map(|folder| folder.join(&annotation));
    let own = folders.get(&name_key(&sequence.name)).map(|folder| folder.join(BOXES));
    let missing =
        || Error::io("read", &dir.join(folder).join(&annotation), std::io::ErrorKind::NotFound.into());
    published.into_iter().chain(own).find(|path| path.is_file()).ok_or_else(missing)
}

fn read_annotation(sequence: &OtbSequence, path: &Path) -> Result<Vec<Rect>> {
    let mut boxes = read_boxes(path)?;
    if boxes.len() == sequence.frames + sequence.omitted {
        boxes.drain(..sequence.omitted);
    }
    if boxes.len() != sequence.frames {
        let OtbSequence { name, frames, .. } = sequence;
        let detail = format!("{} boxes for the {frames} frames of {name}; fetch it again", boxes.len());
        return Err(Error::format(path, "an annotation of OTB-100", detail));
    }
    Ok(boxes)
}

/// Reads all of the [`SEQUENCES`] from the folders in `root`, in their order: boxes as
/// [`annotations`] reads them, frames in `img/` beside them. One that is not there is a
/// defect, so that a folder with some of them can be read with [`SequenceOptions::benchmark`]. Coordinates
/// stay as they are, counted from 1.
///
/// # Errors
/// [`Error::Io`] for a folder or list that cannot be read, [`Error::Format`] for one without sequences,
/// [`Error::TooManyDefects`] above the tolerated fraction, [`Error::Argument`] for a fraction out of its domain.
pub fn load(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let folders = by_key(root)?;
    let read = |target: &OtbSequence| -> Attempt<Sequence> {
        let (folder, annotation) = target.published();
        let expected = root.join(folder).join(annotation);
        let path = annotation_file(target, root, &folders).map_err(|e| annotation_trouble(&expected, e))?;
        let boxes = read_annotation(target, &path).map_err(|e| annotation_trouble(&path, e))?;
        let images = path.with_file_name("img");
        Ok(sequence(&target.name, images, (target.first, target.digits), boxes, None))
    };
    for target in &*SEQUENCES {
        collector.push(&target.name, Extra::Allowed, read(target))?;
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

    fn write(dir: &Path, file: &str, boxes: usize) {
        let lines: String = (1..=boxes).map(|i| format!("{i},2,30,40\n")).collect();
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, lines).unwrap();
    }

    fn of<'a>(all: &'a [Annotation], name: &str) -> &'a Result<Vec<Rect>> {
        &all.iter().find(|(sequence, _)| sequence.name == name).unwrap().1
    }

    #[test]
    fn the_table_has_a_hundred_targets_of_ninety_eight_videos() {
        let keys = |field: fn(&OtbSequence) -> &str| {
            SEQUENCES.iter().map(field).map(name_key).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((keys(|s| &s.name), keys(|s| s.published().0)), (100, 98));
        assert_eq!(
            SEQUENCES.iter().map(|sequence| sequence.frames + sequence.omitted).sum::<usize>(),
            59_040
        );
        let last = |name| SEQUENCES.iter().find(|s| s.name == name).map(|s| s.first + s.frames - 1).unwrap();
        let published =
            [("David", 770), ("BlurCar1", 988), ("BlurCar3", 359), ("BlurCar4", 397), ("Football1", 74)];
        for (name, frame) in published {
            assert_eq!(last(name), frame, "{name}");
        }
    }

    #[test]
    fn both_layouts_are_read_and_what_does_not_count_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "Jogging/groundtruth_rect.2.txt", 307);
        write(dir.path(), "skating2-1/groundtruth_rect.txt", 473);
        write(dir.path(), "Tiger1/groundtruth_rect.txt", 354);
        write(dir.path(), "deer/groundtruth_rect.txt", 70);
        let all = annotations(dir.path()).unwrap();
        assert_eq!(of(&all, "Jogging.2").as_ref().unwrap().len(), 307);
        assert_eq!(of(&all, "Skating2.1").as_ref().unwrap().len(), 473);
        let tiger = of(&all, "Tiger1").as_ref().unwrap();
        assert_eq!((tiger.len(), tiger[0]), (349, [6., 2., 30., 40.]));
        let short = of(&all, "Deer").as_ref().unwrap_err().to_string();
        assert!(short.contains("70 boxes for the 71 frames of Deer"), "{short}");
        assert!(matches!(of(&all, "Jogging.1"), Err(Error::Io { .. })));
    }

    #[test]
    fn a_folder_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(annotations(dir.path()).unwrap_err().to_string().contains("Basketball"));
        assert!(matches!(annotations(&dir.path().join("absent")), Err(Error::Io { .. })));
    }

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
