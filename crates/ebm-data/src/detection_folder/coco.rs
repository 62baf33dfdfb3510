//! COCO's form: an annotation file for each split, and images somewhere near it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Split, folders_of_splits, stem, unusable};
use crate::coco::{AnnotationFile, CocoDataset, LoadOptions, Origin};
use crate::error::{Error, Result};
use crate::files::files_in;

/// How much of a file is read to see whether it is an annotation file.
const SNIFFED_BYTES: u64 = 1 << 14;
/// How many images are looked for to find out where they are.
const PROBED: usize = 16;
/// Subfolders that are considered.
const MAX_FOLDERS: usize = 1000;

/// The annotation file of each split, if there is any.
pub(super) fn find(root: &Path) -> Result<Option<BTreeMap<Split, PathBuf>>> {
    let mut candidates: BTreeMap<Option<Split>, Vec<PathBuf>> = BTreeMap::new();
    let shared = [root.to_owned(), root.join("annotations"), root.join("Annotations")];
    let folders = shared.into_iter().map(|folder| (None, folder));
    let of_splits = folders_of_splits(root).map(|(split, folder)| (Some(split), folder));
    let mut seen = Vec::new();
    for (split, folder) in folders.chain(of_splits).filter(|(_, folder)| folder.is_dir()) {
        // On some systems two names are one folder.
        let folder = fs::canonicalize(&folder).map_err(|source| Error::io("read", &folder, source))?;
        if seen.contains(&folder) {
            continue;
        }
        for name in files_in(&folder, &["json"])? {
            let path = folder.join(name);
            if is_annotation_file(&path)? {
                candidates.entry(split.or(Split::of_name(&stem(&path)))).or_default().push(path);
            }
        }
        seen.push(folder);
    }
    // A file whose name tells nothing is all there is, unless one for training is told.
    let nameless = candidates.remove(&None).filter(|_| !candidates.contains_key(&Some(Split::Train)));
    candidates.extend(nameless.map(|files| (Some(Split::Train), files)));
    let mut found = BTreeMap::new();
    for (split, files) in candidates.into_iter().filter_map(|(split, files)| Some((split?, files))) {
        found.insert(split, the_one(root, split, files)?);
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

/// The one file of a split; beside captions and key points COCO's own has `instances` in its name.
fn the_one(root: &Path, split: Split, mut files: Vec<PathBuf>) -> Result<PathBuf> {
    if files.len() > 1 && files.iter().filter(|path| stem(path).starts_with("instances")).count() == 1 {
        files.retain(|path| stem(path).starts_with("instances"));
    }
    match <[PathBuf; 1]>::try_from(files) {
        Ok([path]) => Ok(path),
        Err(files) => {
            let names: Vec<String> = files.iter().take(5).map(|path| path.display().to_string()).collect();
            let detail = format!("{} annotation files for {split}: {}", files.len(), names.join(", "));
            Err(unusable(root, format!("{detail}; leave one, or give it by name instead of the folder")))
        }
    }
}

/// Whether a JSON file begins as an annotation file does.
fn is_annotation_file(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let read = ebm_files::open_input(path).and_then(|file| file.take(SNIFFED_BYTES).read_to_end(&mut start));
    read.map_err(|source| Error::io("read", path, source))?;
    let text = String::from_utf8_lossy(&start);
    let holds = |key: &str| {
        let after =
            text.split_once(&format!("\"{key}\"")).and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
        // Lists of objects, and one object of facts.
        let value: String =
            after.unwrap_or_default().chars().filter(|c| !c.is_whitespace()).take(2).collect();
        value == "[{" || value == "[]" || key == "info" && value.starts_with('{')
    };
    let mut keys = ["images", "annotations", "categories", "licenses", "info"].into_iter();
    Ok(text.trim_start_matches('\u{feff}').trim_start().starts_with('{') && keys.any(holds))
}

/// Loads the annotation file of a split.
pub(super) fn load(
    root: &Path,
    split: Split,
    annotations: &Path,
    options: &LoadOptions,
) -> Result<CocoDataset> {
    let file = AnnotationFile::read(annotations, options.max_json_bytes)?;
    let images = folder_of_images(root, split, annotations, &file)?;
    let origin = Origin { annotations, images: &images, check_files: options.check_files };
    CocoDataset::from_file(file, &origin, options)
}

/// The first folder that has most of a few of the images: a file may be lost.
fn folder_of_images(root: &Path, split: Split, annotations: &Path, file: &AnnotationFile) -> Result<PathBuf> {
    let names: Vec<&String> = file.images.iter().filter_map(|image| image.file_name.as_ref().ok()).collect();
    let step = names.len().div_ceil(PROBED).max(1);
    let beside = annotations.parent().unwrap_or(root);
    let mut folders = vec![beside.to_owned()];
    let mut others = Vec::new();
    for parent in [root, &root.join("images"), beside] {
        let (own, rest): (Vec<_>, Vec<_>) =
            subfolders(parent)?.into_iter().partition(|folder| Split::of_name(&stem(folder)) == Some(split));
        folders.extend(own);
        others.push(parent.to_owned());
        others.extend(rest);
    }
    folders.extend(others);
    let present = |folder: &PathBuf| {
        names.iter().step_by(step).filter(|name| folder.join(name.as_str()).is_file()).count()
    };
    let mut best = (0, beside.to_owned());
    for folder in folders {
        let count = present(&folder);
        if count > best.0 {
            best = (count, folder);
        }
    }
    if best.0 == 0 && !names.is_empty() {
        let detail = format!(
            "the images of {}, such as {}, are in none of its folders; put them beside the file, or into images/",
            annotations.display(),
            names[0]
        );
        return Err(unusable(root, detail));
    }
    Ok(best.1)
}

fn subfolders(parent: &Path) -> Result<Vec<PathBuf>> {
    if !parent.is_dir() {
        return Ok(Vec::new());
    }
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(parent)? {
            let path = entry?.path();
            if folders.len() < MAX_FOLDERS && path.is_dir() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    };
    list().map_err(|source| Error::io("list", parent, source))
}
