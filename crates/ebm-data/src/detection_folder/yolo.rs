//! Folders in YOLO's format: a text file for each image, with a line `class cx cy w h` for each object.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;

use super::data_yaml::DataYaml;
use super::merge::{AnnotatedImage, AnnotatedObject, Parsed};
use super::{Split, Splits, stem, unusable};
use crate::decode::{Header, read_header};
use crate::error::{Error, Result};
use crate::files::{files_in, read_limited, read_settings};
use crate::quarantine::{DefectCode, Finding};

/// Largest size of a label file, in bytes.
const MAX_LABEL_BYTES: u64 = 16 << 20;
/// Extensions of image files. The loader reads the first five and refuses the others.
const EXTENSIONS: [&str; 10] = ["jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "gif", "heic", "avif"];
/// File beside the labels that holds no labels; some tools write the names of the classes to it.
const CLASSES: &str = "classes.txt";

/// Finds the folder of images of each split, and the classes.
pub(super) fn find(root: &Path) -> Result<(Splits, Vec<String>)> {
    let paths = ["data.yaml", "data.yml"].map(|name| root.join(name));
    let Some(path) = paths.into_iter().find(|path| path.is_file()) else { return Ok(Default::default()) };
    let fail = |detail| Error::format(&path, "a data.yaml as Ultralytics writes it", detail);
    let yaml = DataYaml::parse(&read_settings(&path)?).map_err(fail)?;
    let text = |key| yaml.text(key).map_err(fail);
    let base = text("path")?;
    let mut splits = Splits::new();
    let keys =
        [(Split::Train, "train"), (Split::Valid, "val"), (Split::Valid, "valid"), (Split::Test, "test")];
    for (split, key) in keys {
        if let Some(folder) = text(key)? {
            let found = folder_of(root, base.as_deref(), &folder).ok_or_else(|| {
                let root = root.display();
                fail(format!("`{key}`: {folder} is no folder in {root}; give the folder of images"))
            })?;
            splits.insert(split, vec![found]);
        }
    }
    if splits.is_empty() {
        return Err(fail("none of `train`, `val` and `test`; give a folder of images".to_owned()));
    }
    Ok((splits, yaml.names))
}

/// Reads the labels of the images in a folder, sorted by the images' names; label files without an image come last.
pub(super) fn read(root: &Path, images: &Path, classes: &[String]) -> Result<Vec<AnnotatedImage>> {
    let labels = labels_of(root, images);
    let paths = files_in(images, &EXTENSIONS)?;
    let texts = if labels.is_dir() { files_in(&labels, &["txt"])? } else { Vec::new() };
    let mut texts: BTreeSet<PathBuf> = texts.into_iter().filter(|path| !path.ends_with(CLASSES)).collect();
    if paths.is_empty() || texts.is_empty() {
        let detail = format!("no images in {}, or no labels in {}", images.display(), labels.display());
        return Err(unusable(root, format!("{detail}; each image's labels are a .txt file of its name")));
    }
    let label_file = |image: &Path| labels.join(format!("{}.txt", stem(image)));
    let read = |path: &PathBuf| {
        let file = label_file(path);
        let text = if texts.contains(&file) { read_limited(&file, MAX_LABEL_BYTES)? } else { Vec::new() };
        read_image(path, file, &String::from_utf8_lossy(&text), classes)
    };
    let mut listed: Vec<AnnotatedImage> = paths.par_iter().map(read).collect::<Result<_>>()?;
    for path in &paths {
        texts.remove(&label_file(path));
    }
    listed.extend(texts.into_iter().map(|file| {
        let detail = format!("no image of this name in {}", images.display());
        AnnotatedImage {
            file,
            image: Err(Finding::new(DefectCode::MissingFile, detail)),
            objects: Vec::new(),
        }
    }));
    Ok(listed)
}

/// Returns the folder of a split. The `base` is often a path on another machine, and some files have
/// `../train/images` instead of `train/images`.
fn folder_of(root: &Path, base: Option<&str>, folder: &str) -> Option<PathBuf> {
    let parts = Path::new(folder).components();
    let shortened: PathBuf = parts.skip_while(|part| *part == Component::ParentDir).collect();
    let bases: Vec<PathBuf> = base.map(|base| root.join(base)).into_iter().chain([root.to_owned()]).collect();
    let candidates =
        [Path::new(folder), &shortened].map(|folder| bases.iter().map(move |base| base.join(folder)));
    candidates.into_iter().flatten().find(|folder| folder.is_dir())
}

/// Returns the folder of the labels for a folder of images. The last `images` below `root` becomes `labels`;
/// without one the labels are beside the images.
fn labels_of(root: &Path, images: &Path) -> PathBuf {
    let (base, below) = images.strip_prefix(root).map_or((Path::new(""), images), |below| (root, below));
    let mut parts: Vec<&std::ffi::OsStr> = below.iter().collect();
    if let Some(part) = parts.iter_mut().rfind(|part| **part == "images") {
        *part = "labels".as_ref();
    }
    base.join(parts.into_iter().collect::<PathBuf>())
}

/// Reads an image's size and its labels. An image without labels has no objects.
fn read_image(image: &Path, file: PathBuf, labels: &str, classes: &[String]) -> Result<AnnotatedImage> {
    let (width, height) = match read_header(image) {
        Ok(Header { is_turned: false, width, height }) => (width, height),
        Err(error @ Error::Io { .. }) => return Err(error),
        other => {
            let finding = match other {
                Err(error) => Finding::new(DefectCode::BadAnnotation, format!("no image size: {error}")),
                Ok(_) => {
                    let detail = "its orientation tag (EXIF) turns it, and what the labels mean is unknown; write it \
                                  upright, for instance with `magick mogrify -auto-orient FILE`";
                    Finding::new(DefectCode::UnreadableImage, format!("{}: {detail}", image.display()))
                }
            };
            return Ok(AnnotatedImage { file, image: Err(finding), objects: Vec::new() });
        }
    };
    let size = [width as f64, height as f64];
    let lines = (1..).zip(labels.lines()).filter(|(_, line)| !line.trim().is_empty());
    let objects = lines.map(|(number, line)| (number, parse_line(line, size, classes))).collect();
    Ok(AnnotatedImage { file, image: Ok((image.to_owned(), (width, height))), objects })
}

fn parse_line(line: &str, [width, height]: [f64; 2], classes: &[String]) -> Parsed<AnnotatedObject> {
    let fail = |why: &str| {
        let shown: String = line.chars().take(80).collect();
        Finding::new(DefectCode::BadAnnotation, format!("{shown:?} {why}; write `class cx cy w h`"))
    };
    let (class, fields) = line.trim().split_once(char::is_whitespace).unwrap_or((line, ""));
    let class: usize = class.parse().map_err(|_| fail("does not begin with the index of a class"))?;
    let number = |field: &str| field.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Option<Vec<f64>> = fields.split_whitespace().map(number).collect();
    let numbers = numbers.ok_or_else(|| fail("has a field that is no number"))?;
    let [cx, cy, w, h] =
        numbers.try_into().map_err(|_| fail("has not five fields (a polygon, or key points?)"))?;
    if class >= classes.len() {
        let detail = format!("class {class}, but there are {}, from 0 on", classes.len());
        return Err(Finding::new(DefectCode::UnknownCategory, detail));
    }
    let corners =
        [(cx - w / 2.) * width, (cy - h / 2.) * height, (cx + w / 2.) * width, (cy + h / 2.) * height];
    Ok(AnnotatedObject { label: class + 1, corners, is_difficult: false })
}
