//! What is wrong with the records of an annotation file. Who reads the file decides what follows from it: a
//! loader leaves the record out, a check lists all findings.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::file::{AnnotationRecord, CategoryRecord, Field, ImageRecord};
use crate::quarantine::{DefectCode, Finding};

/// A box is absurd when it is this many times larger than its image.
const ABSURD: f64 = 10.;
/// Or when one of its numbers is this large.
const HUGE: f64 = 1e6;
/// How far a box may reach beyond its image, in pixels, and count as rounded.
const ROUNDING: f64 = 1.;
/// How far an area may be from that of the outline or the box.
const AREA_TOLERANCE: f64 = 0.01;

/// The most objects of one image: in training each is compared with every anchor and every proposal.
const MAX_OBJECTS: usize = 10_000;

/// That an image has more objects than are read.
pub(crate) fn crowded(objects: usize) -> Option<Finding> {
    let detail = || format!("{objects} objects, and at most {MAX_OBJECTS} of an image are read");
    (objects > MAX_OBJECTS).then(|| Finding::new(DefectCode::TooManyObjects, detail()))
}

/// Examines the records of one file: first its categories, then its images, then its annotations, each in the
/// file's order.
#[derive(Default)]
pub(crate) struct Examiner {
    categories: HashSet<u64>,
    category_names: HashSet<String>,
    /// Columns and rows of each image whose record tells them, by id.
    sizes: HashMap<u64, Option<(usize, usize)>>,
    file_names: HashSet<String>,
    annotations: HashSet<u64>,
}

impl Examiner {
    /// What is wrong with the next category.
    pub(crate) fn category(&mut self, record: &CategoryRecord) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(&id) = sound(&record.id, &mut found)
            && !self.categories.insert(id)
        {
            found.push(Finding::new(DefectCode::BadCategory, format!("id {id} occurs twice")));
        }
        if let Some(name) = sound(&record.name, &mut found)
            && !self.category_names.insert(name.clone())
        {
            found.push(Finding::new(DefectCode::BadCategory, format!("name {name:?} occurs twice")));
        }
        found
    }

    /// What is wrong with the record of the next image; its file is not looked at.
    pub(crate) fn image(&mut self, record: &ImageRecord) -> Vec<Finding> {
        let mut found = Vec::new();
        let (width, height) = (sound(&record.width, &mut found), sound(&record.height, &mut found));
        let size = width.copied().zip(height.copied());
        if let Some(&id) = sound(&record.id, &mut found) {
            match self.sizes.entry(id) {
                Entry::Occupied(_) => {
                    found.push(Finding::new(DefectCode::DuplicateImageId, id.to_string()));
                }
                Entry::Vacant(place) => drop(place.insert(size)),
            }
        }
        if let Some(name) = sound(&record.file_name, &mut found)
            && !self.file_names.insert(name.clone())
        {
            found.push(Finding::new(DefectCode::DuplicateFileName, name.clone()));
        }
        found
    }

    /// What is wrong with the next annotation, whose outline has the area `outline` in square pixels if it is
    /// known.
    pub(crate) fn annotation<S>(
        &mut self,
        record: &AnnotationRecord<S>,
        outline: Option<f64>,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(&id) = sound(&record.id, &mut found)
            && !self.annotations.insert(id)
        {
            found.push(Finding::new(DefectCode::DuplicateAnnotationId, id.to_string()));
        }
        let image = sound(&record.image_id, &mut found);
        let size = image.and_then(|id| self.sizes.get(id).copied().flatten());
        if let Some(id) = image.filter(|id| !self.sizes.contains_key(id)) {
            found.push(Finding::new(DefectCode::OrphanImage, format!("image_id {id} is not listed")));
        }
        let category = sound(&record.category_id, &mut found);
        if let Some(id) = category.filter(|id| !self.categories.contains(id)) {
            found.push(Finding::new(DefectCode::OrphanCategory, format!("category_id {id} is not listed")));
        }
        let crowd = sound(&record.iscrowd, &mut found).is_some_and(|crowd| *crowd);
        let bbox = sound(&record.bbox, &mut found).copied();
        let misplaced = bbox.and_then(|bbox| misplaced(bbox, size));
        let box_area = bbox.filter(|_| misplaced.is_none()).map(|[_, _, w, h]| w * h);
        found.extend(misplaced);
        if let Some(&Some(area)) = sound(&record.area, &mut found) {
            found.extend(wrong_area(area, outline, box_area, crowd));
        }
        found
    }
}

/// The value of a field; what is wrong with it goes to `found`.
fn sound<'a, T>(field: &'a Field<T>, found: &mut Vec<Finding>) -> Option<&'a T> {
    field.as_ref().map_err(|finding| found.push(Finding::clone(finding))).ok()
}

/// That a box `(x, y, w, h)` has no sides, or is where it cannot be in an image of `size`, columns and rows.
pub(crate) fn misplaced([x, y, w, h]: [f64; 4], size: Option<(usize, usize)>) -> Option<Finding> {
    let fail = |code| {
        let image = size.map_or(String::new(), |(width, height)| format!(" in {width}x{height}"));
        Some(Finding::new(code, format!("[{x}, {y}, {w}, {h}]{image}")))
    };
    // Also a side too small for f32 is empty: nothing could be pooled from it.
    if w <= 0. || h <= 0. || (x + w) as f32 <= x as f32 || (y + h) as f32 <= y as f32 {
        return fail(DefectCode::BoxEmpty);
    }
    if [x, y, w, h].iter().any(|number| number.abs() > HUGE) {
        return fail(DefectCode::BoxTooLarge);
    }
    let (width, height) = size.map(|(width, height)| (width as f64, height as f64))?;
    if w > ABSURD * width || h > ABSURD * height {
        return fail(DefectCode::BoxTooLarge);
    }
    if x >= width || y >= height || x + w <= 0. || y + h <= 0. {
        return fail(DefectCode::BoxOutside);
    }
    if [-x, -y, x + w - width, y + h - height].iter().any(|beyond| *beyond > ROUNDING) {
        return fail(DefectCode::BoxClipped);
    }
    None
}

/// Compares an area with those of the outline and of the box, where they are known. Without an outline it is
/// that of a mask that nobody sees, which is in the box; a crowd's mask is not read.
fn wrong_area(area: f64, outline: Option<f64>, bbox: Option<f64>, crowd: bool) -> Option<Finding> {
    if area <= 0. {
        return Some(Finding::new(DefectCode::BadArea, format!("area is {area}")));
    }
    let agrees = |expected: f64| (area - expected).abs() <= AREA_TOLERANCE * expected.max(area);
    let detail = match (outline, bbox) {
        (Some(outline), _) if !agrees(outline) && !bbox.is_some_and(agrees) => {
            format!("area is {area}, of the outline {outline}")
        }
        (None, Some(bbox)) if area > bbox && !agrees(bbox) => format!("area is {area}, of the box {bbox}"),
        _ => return None,
    };
    (!crowd).then(|| Finding::new(DefectCode::AreaMismatch, detail))
}
