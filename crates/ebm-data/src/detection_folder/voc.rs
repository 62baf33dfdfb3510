//! Folders in Pascal VOC's format: an XML file for each image, and lists of the images of each split.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};

use super::merge::{AnnotatedImage, AnnotatedObject, Parsed};
use super::{Split, Splits, folders_of_splits, stem, unusable};
use crate::decode::read_header;
use crate::error::{Error, Result};
use crate::files::{files_in, read_limited, read_settings, stays_inside};
use crate::quarantine::{DefectCode, Finding};

/// Largest size of a list of names, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;
/// Largest number of elements and texts of an XML file, enough for ten thousand objects.
const MAX_NODES: u32 = 1 << 18;
/// Folders that may hold the XML files.
const XML_FOLDERS: [&str; 5] = ["Annotations", "annotations", "annots", "annotations/xmls", ""];
const IMAGE_FOLDERS: [&str; 4] = ["JPEGImages", "images", "Images", ""];
const EXTENSIONS: [&str; 6] = ["jpg", "jpeg", "png", "JPG", "JPEG", "PNG"];

/// Finds the XML files of each split, and the classes of all files, sorted by name.
pub(super) fn find(root: &Path) -> Result<(Splits, Vec<String>)> {
    let splits = files_of_splits(root)?;
    let files: Vec<&PathBuf> = splits.values().flatten().collect();
    let names = |path: &&PathBuf| -> Result<Vec<String>> {
        let of_file = with_annotation(path, |annotation| {
            let objects = objects(annotation).filter_map(|object| read_object(object).ok());
            Ok(objects.map(|(name, ..)| name.to_owned()).collect())
        })?;
        Ok(of_file.unwrap_or_default())
    };
    let names: Vec<Vec<String>> = files.par_iter().map(names).collect::<Result<_>>()?;
    let classes: BTreeSet<String> = names.into_iter().flatten().collect();
    if classes.is_empty() && !splits.is_empty() {
        return Err(unusable(root, "no XML file has an object with a name and a box".to_owned()));
    }
    Ok((splits, classes.into_iter().collect()))
}

/// Reads the XML files of a split.
pub(super) fn read(root: &Path, files: &[PathBuf], classes: &[String]) -> Result<Vec<AnnotatedImage>> {
    let read = |path: &PathBuf| {
        let listed = with_annotation(path, |annotation| {
            let line =
                |node: Node<'_, '_>| annotation.document().text_pos_at(node.range().start).row as usize;
            let annotated = |object| {
                let (name, [x0, y0, x1, y1], is_difficult) = read_object(object)?;
                let label = classes.partition_point(|class| class.as_str() < name) + 1;
                // From the first pixel's left edge to the last one's right edge.
                Ok(AnnotatedObject { label, corners: [x0 - 1., y0 - 1., x1, y1], is_difficult })
            };
            let objects = objects(annotation).map(|object| (line(object), annotated(object))).collect();
            Ok((find_image(root, path, annotation), objects))
        })?;
        let (image, objects) = listed.unwrap_or_else(|finding| (Err(finding), Vec::new()));
        Ok(AnnotatedImage { file: path.clone(), image, objects })
    };
    files.par_iter().map(read).collect()
}

/// Finds the XML files of each split. The lists of images decide; then the folders named like a split. Otherwise
/// all files are for training.
fn files_of_splits(root: &Path) -> Result<Splits> {
    let mut splits = Splits::new();
    let whole = xml_files(root)?;
    if let Some(first) = whole.first() {
        let folder = first.parent().unwrap_or(root);
        for (split, name) in Split::all_names() {
            let list = root.join(format!("ImageSets/Main/{name}.txt"));
            if !splits.contains_key(&split) && list.is_file() {
                splits.insert(split, files_of_list(&list, folder)?);
            }
        }
        if splits.is_empty() {
            splits.insert(Split::Train, whole);
        }
        return Ok(splits);
    }
    for (split, part) in folders_of_splits(root) {
        let files = xml_files(&part)?;
        if !files.is_empty() && splits.insert(split, files).is_some() {
            return Err(unusable(root, format!("two folders have a name of the split {split}; leave one")));
        }
    }
    Ok(splits)
}

/// Returns the XML files of the first of the usual folders that has any.
fn xml_files(root: &Path) -> Result<Vec<PathBuf>> {
    for folder in XML_FOLDERS.map(|name| root.join(name)).into_iter().filter(|folder| folder.is_dir()) {
        let files = files_in(&folder, &["xml"])?;
        if !files.is_empty() {
            return Ok(files);
        }
    }
    Ok(Vec::new())
}

/// Returns the files in `folder` that `list` names, one per line and without their extension.
fn files_of_list(list: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let text = String::from_utf8_lossy(&read_limited(list, MAX_LIST_BYTES)?).into_owned();
    let mut files = Vec::new();
    for (line, name) in (1..).zip(text.lines().map(str::trim)).filter(|(_, name)| !name.is_empty()) {
        if !stays_inside(name) {
            let detail = format!("line {line}: {name:?}; give the name of an XML file without .xml");
            return Err(Error::format(list, "a list of images", detail));
        }
        files.push(folder.join(format!("{name}.xml")));
    }
    Ok(files)
}

/// Applies `of` to the root element of an XML file. Returns a defect if the file cannot be used.
fn with_annotation<T>(path: &Path, of: impl FnOnce(Node<'_, '_>) -> Parsed<T>) -> Result<Parsed<T>> {
    let defect = |code, detail: String| Ok(Err(Finding::new(code, detail)));
    if !path.is_file() {
        return defect(DefectCode::BadAnnotation, "listed, but not there".to_owned());
    }
    let text = match read_settings(path) {
        Ok(text) => text,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => return defect(DefectCode::BadAnnotation, error.to_string()),
    };
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    match Document::parse_with_options(&text, options) {
        Ok(document) if document.root_element().has_tag_name("annotation") => Ok(of(document.root_element())),
        Ok(_) => defect(DefectCode::BadAnnotation, "its outermost element is not <annotation>".to_owned()),
        Err(error) => defect(DefectCode::BadAnnotation, format!("no XML: {error}")),
    }
}

fn objects<'a, 'b: 'a>(annotation: Node<'a, 'b>) -> impl Iterator<Item = Node<'a, 'b>> {
    annotation.children().filter(|child| child.has_tag_name("object"))
}

/// Finds the image of an annotation. It has the name of the XML file and lies in one of the usual folders, as readers
/// of VOC assume. Otherwise it is the file that `filename` names, which is often a path on another machine.
fn find_image(root: &Path, xml: &Path, annotation: Node<'_, '_>) -> Parsed<(PathBuf, (usize, usize))> {
    let beside = xml.parent().unwrap_or(root);
    let folders: Vec<PathBuf> = std::iter::once(beside.to_owned())
        .chain(IMAGE_FOLDERS.map(|name| root.join(name)))
        .chain(beside.parent().into_iter().flat_map(|parent| IMAGE_FOLDERS.map(|name| parent.join(name))))
        .collect();
    let written = text(annotation, "filename").filter(|name| stays_inside(name)).map(str::to_owned);
    let own = EXTENSIONS.map(|extension| format!("{}.{extension}", stem(xml)));
    let names = own.into_iter().chain(written);
    let mut candidates = names.flat_map(|name| folders.iter().map(move |folder| folder.join(&name)));
    let path = candidates.find(|path| path.is_file()).ok_or_else(|| {
        let detail = "its image is neither beside it nor in JPEGImages/ or images/".to_owned();
        Finding::new(DefectCode::MissingFile, detail)
    })?;
    let size = annotation.children().find(|child| child.has_tag_name("size"));
    let side = |name| text(size?, name)?.parse::<usize>().ok().filter(|&side| side > 0);
    if let Some(size) = side("width").zip(side("height")) {
        return Ok((path, size));
    }
    let header = read_header(&path).map_err(|error| {
        let detail = format!("no <size> with a width and a height, and the image tells none: {error}");
        Finding::new(DefectCode::BadAnnotation, detail)
    })?;
    Ok((path, (header.width, header.height)))
}

/// Reads an object's name and box, and whether it is difficult. Its parts have names and boxes that are ignored.
fn read_object<'a>(object: Node<'a, '_>) -> Parsed<(&'a str, [f64; 4], bool)> {
    let name = text(object, "name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        Finding::new(DefectCode::BadAnnotation, "an object without <name>; name its class".to_owned())
    })?;
    let bndbox = object.children().find(|child| child.has_tag_name("bndbox"));
    let number = |side| {
        let written = bndbox.and_then(|bndbox| text(bndbox, side));
        let number = written.and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
        number.ok_or_else(|| {
            let found = written.map_or("missing".to_owned(), |text| format!("{text:?}"));
            Finding::new(DefectCode::BadAnnotation, format!("{side} of the <bndbox> of {name:?} is {found}"))
        })
    };
    let pixels = [number("xmin")?, number("ymin")?, number("xmax")?, number("ymax")?];
    Ok((name, pixels, text(object, "difficult") == Some("1")))
}

/// Returns the text of the child element `name`.
fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.has_tag_name(name))?.text().map(str::trim)
}
