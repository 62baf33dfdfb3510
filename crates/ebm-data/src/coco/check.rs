//! The check of an annotation file: every record is either sound or in the quarantine.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::schema::{self, Area, Bbox};
use super::{Category, CocoImage, Object};
use crate::files::stays_inside;
use crate::quarantine::{Defect, DefectCode, Quarantine};

/// A box is absurd when it is this many times larger than its image.
const ABSURD: f64 = 10.;

/// What is sound, and what is not.
pub(super) struct Checked {
    pub images: Vec<CocoImage>,
    pub quarantine: Quarantine,
    /// Images, then annotations.
    pub bad_of_total: [(usize, usize); 2],
}

/// A defect's kind and the offending value.
type Finding = (DefectCode, String);

/// Checks all records; images come out by ascending id.
pub(super) fn check(
    raw: schema::File,
    annotations_path: &Path,
    images_dir: &Path,
    categories: &[Category],
    check_files: bool,
) -> Checked {
    let mut quarantine = Quarantine::default();
    let mut record = |sample: String, (code, detail): Finding| {
        quarantine.defects.push(Defect { file: annotations_path.to_owned(), sample, code, detail });
    };
    let totals = [raw.images.len(), raw.annotations.len()];
    let mut bad = [0; 2];

    let mut images = Vec::with_capacity(raw.images.len());
    let mut names = HashSet::new();
    // `None`: listed but defective, so that its annotations are no orphans.
    let mut index_of: HashMap<u64, Option<usize>> = HashMap::new();
    for (position, image) in raw.images.iter().enumerate() {
        let id = image.id.as_u64();
        let outcome = check_image(image, images_dir, check_files).and_then(|image| {
            if index_of.contains_key(&image.id) {
                Err((DefectCode::DuplicateImageId, image.file_name))
            } else if !names.insert(image.file_name.clone()) {
                Err((DefectCode::DuplicateFileName, image.file_name))
            } else {
                Ok(image)
            }
        });
        match outcome {
            Ok(image) => {
                index_of.insert(image.id, Some(images.len()));
                images.push(image);
            }
            Err(finding) => {
                bad[0] += 1;
                if let Some(id) = id {
                    index_of.entry(id).or_insert(None);
                }
                record(sample_name("image", "images", id, position), finding);
            }
        }
    }

    let mut ids = HashSet::new();
    for (position, annotation) in raw.annotations.iter().enumerate() {
        let image = match annotation.image_id.and_then(|id| index_of.get(&id)) {
            Some(None) => continue, // Left out with its image, which is in the quarantine.
            Some(Some(index)) => images.get_mut(*index),
            None => None,
        };
        match check_annotation(annotation, image.as_deref(), categories, &mut ids) {
            Ok(object) => image.into_iter().for_each(|image| image.objects.push(object.clone())),
            Err(finding) => {
                bad[1] += 1;
                record(sample_name("annotation", "annotations", annotation.id, position), finding);
            }
        }
    }
    images.sort_by_key(|image| image.id);
    Checked { images, quarantine, bad_of_total: [(bad[0], totals[0]), (bad[1], totals[1])] }
}

fn sample_name(kind: &str, array: &str, id: Option<u64>, position: usize) -> String {
    match id {
        Some(id) => format!("{kind} {id}"),
        None => format!("{array}[{position}]"),
    }
}

fn check_image(raw: &schema::Image, images_dir: &Path, check_files: bool) -> Result<CocoImage, Finding> {
    let id = raw.id.as_u64().ok_or_else(|| (DefectCode::BadId, schema::shorten(&raw.id).into()))?;
    let file_name = raw
        .file_name
        .as_str()
        .filter(|name| stays_inside(name))
        .ok_or_else(|| (DefectCode::BadFileName, schema::shorten(&raw.file_name).into()))?;
    let side = |value: &serde_json::Value| {
        let side = value.as_u64().and_then(|side| usize::try_from(side).ok()).filter(|&side| side > 0);
        side.ok_or_else(|| {
            let (width, height) = (schema::shorten(&raw.width), schema::shorten(&raw.height));
            (DefectCode::BadImageSize, format!("width {width}, height {height}"))
        })
    };
    let (width, height) = (side(&raw.width)?, side(&raw.height)?);
    let path = images_dir.join(file_name);
    if check_files && !path.is_file() {
        return Err((DefectCode::MissingFile, path.display().to_string()));
    }
    Ok(CocoImage { id, file_name: file_name.to_owned(), path, width, height, objects: Vec::new() })
}

fn check_annotation(
    raw: &schema::Annotation,
    image: Option<&CocoImage>,
    categories: &[Category],
    ids: &mut HashSet<u64>,
) -> Result<Object, Finding> {
    let annotation_id =
        raw.id.ok_or_else(|| (DefectCode::BadId, "id is no non-negative integer".to_owned()))?;
    if !ids.insert(annotation_id) {
        return Err((DefectCode::DuplicateAnnotationId, annotation_id.to_string()));
    }
    let image = image.ok_or_else(|| (DefectCode::OrphanImage, describe("image_id", raw.image_id)))?;
    let label = raw
        .category_id
        .and_then(|id| super::categories::label(categories, id))
        .ok_or_else(|| (DefectCode::OrphanCategory, describe("category_id", raw.category_id)))?;
    let iscrowd =
        raw.iscrowd.ok_or_else(|| (DefectCode::BadCrowdFlag, "iscrowd is neither 0 nor 1".to_owned()))?;
    let (bbox, box_area) = check_bbox(&raw.bbox, image)?;
    let area = match &raw.area {
        Area::Absent => box_area,
        Area::Number(area) if area.is_finite() && *area >= 0. => *area,
        Area::Number(area) => return Err((DefectCode::BadArea, area.to_string())),
        Area::Malformed(text) => return Err((DefectCode::BadArea, text.to_string())),
    };
    Ok(Object { annotation_id, bbox, label, area, iscrowd })
}

fn describe(key: &str, id: Option<u64>) -> String {
    match id {
        Some(id) => format!("{key} {id} is not listed"),
        None => format!("{key} is no non-negative integer"),
    }
}

/// `(x, y, w, h)` to `(x0, y0, x1, y1)`, and the area.
fn check_bbox(bbox: &Bbox, image: &CocoImage) -> Result<([f32; 4], f64), Finding> {
    let [x, y, w, h] = match bbox {
        Bbox::Numbers(numbers) => *numbers,
        Bbox::NotFinite(text) => return Err((DefectCode::BoxNotFinite, text.to_string())),
        Bbox::Malformed(text) => return Err((DefectCode::BoxArity, text.to_string())),
    };
    let text = || format!("[{x}, {y}, {w}, {h}] in {}x{}", image.width, image.height);
    let corners = [x as f32, y as f32, (x + w) as f32, (y + h) as f32];
    if !corners.iter().all(|corner| corner.is_finite()) {
        return Err((DefectCode::BoxNotFinite, text()));
    }
    let [x0, y0, x1, y1] = corners;
    // Also a side too small for f32 is empty: nothing could be pooled from it.
    if w <= 0. || h <= 0. || x1 <= x0 || y1 <= y0 {
        return Err((DefectCode::BoxEmpty, text()));
    }
    let (width, height) = (image.width as f64, image.height as f64);
    if x >= width || y >= height || x + w <= 0. || y + h <= 0. {
        return Err((DefectCode::BoxOutside, text()));
    }
    if w > ABSURD * width || h > ABSURD * height {
        return Err((DefectCode::BoxTooLarge, text()));
    }
    Ok((corners, w * h))
}
