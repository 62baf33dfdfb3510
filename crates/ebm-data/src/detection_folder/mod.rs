//! A user's folder of images with boxes: in COCO's form or YOLO's.
//!
//! | format | how it is recognised | images |
//! |---|---|---|
//! | COCO | `annotations/*.json`, `*.json`, `{train,valid,test}/*.json`, which begin as annotation files do | beside the file, in `images/`, in a folder of the split's name, or in any other where they are |
//! | YOLO | `data.yaml` as Ultralytics and Roboflow write it | `images/`, with `labels/` instead of it for the labels; or beside the labels |
//!
//! [`DetectionFolder::load`] gives a split as a [`CocoDataset`], whose categories have the same order in
//! every split: COCO's by id, YOLO's by index. What is defective is named by file and line, and left out; above
//! [`LoadOptions::tolerance`] it is an error.
//!
//! **Pixels.** The boxes of a `CocoDataset` are half-open: `x1 − x0` columns. YOLO's numbers are the centre and
//! the sides as fractions of the image's sides; the image's header tells these.

mod coco;
mod data_yaml;
mod yolo;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::coco::{CocoDataset, LoadOptions, Origin};
use crate::error::{Error, Result};

/// What a part of a dataset is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// To learn from; all there is, where a folder has no parts.
    Train,
    /// To choose by.
    Valid,
    /// To report.
    Test,
}

impl Split {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// How folders and files of this split are called.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Train => &["train", "trainval", "training"],
            Self::Valid => &["valid", "val", "validation"],
            Self::Test => &["test", "testing"],
        }
    }

    /// The split that a name such as `instances_val2017` speaks of.
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

/// COCO's annotation file of each split, or YOLO's folder of images.
type Splits = BTreeMap<Split, PathBuf>;

/// A folder whose format and splits are known.
#[derive(Clone, Debug)]
pub struct DetectionFolder {
    root: PathBuf,
    splits: Splits,
    /// YOLO's classes in the order of their labels; of COCO, which has none here, the annotation files tell.
    classes: Vec<String>,
}

impl DetectionFolder {
    /// Recognises what `root` holds.
    ///
    /// # Errors
    /// [`Error::Data`] for a folder of no known format, or of both; [`Error::Io`]; for YOLO what is wrong
    /// with the files as a whole.
    pub fn open(root: &Path) -> Result<Self> {
        let (coco, (yolo, classes)) = (coco::find(root)?, yolo::find(root)?);
        let detail = match (coco.is_empty(), yolo.is_empty()) {
            (false, true) => return Ok(Self { root: root.to_owned(), splits: coco, classes }),
            (true, false) => return Ok(Self { root: root.to_owned(), splits: yolo, classes }),
            (false, false) => "it holds COCO's and YOLO's annotations; leave one",
            (true, true) => {
                "no annotations found; looked for COCO (annotations/*.json, *.json, train/_annotations.coco.json) and \
                 YOLO (data.yaml)"
            }
        };
        Err(unusable(root, detail.to_owned()))
    }

    /// The splits that there are; a folder without parts has [`Split::Train`] alone.
    pub fn splits(&self) -> Vec<Split> {
        self.splits.keys().copied().collect()
    }

    /// The split as a dataset.
    ///
    /// # Errors
    /// [`Error::Data`] for a split that the folder has not; those of [`CocoDataset::load`].
    pub fn load(&self, split: Split, options: &LoadOptions) -> Result<CocoDataset> {
        let Some(path) = self.splits.get(&split) else {
            let names: Vec<String> = self.splits.keys().map(ToString::to_string).collect();
            return Err(unusable(&self.root, format!("no split {split}; it has {}", names.join(", "))));
        };
        if self.classes.is_empty() {
            return coco::load(&self.root, split, path, options);
        }
        let file = yolo::read(&self.root, path, &self.classes)?;
        let origin = Origin { annotations: &self.root, images: &self.root, check_files: options.check_files };
        CocoDataset::from_file(file, &origin, options)
    }
}

/// What is wrong with a folder, and what to do about it.
fn unusable(path: &Path, detail: String) -> Error {
    Error::format(path, "a folder of annotated images", detail)
}

/// The name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
