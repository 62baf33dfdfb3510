//! OTB-100 (OTB-2015): 98 videos and their 100 targets.

mod frames;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Rect, name_key, read_boxes};
use crate::error::{Error, Result};

pub use frames::{load, load_folders};

/// A target of OTB-100: where its frames and its boxes are, and which part of a longer video counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtbSequence {
    /// Its name: that of the folder, and the number of the target where the folder numbers its annotations.
    pub name: &'static str,
    /// The folder, with the frames in `img/`.
    pub folder: &'static str,
    /// The file with its boxes.
    pub annotation: &'static str,
    /// The number of the first frame that counts.
    pub first: usize,
    /// How many frames count, from the first on. Some folders go on after them.
    pub frames: usize,
    /// The digits of a frame's number: `img/0001.jpg` has four.
    pub digits: usize,
    /// Boxes in the published file that belong to frames before [`OtbSequence::first`].
    pub omitted: usize,
}

const fn plain(name: &'static str, frames: usize) -> OtbSequence {
    target(name, name, "groundtruth_rect.txt", frames)
}

const fn target(
    name: &'static str,
    folder: &'static str,
    annotation: &'static str,
    frames: usize,
) -> OtbSequence {
    OtbSequence { name, folder, annotation, first: 1, frames, digits: 4, omitted: 0 }
}

/// The 100 targets, in the order of their names.
pub const SEQUENCES: [OtbSequence; 100] = [
    plain("Basketball", 725),
    plain("Biker", 142),
    plain("Bird1", 408),
    plain("Bird2", 99),
    plain("BlurBody", 334),
    OtbSequence { first: 247, ..plain("BlurCar1", 742) },
    plain("BlurCar2", 585),
    OtbSequence { first: 3, ..plain("BlurCar3", 357) },
    OtbSequence { first: 18, ..plain("BlurCar4", 380) },
    plain("BlurFace", 493),
    plain("BlurOwl", 631),
    OtbSequence { digits: 5, ..plain("Board", 698) },
    plain("Bolt", 350),
    plain("Bolt2", 293),
    plain("Box", 1161),
    plain("Boy", 602),
    plain("Car1", 1020),
    plain("Car2", 913),
    plain("Car4", 659),
    plain("Car24", 3059),
    plain("CarDark", 393),
    plain("CarScale", 252),
    plain("ClifBar", 472),
    plain("Coke", 291),
    plain("Couple", 140),
    plain("Coupon", 327),
    plain("Crossing", 120),
    plain("Crowds", 347),
    plain("Dancer", 225),
    plain("Dancer2", 150),
    OtbSequence { first: 300, ..plain("David", 471) },
    plain("David2", 537),
    plain("David3", 252),
    plain("Deer", 71),
    plain("Diving", 215),
    plain("Dog", 127),
    plain("Dog1", 1350),
    plain("Doll", 3872),
    plain("DragonBaby", 113),
    plain("Dudek", 1145),
    plain("FaceOcc1", 892),
    plain("FaceOcc2", 812),
    plain("Fish", 476),
    plain("FleetFace", 707),
    plain("Football", 362),
    plain("Football1", 74),
    plain("Freeman1", 326),
    plain("Freeman3", 460),
    plain("Freeman4", 283),
    plain("Girl", 500),
    plain("Girl2", 1500),
    plain("Gym", 767),
    plain("Human2", 1128),
    plain("Human3", 1698),
    target("Human4.2", "Human4", "groundtruth_rect.2.txt", 667),
    plain("Human5", 713),
    plain("Human6", 792),
    plain("Human7", 250),
    plain("Human8", 128),
    plain("Human9", 305),
    plain("Ironman", 166),
    target("Jogging.1", "Jogging", "groundtruth_rect.1.txt", 307),
    target("Jogging.2", "Jogging", "groundtruth_rect.2.txt", 307),
    plain("Jump", 122),
    plain("Jumping", 313),
    plain("KiteSurf", 84),
    plain("Lemming", 1336),
    plain("Liquor", 1741),
    plain("Man", 134),
    plain("Matrix", 100),
    plain("Mhyang", 1490),
    plain("MotorRolling", 164),
    plain("MountainBike", 228),
    plain("Panda", 1000),
    plain("RedTeam", 1918),
    plain("Rubik", 1997),
    plain("Shaking", 365),
    plain("Singer1", 351),
    plain("Singer2", 366),
    plain("Skater", 160),
    plain("Skater2", 435),
    plain("Skating1", 400),
    target("Skating2.1", "Skating2", "groundtruth_rect.1.txt", 473),
    target("Skating2.2", "Skating2", "groundtruth_rect.2.txt", 473),
    plain("Skiing", 81),
    plain("Soccer", 392),
    plain("Subway", 175),
    plain("Surfer", 376),
    plain("Suv", 945),
    plain("Sylvester", 1345),
    OtbSequence { first: 6, omitted: 5, ..plain("Tiger1", 349) },
    plain("Tiger2", 365),
    plain("Toy", 271),
    plain("Trans", 124),
    plain("Trellis", 569),
    plain("Twinnings", 472),
    plain("Vase", 271),
    plain("Walking", 412),
    plain("Walking2", 500),
    plain("Woman", 597),
];

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
    let folders = folders(dir)?;
    let read = |sequence: &'static OtbSequence| {
        (sequence, annotation_file(sequence, dir, &folders).and_then(|path| read_annotation(sequence, &path)))
    };
    let all: Vec<_> = SEQUENCES.iter().map(read).collect();
    if all.iter().all(|(_, boxes)| matches!(boxes, Err(Error::Io { .. }))) {
        let detail = "no folder such as Basketball with a groundtruth_rect.txt in it; give the folder that holds the \
                      sequences' folders";
        return Err(Error::Format {
            path: dir.to_owned(),
            expected: "the annotations of OTB-100",
            detail: detail.to_owned(),
        });
    }
    Ok(all)
}

/// The folders in `dir` by [`name_key`]. Of two with one key the first in order is taken: the one with
/// capitals.
fn folders(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let fail = |source| Error::io("list", dir, source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut folders = BTreeMap::new();
    for path in paths {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            folders.entry(name_key(name)).or_insert(path);
        }
    }
    Ok(folders)
}

fn annotation_file(
    sequence: &OtbSequence,
    dir: &Path,
    folders: &BTreeMap<String, PathBuf>,
) -> Result<PathBuf> {
    let published = folders.get(&name_key(sequence.folder)).map(|folder| folder.join(sequence.annotation));
    let own = folders.get(&name_key(sequence.name)).map(|folder| folder.join("groundtruth_rect.txt"));
    let missing = || {
        let path = dir.join(sequence.folder).join(sequence.annotation);
        Error::io("read", &path, std::io::ErrorKind::NotFound.into())
    };
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
        return Err(Error::Format { path: path.to_owned(), expected: "an annotation of OTB-100", detail });
    }
    Ok(boxes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, file: &str, boxes: usize) {
        let lines: String = (1..=boxes).map(|i| format!("{i},2,30,40\n")).collect();
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines).unwrap();
    }

    fn of<'a>(all: &'a [Annotation], name: &str) -> &'a Result<Vec<Rect>> {
        &all.iter().find(|(sequence, _)| sequence.name == name).unwrap().1
    }

    #[test]
    fn the_table_has_a_hundred_targets_of_ninety_eight_videos() {
        let keys = |field: fn(&OtbSequence) -> &'static str| {
            SEQUENCES.iter().map(field).map(name_key).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((keys(|s| s.name), keys(|s| s.folder)), (100, 98));
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
}
