//! A user's folder of images with boxes, in the format of COCO, Pascal VOC or YOLO.
//!
//! | format | how it is recognised | images |
//! |---|---|---|
//! | COCO | `annotations/*.json`, `*.json`, `{train,valid,test}/*.json`, which begin as annotation files do | beside the file, in `images/`, in a folder of the split's name, or in any other where they are |
//! | Pascal VOC | `Annotations/*.xml`, `annotations/`, `annots/`, or the XML files beside the images; each also in `{train,valid,test}/` | `JPEGImages/`, `images/`, beside the XML files |
//! | YOLO | `data.yaml` as Ultralytics and Roboflow write it | `images/`, with `labels/` instead of it for the labels; or beside the labels |
//!
//! [`DetectionFolder::load`] reads a split as a [`CocoDataset`], whose categories have the same order in every
//! split: COCO's by id, VOC's by name, YOLO's by index. Defects are named by file and line, and left out. More
//! defects than [`LoadOptions::tolerance`] allows are an error.
//!
//! **Pixels.** The boxes of a `CocoDataset` are half-open: `x1 − x0` columns. VOC's corners are the first and the
//! last pixel inside, counted from 1, so that `(xmin, xmax) = (1, W)` is the whole width; they become `xmin − 1`
//! and `xmax`. YOLO's numbers are the centre and the sides as fractions of the image's sides, which are read from
//! the image's header.
//!
//! **Difficult objects** of VOC count neither as right nor as wrong when a detector is scored, and are not
//! trained on. They become crowds in COCO's sense.

mod coco;
mod data_yaml;
mod merge;
mod voc;
mod yolo;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::coco::{CocoDataset, LoadOptions, Origin};
use crate::error::{Error, Result};

/// Annotation format of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Coco,
    Voc,
    Yolo,
}

/// Part of a dataset, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// Training data; everything, if a folder has no parts.
    Train,
    /// Validation data.
    Valid,
    /// Test data.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// Returns the names that folders and files of this split have.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Train => &["train", "trainval", "training"],
            Self::Valid => &["valid", "val", "validation"],
            Self::Test => &["test", "testing"],
        }
    }

    /// Returns each split with each of its names.
    fn all_names() -> impl Iterator<Item = (Self, &'static str)> {
        Self::ALL.into_iter().flat_map(|split| split.names().iter().map(move |name| (split, *name)))
    }

    /// Returns the split that a name such as `instances_val2017` contains.
    fn of_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let mut words = lower.split(|c: char| !c.is_ascii_alphabetic());
        words.find_map(|word| Self::ALL.into_iter().find(|split| split.names().contains(&word)))
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names()[0])
    }
}

/// Files of each split: COCO's annotation file, VOC's XML files, or YOLO's folder of images.
type Splits = BTreeMap<Split, Vec<PathBuf>>;

/// A folder with a known format and known splits.
#[derive(Clone, Debug)]
pub struct DetectionFolder {
    root: PathBuf,
    format: Format,
    splits: Splits,
    /// Class names in the order of their labels. Empty for COCO, whose annotation files have the names.
    classes: Vec<String>,
}

impl DetectionFolder {
    /// Recognises the format of the folder `root`.
    ///
    /// # Errors
    /// [`Error::Data`] for a folder of no known format, or of several formats; [`Error::Io`]. For VOC and YOLO
    /// also an error that concerns the files as a whole.
    pub fn open(root: &Path) -> Result<Self> {
        let (voc, voc_classes) = voc::find(root)?;
        let (yolo, yolo_classes) = yolo::find(root)?;
        let found = [
            (Format::Coco, coco::find(root)?, Vec::new()),
            (Format::Voc, voc, voc_classes),
            (Format::Yolo, yolo, yolo_classes),
        ];
        let mut found = found.into_iter().filter(|(_, splits, _)| !splits.is_empty());
        match (found.next(), found.next()) {
            (Some((format, splits, classes)), None) => {
                Ok(Self { root: root.to_owned(), format, splits, classes })
            }
            (Some((one, ..)), Some((other, ..))) => {
                Err(unusable(root, format!("it holds {one:?} and {other:?} annotations; leave one")))
            }
            (None, _) => Err(unusable(
                root,
                "no annotations found; looked for COCO (annotations/*.json, *.json, train/_annotations.coco.json), \
                 Pascal VOC (Annotations/*.xml, *.xml, train/*.xml) and YOLO (data.yaml)"
                    .to_owned(),
            )),
        }
    }

    /// Returns the splits of the folder. A folder without parts has only [`Split::Train`].
    pub fn splits(&self) -> Vec<Split> {
        self.splits.keys().copied().collect()
    }

    /// Loads a split as a dataset.
    ///
    /// # Errors
    /// [`Error::Data`] for a split that the folder does not have; the errors of [`CocoDataset::load`].
    pub fn load(&self, split: Split, options: &LoadOptions) -> Result<CocoDataset> {
        let Some(paths) = self.splits.get(&split) else {
            let names: Vec<String> = self.splits.keys().map(ToString::to_string).collect();
            return Err(unusable(&self.root, format!("no split {split}; it has {}", names.join(", "))));
        };
        let listed = match self.format {
            Format::Coco => return coco::load(&self.root, split, &paths[0], options),
            Format::Voc => voc::read(&self.root, paths, &self.classes)?,
            Format::Yolo => yolo::read(&self.root, &paths[0], &self.classes)?,
        };
        let origin = Origin { annotations: &self.root, images: &self.root, check_files: options.check_files };
        CocoDataset::from_file(merge::annotation_file(&self.root, &self.classes, listed), &origin, options)
    }
}

/// Builds the error of a folder that cannot be used; `detail` says why, and what to do.
fn unusable(path: &Path, detail: String) -> Error {
    Error::format(path, "a folder of annotated images", detail)
}

/// Returns the subfolders of `root` that have the name of a split.
fn folders_of_splits(root: &Path) -> impl Iterator<Item = (Split, PathBuf)> {
    Split::all_names()
        .map(move |(split, name)| (split, root.join(name)))
        .filter(|(_, folder)| folder.is_dir())
}

/// Returns the name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
