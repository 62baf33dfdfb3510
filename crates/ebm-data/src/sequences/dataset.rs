//! Layouts of the published video datasets, and one reader for all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::part::{Part, UAV123};
use super::reader::{
    SequenceOptions, annotation_error, entries, folders, list, read_flags, sequence_defect, text_files,
};
use super::{Frames, Sequence, Sequences, otb, read_boxes};
use crate::error::{Error, Result};
use crate::quarantine::{Defect, DefectCode, SampleError, SampleResult};

/// Names of LaSOT's 280 test sequences, four of each class, one per line.
pub const LASOT_TEST: &str = include_str!("lasot_test.txt");

/// Dataset of videos in a folder, laid out as its publisher does.
///
/// | dataset | frames | boxes, one per frame | the target is visible if |
/// |---|---|---|---|
/// | OTB-100 | `Deer/img/0001.jpg` | `Deer/groundtruth_rect.txt` | |
/// | UAV123 | `data_seq/UAV123/FOLDER/000001.jpg` | `anno/UAV123/NAME.txt` | |
/// | LaSOT | `CLASS/NAME/img/00000001.jpg`, or without `CLASS` | `groundtruth.txt` beside `img` | `full_occlusion.txt` and `out_of_view.txt` have 0 |
/// | GOT-10k | `train/NAME/00000001.jpg`, or `val`, `test` | `groundtruth.txt` beside them | `absence.label` has 0, and `cover.label` more |
/// | TrackingNet | `TRAIN_k/frames/NAME/0.jpg`, or `TEST` | `TRAIN_k/anno/NAME.txt` | |
/// | own | the JPEG and PNG files of `NAME/img`, by name | `NAME/groundtruth_rect.txt` | |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// OTB-100 (OTB-2015): the targets [`otb::SEQUENCES`], in their order, with the boxes of
    /// [`otb::annotations`]. Coordinates count from 1.
    Otb100,
    /// UAV123, by name. 51 sequences are parts of 19 folders, as configured by the benchmark; each other sequence
    /// is the whole folder of its name.
    Uav123,
    /// LaSOT without the sequences of [`LASOT_TEST`], by name.
    LasotTrain,
    /// The sequences of [`LASOT_TEST`].
    LasotTest,
    /// The sequences of GOT-10k's `train` that a file lists, such as the list known as vottrain. Each line is a
    /// name, or its position in `train/list.txt`, counted from 0.
    Got10kTrain(PathBuf),
    /// The sequences of GOT-10k's `val/list.txt`, or without that file the folders in `val`.
    Got10kVal,
    /// The sequences of GOT-10k's `test`, found like those in `val`. Only the first box of each is published: the
    /// others are NaN.
    Got10kTest,
    /// The sets 0 to 3 of TrackingNet, on which ATOM is trained, each by name. Their boxes take 32 bytes for each
    /// of 4.8 million frames; no path of a frame is stored.
    TrackingNetTrain,
    /// TrackingNet's `TEST`, by name. Only the first box of each is published: the others are NaN.
    TrackingNetTest,
    /// Every folder with a `groundtruth_rect.txt`, by name.
    Own,
}

/// Two files with a number for each frame, and the rule for visibility from both numbers.
type Flags = ([&'static str; 2], fn((u32, u32)) -> bool);

/// Files of one sequence.
#[derive(Clone)]
pub(super) struct Place {
    pub name: String,
    /// Path of the annotation file.
    pub boxes: PathBuf,
    /// Folder of the frames.
    pub frames: PathBuf,
    /// Number of the first frame, and number of its digits. Without them frames are sorted by name.
    pub numbers: Option<(usize, usize)>,
    /// The boxes that are used, if a table restricts them.
    pub part: Option<&'static Part>,
}

impl Dataset {
    /// Reads the sequences in the folder `root`. Coordinates stay as they are in the files.
    ///
    /// A sequence is defective if its files are missing or malformed, or if the numbers of boxes, frames and
    /// flags differ. In OTB-100 and UAV123 more frames may follow the last box.
    ///
    /// # Errors
    /// [`Error::Io`] for a folder or list that cannot be read, [`Error::Data`] for a folder without sequences,
    /// [`Error::TooManyDefects`] above the tolerated fraction, [`Error::Argument`] for a tolerated fraction
    /// outside its domain.
    pub fn load(&self, root: &Path, options: &SequenceOptions) -> Result<Sequences> {
        let SequenceOptions { every_frame, tolerance } = options;
        tolerance.validate()?;
        let places = self.places(root)?;
        if places.is_empty() {
            let detail = format!("no sequence found; the files should be laid out as {}", self.layout());
            return Err(Error::format(root, "a dataset of sequences", detail));
        }
        let mut found = Sequences::default();
        for place in &places {
            let sequence = self.read(place).and_then(|sequence| {
                self.check_frames(&sequence, &place.boxes, *every_frame)?;
                Ok(sequence)
            });
            match sequence {
                Ok(sequence) => found.sequences.push(sequence),
                Err(SampleError::Defect(defect)) => {
                    let sample = format!("sequence {}", place.name);
                    found.quarantine.defects.push(Defect { sample, ..defect });
                }
                Err(SampleError::Fatal(error)) => return Err(error),
            }
        }
        tolerance.list(&found.quarantine)?;
        tolerance.check_left(&found.quarantine, found.quarantine.defects.len(), places.len())?;
        Ok(found)
    }

    /// Returns an example of the files.
    fn layout(&self) -> &'static str {
        match self {
            Self::Otb100 | Self::Own => "Basketball/img/0001.jpg and Basketball/groundtruth_rect.txt",
            Self::Uav123 => "data_seq/UAV123/FOLDER/000001.jpg and anno/UAV123/NAME.txt",
            Self::LasotTrain | Self::LasotTest => {
                "CLASS/CLASS-NUMBER/img/00000001.jpg and CLASS/CLASS-NUMBER/groundtruth.txt"
            }
            Self::Got10kTrain(_) | Self::Got10kVal | Self::Got10kTest => {
                "train/list.txt, train/NAME/00000001.jpg and train/NAME/groundtruth.txt"
            }
            Self::TrackingNetTrain | Self::TrackingNetTest => {
                "TRAIN_k/frames/VIDEO/0.jpg and TRAIN_k/anno/VIDEO.txt, or TEST/…"
            }
        }
    }

    /// Returns the files that say whether the target is visible.
    fn flags(&self) -> Option<Flags> {
        match self {
            Self::LasotTrain | Self::LasotTest => {
                Some((["full_occlusion.txt", "out_of_view.txt"], |flags| flags == (0, 0)))
            }
            Self::Got10kTrain(_) | Self::Got10kVal => {
                Some((["absence.label", "cover.label"], |(absent, cover)| absent == 0 && cover > 0))
            }
            _ => None,
        }
    }

    fn places(&self, root: &Path) -> Result<Vec<Place>> {
        match self {
            Self::Otb100 => otb::places(root),
            Self::Uav123 => uav123(root),
            Self::LasotTrain | Self::LasotTest => lasot(root, *self == Self::LasotTest),
            Self::Got10kTrain(chosen) => got10k(&root.join("train"), Some(chosen)),
            Self::Got10kVal => got10k(&root.join("val"), None),
            Self::Got10kTest => got10k(&root.join("test"), None),
            Self::TrackingNetTrain => {
                let sets = (0..4).map(|k| trackingnet(&root.join(format!("TRAIN_{k}"))));
                Ok(sets.collect::<Result<Vec<_>>>()?.concat())
            }
            Self::TrackingNetTest => trackingnet(&root.join("TEST")),
            Self::Own => {
                let names = entries(root, |path| path.join(otb::BOXES).is_file())?;
                let place = |name: String| {
                    let folder = root.join(&name);
                    let (boxes, frames) = (folder.join(otb::BOXES), folder.join("img"));
                    Place { name, boxes, frames, numbers: None, part: None }
                };
                Ok(names.into_iter().map(place).collect())
            }
        }
    }

    fn read(&self, place: &Place) -> SampleResult<Sequence> {
        let Place { name, boxes: file, frames: directory, numbers, part } = place;
        let boxes = part.map_or_else(|| read_boxes(file), |part| part.read_boxes(file));
        let mut boxes = boxes.map_err(|error| annotation_error(file, error))?;
        let listed = || {
            let is_frame = |path: &Path| path.extension().is_some_and(|kind| kind == "jpg" || kind == "png");
            entries(directory, is_frame).map_err(|error| annotation_error(directory, error))
        };
        if matches!(self, Self::Got10kTest | Self::TrackingNetTest) && boxes.len() == 1 {
            boxes.resize(listed()?.len().max(1), [f64::NAN; 4]);
        }
        let visible = self.flags().map(|(files, seen)| -> SampleResult<Vec<bool>> {
            let folder = file.parent().unwrap_or(directory);
            let [first, second] = files.map(|flags| read_flags(&folder.join(flags), boxes.len()));
            Ok(first?.into_iter().zip(second?).map(seen).collect())
        });
        let frames = match *numbers {
            Some((first, digits)) => {
                Frames::Numbered { directory: directory.clone(), first, count: boxes.len(), digits }
            }
            None => Frames::Listed(listed()?.into_iter().map(|name| directory.join(name)).collect()),
        };
        Ok(Sequence { name: name.clone(), frames, boxes, visible: visible.transpose()? })
    }

    /// Checks that there is a frame for each box in `file`. In OTB-100 and UAV123, whose sequences may be parts
    /// of their folders, more frames may follow the last box.
    fn check_frames(&self, sequence: &Sequence, file: &Path, every_frame: bool) -> SampleResult<()> {
        let frames = &sequence.frames;
        let (count, boxes) = (frames.len(), sequence.boxes.len());
        let fail = |path: &Path, code, detail| Err(sequence_defect(path, code, detail));
        if boxes == 0 || count != boxes {
            return fail(file, DefectCode::BadAnnotation, format!("{boxes} boxes for {count} frames"));
        }
        let step = if every_frame { 1 } else { (count - 1).max(1) };
        let absent = |i| frames.path(i).filter(|path| !path.is_file()).map(|path| (i, path));
        if let Some((i, path)) = (0..count).step_by(step).find_map(absent) {
            let detail = format!("frame {} of {count}, as many as there are boxes, is not there", i + 1);
            // Without the first frame the folder is missing or numbered otherwise; without a later one frames are
            // missing.
            let code = if i == 0 { DefectCode::MissingFile } else { DefectCode::BadAnnotation };
            return fail(&path, code, detail);
        }
        let is_part = matches!(self, Self::Otb100 | Self::Uav123);
        match frames.numbered(count).filter(|next| !is_part && next.exists()) {
            Some(next) => {
                let detail = format!("{boxes} boxes, but the folder has more frames");
                fail(&next, DefectCode::BadAnnotation, detail)
            }
            None => Ok(()),
        }
    }
}

fn uav123(root: &Path) -> Result<Vec<Place>> {
    let (frames, annotations) = (root.join("data_seq/UAV123"), root.join("anno/UAV123"));
    let folders = folders(&frames)?;
    let mut names = text_files(&annotations)?;
    let of_folder = |part: &Part| folders.contains(part.folder('_'));
    names.extend(UAV123.iter().filter(|part| of_folder(part)).map(|part| part.name.clone()));
    let is_whole = |folder: &&String| UAV123.iter().all(|part| part.folder('_') != **folder);
    names.extend(folders.iter().filter(is_whole).cloned());
    let place = |name: String| {
        let part = UAV123.iter().find(|part| part.name == name);
        let (first, folder) = part.map_or((1, &*name), |part| (part.first, part.folder('_')));
        let (boxes, frames) = (annotations.join(format!("{name}.txt")), frames.join(folder));
        Place { name, boxes, frames, numbers: Some((first, 6)), part }
    };
    Ok(names.into_iter().map(place).collect())
}

fn lasot(root: &Path, is_test: bool) -> Result<Vec<Place>> {
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
    let tests: BTreeSet<&str> = LASOT_TEST.lines().collect();
    let place = |name: &str, folder: PathBuf| {
        let (boxes, frames) = (folder.join("groundtruth.txt"), folder.join("img"));
        Place { name: name.to_owned(), boxes, frames, numbers: Some((1, 8)), part: None }
    };
    if !is_test {
        found.retain(|name, _| !tests.contains(&**name));
        return Ok(found.into_iter().map(|(name, folder)| place(&name, folder)).collect());
    }
    let of_test = |name: &str| place(name, found.remove(name).unwrap_or_else(|| root.join(name)));
    Ok(LASOT_TEST.lines().map(of_test).collect())
}

fn got10k(folder: &Path, chosen: Option<&Path>) -> Result<Vec<Place>> {
    let path = folder.join("list.txt");
    let mut names = if path.is_file() { list(&path)? } else { folders(folder)?.into_iter().collect() };
    if let Some(chosen) = chosen {
        let name = |line: String| match line.parse::<usize>() {
            Err(_) => Ok(line),
            Ok(place) => names.get(place).cloned().ok_or_else(|| {
                let (path, count) = (path.display(), names.len());
                let detail = format!("place {place} is not in {path}, which has {count} names");
                Error::format(chosen, "a list of sequences", detail)
            }),
        };
        names = list(chosen)?.into_iter().map(name).collect::<Result<_>>()?;
    }
    let place = |name: String| {
        let frames = folder.join(&name);
        Place { name, boxes: frames.join("groundtruth.txt"), frames, numbers: Some((1, 8)), part: None }
    };
    Ok(names.into_iter().map(place).collect())
}

fn trackingnet(set: &Path) -> Result<Vec<Place>> {
    let (frames, annotations) = (set.join("frames"), set.join("anno"));
    let mut names = folders(&frames)?;
    names.extend(text_files(&annotations)?);
    let place = |name: String| {
        let (boxes, frames) = (annotations.join(format!("{name}.txt")), frames.join(&name));
        Place { name, boxes, frames, numbers: Some((0, 1)), part: None }
    };
    Ok(names.into_iter().map(place).collect())
}
