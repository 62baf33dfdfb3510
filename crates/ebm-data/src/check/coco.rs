//! Annotation files in COCO's format and their images.

use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;

use super::outline::Outline;
use super::{CheckOptions, Checked, photo};
use crate::coco::{ANNOTATION, AnnotationFile, CATEGORY, Examiner, IMAGE, ImageRecord, crowded, sample_name};
use crate::error::Result;
use crate::quarantine::{DefectCode, Finding};

/// The largest annotation file, in bytes.
const MAX_JSON_BYTES: u64 = 2 << 30;

/// Checks the annotation file `annotations` of the images in `images`: all fields of all records, and all
/// images.
///
/// # Errors
/// [`Error::Io`], [`Error::FileTooLarge`], and [`Error::Json`] for what has not the outline of an annotation
/// file.
pub fn coco(annotations: &Path, images: &Path, options: &CheckOptions) -> Result<Checked> {
    let file = AnnotationFile::<Outline>::read(annotations, MAX_JSON_BYTES)?;
    let objects = file.annotations.unwrap_or_default();
    let mut checked = Checked { samples: file.images.len() + objects.len(), ..Checked::default() };
    let mut examiner = Examiner::default();
    let mut record = |sample: String, findings: Vec<Finding>| {
        findings.into_iter().for_each(|finding| checked.record(annotations, &sample, finding));
    };

    for (position, category) in file.categories.iter().enumerate() {
        record(sample_name(CATEGORY, &category.id, position), examiner.category(category));
    }
    let found: Vec<Vec<Finding>> = file.images.iter().map(|image| examiner.image(image)).collect();
    let of_files: Vec<Result<Vec<Finding>>> = file
        .images
        .par_iter()
        .zip(&found)
        .map(|(image, found)| check_file(image, found, images, options))
        .collect();
    let mut objects_of: HashMap<u64, usize> = HashMap::new();
    for id in objects.iter().filter_map(|object| object.image_id.as_ref().ok()) {
        *objects_of.entry(*id).or_default() += 1;
    }
    for (position, (image, (mut findings, of_file))) in
        file.images.iter().zip(found.into_iter().zip(of_files)).enumerate()
    {
        findings.extend(of_file?);
        let count = image.id.as_ref().ok().and_then(|id| objects_of.get(id));
        findings.extend(count.and_then(|&count| crowded(count)));
        record(sample_name(IMAGE, &image.id, position), findings);
    }
    for (position, object) in objects.iter().enumerate() {
        let findings = examiner.annotation(object, object.segmentation.0);
        record(sample_name(ANNOTATION, &object.id, position), findings);
    }
    Ok(checked)
}

/// What is wrong with an image's file, unless its name tells none or another image has it.
fn check_file(
    image: &ImageRecord,
    found: &[Finding],
    folder: &Path,
    options: &CheckOptions,
) -> Result<Vec<Finding>> {
    let is_again = found.iter().any(|finding| finding.code == DefectCode::DuplicateFileName);
    let Some(name) = image.file_name.as_ref().ok().filter(|_| !is_again) else { return Ok(Vec::new()) };
    let size = image.width.as_ref().ok().copied().zip(image.height.as_ref().ok().copied());
    photo::check(&folder.join(name), size, options.decode)
}
