//! Pascal VOC: an XML file for each image, and lists of the images of each split.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};

use super::listed::{Annotated, ImageFile, Listed, Sought, gather};
use super::{Split, folders_of_splits, stem, unusable};
use crate::coco::{CocoDataset, LoadOptions, Origin, named, relabel};
use crate::decode::read_header;
use crate::error::{Error, Result};
use crate::files::{files_in, read_limited, read_settings, stays_inside};
use crate::quarantine::{DefectCode, Finding};

/// The largest list of names, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;
/// How many elements and texts an XML file may have: those of ten thousand objects.
const MAX_NODES: u32 = 1 << 18;
/// Where XML files lie, and images.
const XML_FOLDERS: [&str; 5] = ["Annotations", "annotations", "annots", "annotations/xmls", ""];
const IMAGE_FOLDERS: [&str; 4] = ["JPEGImages", "images", "Images", ""];
const EXTENSIONS: [&str; 6] = ["jpg", "jpeg", "png", "JPG", "JPEG", "PNG"];

/// What the XML files of each split say, and the classes of all of them.
#[derive(Clone, Debug)]
pub(super) struct Annotations {
    root: PathBuf,
    records: BTreeMap<Split, Vec<Listed<VocObject>>>,
    /// By name.
    classes: Vec<String>,
}

/// An object as written.
#[derive(Clone, Debug)]
struct VocObject {
    class: String,
    /// The first and the last pixel inside, counted from 1.
    pixels: [f64; 4],
    is_difficult: bool,
}

impl Annotations {
    /// The annotations in `root`, if there are any.
    pub(super) fn find(root: &Path) -> Result<Option<Self>> {
        let files = files_of_splits(root)?;
        if files.is_empty() {
            return Ok(None);
        }
        let mut records = BTreeMap::new();
        let mut classes = BTreeSet::new();
        for (split, files) in files {
            let of_split = files.par_iter().map(|path| read_file(root, path));
            let of_split: Vec<Listed<VocObject>> = of_split.collect::<Result<_>>()?;
            let objects = of_split.iter().flat_map(|record| &record.objects);
            classes.extend(objects.filter_map(|(_, object)| Some(object.as_ref().ok()?.class.clone())));
            records.insert(split, of_split);
        }
        if classes.is_empty() {
            return Err(unusable(root, "no XML file has an object with a name and a box".to_owned()));
        }
        Ok(Some(Self { root: root.to_owned(), records, classes: classes.into_iter().collect() }))
    }

    /// The splits that there are.
    pub(super) fn splits(&self) -> Vec<Split> {
        self.records.keys().copied().collect()
    }

    /// A split as a dataset.
    pub(super) fn load(&self, split: Split, options: &LoadOptions) -> Result<CocoDataset> {
        let records = self.records.get(&split).map_or(&[][..], Vec::as_slice);
        let remedy = "VOC's corners are pixels inside, counted from 1";
        let sound = gather(&self.root, records, remedy, |object, _| {
            let [x0, y0, x1, y1] = object.pixels;
            let label = self.classes.binary_search(&object.class).map_or(0, |index| index + 1);
            // From the first pixel's left edge to the last one's right edge.
            let corners = [x0 - 1., y0 - 1., x1, y1];
            Ok(Annotated { label, corners, is_difficult: object.is_difficult })
        });
        let mut categories = named(self.classes.iter().cloned());
        relabel(&mut categories, options.labels, &self.root)?;
        let origin = Origin { annotations: &self.root, images: &self.root, check_files: options.check_files };
        CocoDataset::settle(sound, categories, &origin, options)
    }
}

/// The XML files of each split.
fn files_of_splits(root: &Path) -> Result<BTreeMap<Split, Vec<PathBuf>>> {
    if let Some(folder) = folder_with_xml(root)? {
        let lists = lists_of_splits(root, &folder)?;
        return Ok(if lists.is_empty() { [(Split::Train, xml_files(&folder)?)].into() } else { lists });
    }
    let mut files = BTreeMap::new();
    for (split, part) in folders_of_splits(root) {
        if let Some(folder) = folder_with_xml(&part)?
            && files.insert(split, xml_files(&folder)?).is_some()
        {
            return Err(unusable(root, format!("two folders are called as the split {split} is; leave one")));
        }
    }
    Ok(files)
}

/// The first of the usual folders that has XML files.
fn folder_with_xml(root: &Path) -> Result<Option<PathBuf>> {
    for folder in XML_FOLDERS.map(|name| root.join(name)) {
        if folder.is_dir() && !files_in(&folder, &["xml"])?.is_empty() {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

fn xml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(files_in(folder, &["xml"])?.into_iter().map(|name| folder.join(name)).collect())
}

/// The files that `ImageSets/Main/{train,val,test}.txt` list, a name without extension in each line;
/// `trainval.txt` is read where there is no `train.txt`.
fn lists_of_splits(root: &Path, folder: &Path) -> Result<BTreeMap<Split, Vec<PathBuf>>> {
    let lists = root.join("ImageSets/Main");
    let mut found = BTreeMap::new();
    for (split, list) in
        Split::ALL.into_iter().flat_map(|split| split.names().iter().map(move |n| (split, n)))
    {
        let path = lists.join(format!("{list}.txt"));
        if found.contains_key(&split) || !path.is_file() {
            continue;
        }
        let text = String::from_utf8_lossy(&read_limited(&path, MAX_LIST_BYTES)?).into_owned();
        let mut files = Vec::new();
        for (line, name) in (1..).zip(text.lines()).map(|(line, name)| (line, name.trim())) {
            if !name.is_empty() && !stays_inside(name) {
                let detail = format!("line {line}: {name:?}; give the name of an XML file without .xml");
                return Err(Error::Format { path, expected: "a list of images", detail });
            }
            files.extend((!name.is_empty()).then(|| folder.join(format!("{name}.xml"))));
        }
        found.insert(split, files);
    }
    Ok(found)
}

/// Reads an XML file; what is wrong with it is in the record.
///
/// # Errors
/// The machine's failures.
fn read_file(root: &Path, path: &Path) -> Result<Listed<VocObject>> {
    let record = |image, objects| Listed { annotations: path.to_owned(), image, objects };
    let defect = |code, detail: String| Ok(record(Err(Finding::new(code, detail)), Vec::new()));
    if !path.is_file() {
        return defect(
            DefectCode::BadAnnotation,
            "listed, but not there; fetch it, or drop it from the list".into(),
        );
    }
    let text = match read_settings(path) {
        Ok(text) => text,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => return defect(DefectCode::BadAnnotation, error.to_string()),
    };
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&text, options) {
        Ok(document) => document,
        Err(error) => return defect(DefectCode::BadAnnotation, format!("no XML: {error}")),
    };
    let annotation = document.root_element();
    if !annotation.has_tag_name("annotation") {
        let name = annotation.tag_name().name();
        return defect(DefectCode::BadAnnotation, format!("its outermost element is {name}, not annotation"));
    }
    let objects = annotation.children().filter(|child| child.has_tag_name("object"));
    let line = |node: Node| document.text_pos_at(node.range().start).row;
    let objects = objects.map(|object| (line(object), read_object(object))).collect();
    Ok(record(read_image(root, path, annotation), objects))
}

/// The image of an annotation: the image of the XML file's own name in one of the usual folders, as readers
/// of VOC have it; or else that of `filename`, which is often a name of another machine.
fn read_image(root: &Path, xml: &Path, annotation: Node) -> Sought<ImageFile> {
    let beside = xml.parent().unwrap_or(root);
    let folders: Vec<PathBuf> = std::iter::once(beside.to_owned())
        .chain(IMAGE_FOLDERS.map(|name| root.join(name)))
        .chain(beside.parent().into_iter().flat_map(|parent| IMAGE_FOLDERS.map(|name| parent.join(name))))
        .collect();
    let written = text(annotation, "filename").filter(|name| stays_inside(name)).map(str::to_owned);
    let own = EXTENSIONS.map(|extension| format!("{}.{extension}", stem(xml)));
    let names = own.into_iter().chain(written.clone());
    let mut candidates = names.flat_map(|name| folders.iter().map(move |folder| folder.join(&name)));
    let Some(path) = candidates.find(|path| path.is_file()) else {
        let name = written.unwrap_or_else(|| format!("{}.jpg", stem(xml)));
        let detail =
            format!("{name} of {} is neither beside it nor in JPEGImages/ or images/", xml.display());
        return Err(Finding::new(DefectCode::MissingFile, detail));
    };
    let size = annotation.children().find(|child| child.has_tag_name("size"));
    let side = |name| text(size?, name)?.parse::<usize>().ok().filter(|&side| side > 0);
    let size = match side("width").zip(side("height")) {
        Some(size) => size,
        None => read_header(&path).map(|header| (header.width, header.height)).map_err(|error| {
            let detail = format!("no <size> with a width and a height, and the image tells none: {error}");
            Finding::new(DefectCode::BadAnnotation, detail)
        })?,
    };
    Ok(ImageFile { path, size })
}

/// An object's own name and box; its parts have others.
fn read_object(object: Node) -> Sought<VocObject> {
    let class = text(object, "name").filter(|name| !name.is_empty());
    let class = class.ok_or_else(|| {
        Finding::new(DefectCode::BadAnnotation, "an object without <name>; name its class".to_owned())
    })?;
    let bndbox = object.children().find(|child| child.has_tag_name("bndbox"));
    let number = |name| {
        let written = bndbox.and_then(|bndbox| text(bndbox, name));
        written.and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite()).ok_or_else(
            || {
                let found = written.map_or("missing".to_owned(), |text| format!("{text:?}"));
                let detail =
                    format!("{name} of the <bndbox> of {class:?} is {found}; give a number of pixels");
                Finding::new(DefectCode::BadAnnotation, detail)
            },
        )
    };
    Ok(VocObject {
        class: class.to_owned(),
        pixels: [number("xmin")?, number("ymin")?, number("xmax")?, number("ymax")?],
        is_difficult: text(object, "difficult") == Some("1"),
    })
}

/// The text of the child of this name.
fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.has_tag_name(name))?.text().map(str::trim)
}
