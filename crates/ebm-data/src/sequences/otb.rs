//! OTB-100 (OTB-2015): 98 videos and their 100 targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::dataset::Place;
use super::part::{Part, table};
use super::reader::folders;
use super::{Rect, name_key};
use crate::error::{Error, Result};

/// Name of the file with the boxes, in the folder of a sequence.
pub(super) const BOXES: &str = "groundtruth_rect.txt";

/// The 100 targets, sorted by name. A name is the name of the folder, followed by a dot and the number of the
/// target if the folder has several.
pub static SEQUENCES: LazyLock<Vec<Part>> = LazyLock::new(|| table(include_str!("otb100.csv")));

/// Target with its boxes, or with the reason why they cannot be read.
pub type Annotation = (&'static Part, Result<Vec<Rect>>);

/// Reads the boxes of each of the [`SEQUENCES`] from the folders in `dir`: as published,
/// `Jogging/groundtruth_rect.2.txt`, or with a folder for each target, `jogging_2/groundtruth_rect.txt`. The case
/// of letters does not matter. Coordinates stay as they are, counted from 1.
///
/// A sequence without a folder, with a malformed file or with a wrong number of boxes has an error of its own.
///
/// # Errors
/// [`Error::Io`] if `dir` cannot be listed; [`Error::Data`] if it has none of the sequences.
pub fn annotations(dir: &Path) -> Result<Vec<Annotation>> {
    let files = files(dir)?;
    let all: Vec<_> =
        SEQUENCES.iter().zip(files).map(|(part, path)| (part, part.read_boxes(&path))).collect();
    if all.iter().all(|(_, boxes)| matches!(boxes, Err(Error::Io { .. }))) {
        let detail = "no folder such as Basketball with a groundtruth_rect.txt in it; give the folder that holds the \
                      sequences' folders";
        return Err(Error::format(dir, "the annotations of OTB-100", detail));
    }
    Ok(all)
}

/// Returns the path of the boxes of each of the [`SEQUENCES`], also if the file is missing. If the names of two
/// folders differ only in spelling, the first one is used, which is the one with capitals.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = BTreeMap::new();
    for name in folders(dir)? {
        found.entry(name_key(&name)).or_insert_with(|| dir.join(name));
    }
    let file = |part: &Part| {
        let folder = part.folder('.');
        let file = match part.name.split_once('.') {
            Some((_, target)) => format!("groundtruth_rect.{target}.txt"),
            None => BOXES.to_owned(),
        };
        let published = found.get(&name_key(folder)).map(|folder| folder.join(&file));
        let own = found.get(&name_key(&part.name)).map(|folder| folder.join(BOXES));
        let there = published.into_iter().chain(own).find(|path| path.is_file());
        there.unwrap_or_else(|| dir.join(folder).join(file))
    };
    Ok(SEQUENCES.iter().map(file).collect())
}

/// Returns the files of all sequences. The frames are in `img/` beside the boxes.
pub(super) fn places(root: &Path) -> Result<Vec<Place>> {
    let place = |(part, boxes): (&'static Part, PathBuf)| {
        let (name, frames) = (part.name.clone(), boxes.with_file_name("img"));
        Place { name, boxes, frames, numbers: Some((part.first, part.digits)), part: Some(part) }
    };
    Ok(SEQUENCES.iter().zip(files(root)?).map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_hundred_targets_of_ninety_eight_videos() {
        let keys = |field: fn(&Part) -> &str| {
            SEQUENCES.iter().map(field).map(name_key).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((keys(|s| &s.name), keys(|s| s.folder('.'))), (100, 98));
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
}
