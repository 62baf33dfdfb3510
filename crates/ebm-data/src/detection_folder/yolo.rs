//! YOLO: a text file for each image, a line `class cx cy w h` for each object.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;

use super::data_yaml::DataYaml;
use super::listed::{Annotated, ImageFile, Listed, Sought, gather};
use super::{Split, stem, unusable};
use crate::coco::{CocoDataset, LoadOptions, Origin, named, relabel};
use crate::decode::{Header, read_header};
use crate::error::{Error, Result};
use crate::files::{files_in, read_limited, read_settings};
use crate::quarantine::{DefectCode, Finding};

/// The largest file of labels that is read, in bytes.
const MAX_LABEL_BYTES: u64 = 16 << 20;
/// What images are called; the loader reads the first three and says what to do about the others.
const EXTENSIONS: [&str; 10] = ["jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "gif", "heic", "avif"];
/// The file of the classes' names of tools without a data.yaml.
const CLASSES: &str = "classes.txt";

/// The folders of images of each split, and the classes.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    root: PathBuf,
    /// Where the names of the classes are.
    names_file: PathBuf,
    classes: Vec<String>,
    images: BTreeMap<Split, PathBuf>,
}

/// A line of a file of labels.
struct Line {
    class: usize,
    /// Centre, width and height as fractions of the image's sides.
    fractions: [f64; 4],
}

impl Labels {
    /// The labels in `root`, if there are any.
    pub(super) fn find(root: &Path) -> Result<Option<Self>> {
        if let Some((names_file, yaml)) = find_yaml(root)? {
            let mut images = BTreeMap::new();
            let folders = [(Split::Train, &yaml.train), (Split::Valid, &yaml.val), (Split::Test, &yaml.test)];
            for (split, folder) in
                folders.into_iter().filter_map(|(split, folder)| Some((split, folder.as_ref()?)))
            {
                images.insert(split, folder_of(root, &yaml, folder, &names_file)?);
            }
            return Ok(Some(Self { root: root.to_owned(), names_file, classes: yaml.names, images }));
        }
        let files = ["", "labels", "images"].map(|folder| root.join(folder).join(CLASSES));
        let Some(names_file) = files.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        let text = read_settings(&names_file)?;
        let classes: Vec<String> =
            text.lines().map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect();
        if classes.is_empty() || classes.iter().collect::<BTreeSet<_>>().len() < classes.len() {
            let detail = "give a name in each line, none twice".to_owned();
            return Err(Error::Format { path: names_file, expected: "a list of classes", detail });
        }
        let images = folders_without_yaml(root);
        Ok(Some(Self { root: root.to_owned(), names_file, classes, images }))
    }

    /// The splits that there are.
    pub(super) fn splits(&self) -> Vec<Split> {
        self.images.keys().copied().collect()
    }

    /// A split as a dataset.
    pub(super) fn load(&self, split: Split, options: &LoadOptions) -> Result<CocoDataset> {
        let images = self.images.get(&split).unwrap_or(&self.root);
        let records = self.read(images)?;
        let remedy =
            "YOLO's numbers are the centre, the width and the height as fractions of the image's sides";
        let sound = gather(&self.root, &records, remedy, |line, size| self.annotated(line, size));
        let mut categories = named(self.classes.iter().cloned());
        relabel(&mut categories, options.labels, &self.names_file)?;
        let labels = labels_of(&self.root, images);
        let origin = Origin { annotations: &labels, images, check_files: options.check_files };
        CocoDataset::settle(sound, categories, &origin, options)
    }

    fn annotated(&self, line: &Line, (width, height): (usize, usize)) -> Sought<Annotated> {
        if line.class >= self.classes.len() {
            let (class, count) = (line.class, self.classes.len());
            let detail = format!(
                "class {class}, but {} names {count}, from 0 to {}; mend the line or add the name",
                self.names_file.display(),
                count - 1
            );
            return Err(Finding::new(DefectCode::UnknownCategory, detail));
        }
        let [cx, cy, w, h] = line.fractions;
        let (width, height) = (width as f64, height as f64);
        let corners =
            [(cx - w / 2.) * width, (cy - h / 2.) * height, (cx + w / 2.) * width, (cy + h / 2.) * height];
        Ok(Annotated { label: line.class + 1, corners, is_difficult: false })
    }

    /// The images of a folder by name, then the labels without an image.
    fn read(&self, images: &Path) -> Result<Vec<Listed<Line>>> {
        let labels = labels_of(&self.root, images);
        let paths: Vec<PathBuf> =
            files_in(images, &EXTENSIONS)?.into_iter().map(|name| images.join(name)).collect();
        let texts = if labels.is_dir() { files_in(&labels, &["txt"])? } else { Vec::new() };
        let texts: BTreeSet<PathBuf> =
            texts.into_iter().map(|name| labels.join(name)).filter(|path| !path.ends_with(CLASSES)).collect();
        if paths.is_empty() || texts.is_empty() {
            let detail = format!("no images in {}, or no labels in {}", images.display(), labels.display());
            return Err(unusable(
                &self.root,
                format!("{detail}; each image's labels are a .txt file of its name"),
            ));
        }
        let label_file = |image: &Path| labels.join(format!("{}.txt", stem(image)));
        let mut records: Vec<Listed<Line>> = paths
            .par_iter()
            .map(|path| read_record(path, label_file(path), &texts))
            .collect::<Result<_>>()?;
        let labelled: BTreeSet<PathBuf> = paths.iter().map(|path| label_file(path)).collect();
        records.extend(texts.difference(&labelled).map(|path| {
            let detail = format!("{}: no image of this name in {}", path.display(), images.display());
            let image = Err(Finding::new(DefectCode::MissingFile, detail));
            Listed { annotations: path.clone(), image, objects: Vec::new() }
        }));
        Ok(records)
    }
}

/// The file in `root` that tells where the splits are, if there is any.
fn find_yaml(root: &Path) -> Result<Option<(PathBuf, DataYaml)>> {
    let mut found = Vec::new();
    for name in files_in(root, &["yaml", "yml"])? {
        let path = root.join(&name);
        let text = read_settings(&path)?;
        if text.lines().any(|line| line.starts_with("names:")) {
            found.push((path, text));
        }
    }
    // Of several the usual one is meant.
    if found.len() > 1 {
        found.retain(|(path, _)| stem(path) == "data");
    }
    match &found[..] {
        [] => Ok(None),
        [(path, text)] => Ok(Some((path.clone(), DataYaml::parse(path, text)?))),
        _ => Err(unusable(root, "several YAML files have names of classes; leave one".to_owned())),
    }
}

/// The folder of a split. A `path` is often that of another machine, and `../train/images` is written where
/// `train/images` is meant.
fn folder_of(root: &Path, yaml: &DataYaml, folder: &Path, file: &Path) -> Result<PathBuf> {
    let base = yaml.path.as_ref().map(|path| root.join(path));
    let bases: Vec<PathBuf> = base.into_iter().chain([root.to_owned()]).collect();
    let shortened = folder.components().skip_while(|part| *part == Component::ParentDir).collect::<PathBuf>();
    let candidates = [folder, &shortened].map(|folder| bases.iter().map(move |base| base.join(folder)));
    let mut candidates = candidates.into_iter().flatten().collect::<Vec<_>>().into_iter();
    candidates.find(|folder| folder.is_dir()).ok_or_else(|| Error::Format {
        path: file.to_owned(),
        expected: "a data.yaml of this folder",
        detail: format!("{} is no folder in {}; give the folder of images", folder.display(), root.display()),
    })
}

/// `images/train` and so on, or `train/images`, or all of `images`, or the folder itself.
fn folders_without_yaml(root: &Path) -> BTreeMap<Split, PathBuf> {
    let all = Split::ALL.into_iter().flat_map(|split| split.names().iter().map(move |name| (split, *name)));
    let places = all.flat_map(|(split, name)| {
        [root.join("images").join(name), root.join(name).join("images")].map(|folder| (split, folder))
    });
    let mut found = BTreeMap::new();
    for (split, folder) in places.filter(|(_, folder)| folder.is_dir()) {
        found.entry(split).or_insert(folder);
    }
    if found.is_empty() {
        let images = root.join("images");
        found.insert(Split::Train, if images.is_dir() { images } else { root.to_owned() });
    }
    found
}

/// Where the labels of a folder of images are: in `labels` instead of the last `images` below `root`, or
/// beside the images.
fn labels_of(root: &Path, images: &Path) -> PathBuf {
    let (base, below) = images.strip_prefix(root).map_or((Path::new(""), images), |below| (root, below));
    let parts: Vec<Component> = below.components().collect();
    let last = parts.iter().rposition(|part| part.as_os_str() == "images");
    let part = |(index, part): (usize, &Component)| {
        if Some(index) == last { PathBuf::from("labels") } else { PathBuf::from(part.as_os_str()) }
    };
    base.join(parts.iter().enumerate().map(part).collect::<PathBuf>())
}

/// An image and its labels; without a file of labels it has no object.
fn read_record(image: &Path, labels: PathBuf, texts: &BTreeSet<PathBuf>) -> Result<Listed<Line>> {
    let file = match read_header(image) {
        Ok(Header { is_turned: true, .. }) => {
            let detail = "its orientation tag (EXIF) turns it, and what the labels mean is unknown; write it upright, for \
                          instance with `magick mogrify -auto-orient FILE`";
            Err(Finding::new(DefectCode::UnreadableImage, format!("{}: {detail}", image.display())))
        }
        Ok(Header { width, height, .. }) => Ok(ImageFile { path: image.to_owned(), size: (width, height) }),
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => Err(Finding::new(DefectCode::BadAnnotation, format!("no image size: {error}"))),
    };
    let mut objects = Vec::new();
    if texts.contains(&labels) {
        let bytes = read_limited(&labels, MAX_LABEL_BYTES)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        objects = lines.map(|(number, line)| (number, parse_line(line))).collect();
    }
    Ok(Listed { annotations: labels, image: file, objects })
}

fn parse_line(line: &str) -> Sought<Line> {
    let fail = |why: &str| {
        let shown: String = line.chars().take(80).collect();
        Finding::new(DefectCode::BadAnnotation, format!("{shown:?} {why}; write `class cx cy w h`"))
    };
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [class, rest @ ..] = &fields[..] else { return Err(fail("is empty")) };
    let rest: [&str; 4] =
        rest.try_into().map_err(|_| fail("has not five fields (a polygon, or key points?)"))?;
    let class = class.parse().map_err(|_| fail("does not begin with the index of a class"))?;
    let mut fractions = [0.; 4];
    for (number, field) in fractions.iter_mut().zip(rest) {
        let parsed = field.parse().ok().filter(|number: &f64| number.is_finite());
        *number = parsed.ok_or_else(|| fail("has a field that is no number"))?;
    }
    Ok(Line { class, fractions })
}
