//! Selection of the valid records of an annotation file. Every other record goes into the quarantine.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::file::{AnnotationFile, AnnotationRecord, Field, ImageRecord};
use super::{Category, CocoImage, Object, categories};
use crate::quarantine::{DefectCode, Finding, Quarantine};

/// Factor by which a box may be larger than its image; a larger box is a defect.
const ABSURD: f64 = 10.;
/// Largest absolute value of a number of a box; a larger one is a defect.
const HUGE: f64 = 1e6;
/// Largest number of objects of one image. In training each object is compared with every anchor and every proposal.
const MAX_OBJECTS: usize = 10_000;

/// Number of boxes with a side of 0 that are no reason to stop, or a hundredth of all: COCO's train2017 has two.
const FLAT: usize = 2;

/// Valid images, and the defects of the others.
pub(super) struct ValidRecords {
    /// Images by ascending id.
    pub images: Vec<CocoImage>,
    pub quarantine: Quarantine,
    /// Defective records and all records: of the images, then of the annotations.
    pub bad_of_total: [(usize, usize); 2],
}

/// Paths of the annotation file and of the folder of the images.
pub(crate) struct Origin<'a> {
    pub annotations: &'a Path,
    pub images: &'a Path,
    /// Whether each image file must exist.
    pub check_files: bool,
}

/// Separates the valid records of `file` from the defective ones. The `categories` are the categories of `file`.
pub(super) fn keep_valid(file: AnnotationFile, origin: &Origin<'_>, categories: &[Category]) -> ValidRecords {
    let annotations = file.annotations.unwrap_or_default();
    let totals = [file.images.len(), annotations.len()];
    let (mut quarantine, mut bad, mut flat) = (Quarantine::default(), [0; 2], 0);
    // `image 9`, or `images[3]` where the id is of no use.
    let mut record = |kind: usize, id: &Field<u64>, position: usize, finding: Finding| {
        bad[kind] += 1;
        let name = ["image", "annotation"][kind];
        let sample = id.as_ref().map_or_else(|_| format!("{name}s[{position}]"), |id| format!("{name} {id}"));
        quarantine.defects.push(finding.in_sample(origin.annotations, sample));
    };

    let mut images: Vec<CocoImage> = Vec::with_capacity(totals[0]);
    // `None`: the image is listed but left out, and so are its annotations.
    let mut index_of: HashMap<u64, Option<usize>> = HashMap::new();
    let mut file_names = HashSet::new();
    for (position, image) in file.images.into_iter().enumerate() {
        let id = image.id.clone();
        let is_duplicate = id.as_ref().is_ok_and(|id| index_of.contains_key(id))
            || image.file_name.as_ref().is_ok_and(|name| !file_names.insert(name.clone()));
        let index = match valid_image(image, is_duplicate, origin) {
            Ok(image) => {
                images.push(image);
                Some(images.len() - 1)
            }
            Err(finding) => {
                record(0, &id, position, *finding);
                None
            }
        };
        if let Ok(id) = id {
            index_of.entry(id).or_insert(index);
        }
    }
    let mut ids = HashSet::new();
    for (position, annotation) in annotations.into_iter().enumerate() {
        let id = annotation.id.clone();
        let is_duplicate = id.as_ref().is_ok_and(|id| !ids.insert(*id));
        let is_flat = annotation.bbox.as_ref().is_ok_and(|[.., w, h]| *w == 0. || *h == 0.);
        let index = annotation.image_id.as_ref().ok().and_then(|id| index_of.get(id).copied());
        // Left out with its image, which is in the quarantine already.
        if index == Some(None) {
            continue;
        }
        let image = index.flatten().and_then(|index| images.get_mut(index));
        match valid_object(annotation, is_duplicate, image, categories) {
            Ok((image, object)) => image.objects.push(object),
            Err(finding) => {
                flat += usize::from(is_flat);
                record(1, &id, position, *finding);
            }
        }
    }
    images.retain(|image| {
        let count = image.objects.len();
        if count > MAX_OBJECTS {
            let detail = format!("{count} objects; at most {MAX_OBJECTS} of an image are read");
            record(0, &Ok(image.id), 0, Finding::new(DefectCode::BadAnnotation, detail));
        }
        count <= MAX_OBJECTS
    });
    images.sort_by_key(|image| image.id);
    if flat <= FLAT.max(totals[1] / 100) {
        bad[1] -= flat;
    }
    ValidRecords { images, quarantine, bad_of_total: [(bad[0], totals[0]), (bad[1], totals[1])] }
}

/// Checks one image. `is_duplicate` says that another image has its id or its file.
fn valid_image(record: ImageRecord, is_duplicate: bool, origin: &Origin<'_>) -> Field<CocoImage> {
    let (width, height, id, file_name) = (record.width?, record.height?, record.id?, record.file_name?);
    if is_duplicate {
        return fail(
            DefectCode::DuplicateId,
            format!("another image has the id {id} or the file {file_name}"),
        );
    }
    let path = origin.images.join(&file_name);
    if origin.check_files && !path.is_file() {
        return fail(DefectCode::MissingFile, path.display().to_string());
    }
    Ok(CocoImage { id, file_name, path, width, height, objects: Vec::new() })
}

/// Checks one annotation and returns its image and its object. The box `(x, y, w, h)` becomes `(x0, y0, x1, y1)`.
/// Without an annotated area the object has the area of its box.
fn valid_object<'a>(
    record: AnnotationRecord,
    is_duplicate: bool,
    image: Option<&'a mut CocoImage>,
    categories: &[Category],
) -> Field<(&'a mut CocoImage, Object)> {
    let (annotation_id, image_id, category_id) = (record.id?, record.image_id?, record.category_id?);
    if is_duplicate {
        return fail(DefectCode::DuplicateId, format!("another annotation has the id {annotation_id}"));
    }
    let Some(image) = image else {
        return fail(DefectCode::UnknownImage, format!("image_id {image_id} is not listed"));
    };
    let Some(label) = categories::label(categories, category_id) else {
        return fail(DefectCode::UnknownCategory, format!("category_id {category_id} is not listed"));
    };
    let (iscrowd, bbox @ [x, y, w, h], area) = (record.iscrowd?, record.bbox?, record.area?);
    if let Some(finding) = box_defect(bbox, (image.width, image.height)) {
        return Err(Box::new(finding));
    }
    // The area of a mask that covers no whole pixel is 0.
    if let Some(area) = area.filter(|area| *area < 0.) {
        return fail(DefectCode::BadAnnotation, format!("area is {area}"));
    }
    let bbox = [x as f32, y as f32, (x + w) as f32, (y + h) as f32];
    Ok((image, Object { annotation_id, bbox, label, area: area.unwrap_or(w * h), iscrowd }))
}

fn fail<T>(code: DefectCode, detail: String) -> Field<T> {
    Err(Box::new(Finding::new(code, detail)))
}

/// Returns a defect if the box `(x, y, w, h)` is empty, absurdly large, or wholly outside an image of `size`
/// (columns, rows). A part of the box may be outside.
pub(crate) fn box_defect([x, y, w, h]: [f64; 4], size: (usize, usize)) -> Option<Finding> {
    let (width, height) = (size.0 as f64, size.1 as f64);
    // A side too small for f32 is empty too: nothing could be pooled from it.
    let empty = w <= 0. || h <= 0. || (x + w) as f32 <= x as f32 || (y + h) as f32 <= y as f32;
    let absurd = w > ABSURD * width || h > ABSURD * height || [x, y, w, h].iter().any(|n| n.abs() > HUGE);
    let outside = x >= width || y >= height || x + w <= 0. || y + h <= 0.;
    let detail = || format!("[{x}, {y}, {w}, {h}] in {width}x{height}");
    (empty || absurd || outside).then(|| Finding::new(DefectCode::BadBox, detail()))
}
