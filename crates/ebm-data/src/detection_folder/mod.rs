//! A user's folder of images with boxes: in COCO's form, Pascal VOC's or YOLO's.
//!
//! | format | how it is recognised | images |
//! |---|---|---|
//! | COCO | `annotations/*.json`, `*.json`, `{train,valid,test}/*.json`, which begin as annotation files do | beside the file, in `images/`, in a folder of the split's name, or in any other where they are |
//! | Pascal VOC | `Annotations/*.xml`, `annotations/`, `annots/`, or the XML files beside the images; each also in `{train,valid,test}/` | `JPEGImages/`, `images/`, beside the XML files |
//! | YOLO | `data.yaml` (see [`data_yaml`]), or `classes.txt` | `images/`, with `labels/` instead of it for the labels; or beside the labels |
//!
//! [`DetectionFolder::load`] gives a split as a [`CocoDataset`], whose categories have the same order in
//! every split: COCO's by id, VOC's by name, YOLO's by index. What is defective is named by file and line,
//! and left out; above [`LoadOptions::tolerance`] it is an error.
//!
//! **Pixels.** The boxes of a `CocoDataset` are half-open: `x1 − x0` columns. VOC's corners are the first and
//! the last pixel inside, counted from 1, so that `(xmin, xmax) = (1, W)` is the whole width; they become
//! `xmin − 1` and `xmax`. YOLO's numbers are the centre and the sides as fractions of the image's sides; the
//! image's header tells these.
//!
//! **Difficult objects** of VOC are neither right nor wrong where a detector is measured, and it is not
//! trained on them: they are COCO's crowds.

mod coco;
pub mod data_yaml;
mod listed;
mod voc;
mod yolo;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::coco::{CocoDataset, LoadOptions, Purpose};
use crate::error::{Error, Result};

/// What a folder is in the form of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// An annotation file in JSON.
    Coco,
    /// An XML file for each image.
    Voc,
    /// A text file for each image.
    Yolo,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coco => "COCO",
            Self::Voc => "Pascal VOC",
            Self::Yolo => "YOLO",
        })
    }
}

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

/// A folder whose format and splits are known.
#[derive(Clone, Debug)]
pub struct DetectionFolder {
    root: PathBuf,
    contents: Contents,
}

/// Where the annotations are.
#[derive(Clone, Debug)]
enum Contents {
    /// The annotation file of each split.
    Coco(BTreeMap<Split, PathBuf>),
    Voc(voc::Annotations),
    Yolo(yolo::Labels),
}

impl DetectionFolder {
    /// Recognises what `root` holds; with `format` nothing else is considered.
    ///
    /// # Errors
    /// [`Error::Format`] for a folder of no known format, or of several; [`Error::Io`]; for VOC and YOLO what
    /// is wrong with the files as a whole.
    pub fn open(root: &Path, format: Option<Format>) -> Result<Self> {
        let wanted = |kind| format.is_none_or(|format| format == kind);
        let mut found = Vec::new();
        if wanted(Format::Coco) {
            found.extend(coco::find(root)?.map(Contents::Coco));
        }
        if wanted(Format::Voc) {
            found.extend(voc::Annotations::find(root)?.map(Contents::Voc));
        }
        if wanted(Format::Yolo) {
            found.extend(yolo::Labels::find(root)?.map(Contents::Yolo));
        }
        let several: Vec<String> = found.iter().map(|contents| contents.format().to_string()).collect();
        match (found.pop(), found.is_empty()) {
            (Some(contents), true) => Ok(Self { root: root.to_owned(), contents }),
            (Some(_), false) => Err(unusable(
                root,
                format!("it holds {} annotations; say which to read", several.join(" and ")),
            )),
            (None, _) => {
                let what = format.map_or("annotations".to_owned(), |format| format!("{format} annotations"));
                Err(unusable(
                    root,
                    format!(
                        "no {what} found; looked for COCO (annotations/*.json, *.json, train/_annotations.coco.json), \
                         Pascal VOC (Annotations/*.xml, *.xml, train/*.xml) and YOLO (data.yaml, or classes.txt with \
                         images/ and labels/)"
                    ),
                ))
            }
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.contents.format()
    }

    /// The splits that there are; a folder without parts has [`Split::Train`] alone.
    pub fn splits(&self) -> Vec<Split> {
        match &self.contents {
            Contents::Coco(files) => files.keys().copied().collect(),
            Contents::Voc(annotations) => annotations.splits(),
            Contents::Yolo(labels) => labels.splits(),
        }
    }

    /// The split as a dataset.
    ///
    /// # Errors
    /// [`Error::Format`] for a split that the folder has not, and with [`Purpose::Train`] for one without an
    /// object; those of [`CocoDataset::load`].
    pub fn load(&self, split: Split, options: &LoadOptions) -> Result<CocoDataset> {
        let splits = self.splits();
        if !splits.contains(&split) {
            let names: Vec<String> = splits.iter().map(ToString::to_string).collect();
            return Err(unusable(&self.root, format!("no split {split}; it has {}", names.join(", "))));
        }
        let dataset = match &self.contents {
            Contents::Coco(files) => coco::load(&self.root, split, &files[&split], options),
            Contents::Voc(annotations) => annotations.load(split, options),
            Contents::Yolo(labels) => labels.load(split, options),
        }?;
        if options.purpose == Purpose::Train && dataset.images.is_empty() {
            return Err(unusable(&self.root, format!("{split}: no image with an object to train on")));
        }
        Ok(dataset)
    }
}

impl Contents {
    fn format(&self) -> Format {
        match self {
            Self::Coco(_) => Format::Coco,
            Self::Voc(_) => Format::Voc,
            Self::Yolo(_) => Format::Yolo,
        }
    }
}

/// What is wrong with a folder, and what to do about it.
fn unusable(path: &Path, detail: String) -> Error {
    Error::Format { path: path.to_owned(), expected: "a folder of annotated images", detail }
}

/// The folders in `root` that are called as a split is.
fn folders_of_splits(root: &Path) -> impl Iterator<Item = (Split, PathBuf)> {
    let all = Split::ALL.into_iter().flat_map(|split| split.names().iter().map(move |name| (split, *name)));
    let root = root.to_owned();
    all.map(move |(split, name)| (split, root.join(name))).filter(|(_, folder)| folder.is_dir())
}

/// The name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
