//! Folders in COCO's format: an annotation file for each split, and the images somewhere near it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Split, Splits, folders_of_splits, stem, unusable};
use crate::coco::{AnnotationFile, CocoDataset, LoadOptions, Origin};
use crate::error::{Error, Result};
use crate::files::{files_in, names_in};

/// Number of bytes that are read to recognise an annotation file.
const SNIFFED_BYTES: u64 = 1 << 14;
/// Number of images that are looked up to find their folder.
const PROBED: usize = 16;
/// Largest number of subfolders of one folder that are considered.
const MAX_FOLDERS: usize = 1000;

/// Finds the annotation file of each split.
pub(super) fn find(root: &Path) -> Result<Splits> {
    let mut candidates: BTreeMap<Option<Split>, Vec<PathBuf>> = BTreeMap::new();
    let shared = [root.to_owned(), root.join("annotations")].map(|folder| (None, folder));
    let of_splits = folders_of_splits(root).map(|(split, folder)| (Some(split), folder));
    for (split, folder) in shared.into_iter().chain(of_splits).filter(|(_, folder)| folder.is_dir()) {
        for path in files_in(&folder, &["json"])? {
            if is_annotation_file(&path)? {
                candidates.entry(split.or(Split::of_name(&stem(&path)))).or_default().push(path);
            }
        }
    }
    // A file whose name names no split is the training split, unless another file is.
    let nameless = candidates.remove(&None).filter(|_| !candidates.contains_key(&Some(Split::Train)));
    candidates.extend(nameless.map(|files| (Some(Split::Train), files)));
    let mut found = Splits::new();
    for (split, mut files) in candidates.into_iter().filter_map(|(split, files)| Some((split?, files))) {
        // COCO names its own file `instances_*`, and puts captions and key points beside it.
        if files.iter().filter(|path| stem(path).starts_with("instances")).count() == 1 {
            files.retain(|path| stem(path).starts_with("instances"));
        }
        if files.len() > 1 {
            let names: Vec<String> = files.iter().take(5).map(|path| path.display().to_string()).collect();
            let detail = format!("{} annotation files for {split}: {}", files.len(), names.join(", "));
            return Err(unusable(
                root,
                format!("{detail}; leave one, or give it by name instead of the folder"),
            ));
        }
        found.insert(split, files);
    }
    Ok(found)
}

/// Returns whether a JSON file begins like an annotation file.
fn is_annotation_file(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let read =
        ebm_base::files::open_input(path).and_then(|file| file.take(SNIFFED_BYTES).read_to_end(&mut start));
    read.map_err(|source| Error::io("read", path, source))?;
    let text: String = String::from_utf8_lossy(&start).chars().filter(|c| !c.is_whitespace()).collect();
    // A list of objects; other JSON files have lists of names.
    let holds = |key| ["[{", "[]"].iter().any(|list| text.contains(&format!("\"{key}\":{list}")));
    let is_object = text.trim_start_matches('\u{feff}').starts_with('{');
    Ok(is_object && ["images", "annotations", "categories", "licenses"].into_iter().any(holds))
}

/// Loads the annotation file of a split.
pub(super) fn load(
    root: &Path,
    split: Split,
    annotations: &Path,
    options: &LoadOptions,
) -> Result<CocoDataset> {
    let file = AnnotationFile::read(annotations)?;
    let images = folder_of_images(root, split, annotations, &file)?;
    let origin = Origin { annotations, images: &images, check_files: options.check_files };
    CocoDataset::from_file(file, &origin, options)
}

/// Returns the folder that holds most of a sample of the images; the first such folder on a tie. Not every image
/// has to be there, because a file may be missing.
fn folder_of_images(root: &Path, split: Split, annotations: &Path, file: &AnnotationFile) -> Result<PathBuf> {
    let names: Vec<&String> = file.images.iter().filter_map(|image| image.file_name.as_ref().ok()).collect();
    let step = names.len().div_ceil(PROBED).max(1);
    let beside = annotations.parent().unwrap_or(root);
    let parents = [root, &root.join("images"), beside];
    let mut folders = Vec::new();
    for parent in parents.into_iter().filter(|parent| parent.is_dir()) {
        let entries = names_in(parent)?.into_iter().map(|name| parent.join(name));
        folders.extend(entries.filter(|path| path.is_dir()).take(MAX_FOLDERS));
    }
    folders.sort_by_key(|folder| (Split::of_name(&stem(folder)) != Some(split), folder.clone()));
    let others = folders.iter().map(PathBuf::as_path).chain(parents);
    let present =
        |folder: &Path| names.iter().step_by(step).filter(|name| folder.join(name).is_file()).count();
    let counted = std::iter::once(beside).chain(others).enumerate();
    let best = counted.map(|(place, folder)| (present(folder), Reverse(place), folder)).max();
    match best {
        Some((count, _, folder)) if count > 0 || names.is_empty() => Ok(folder.to_owned()),
        _ => {
            let (file, first) = (annotations.display(), names.first().map_or("", |name| name.as_str()));
            let detail = format!("the images of {file}, such as {first}, are in none of its folders");
            Err(unusable(root, format!("{detail}; put them beside the file, or into images/")))
        }
    }
}
