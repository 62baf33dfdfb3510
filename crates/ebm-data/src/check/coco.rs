//! Annotation files in COCO's format and their images.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;
use serde_json::Value;

use super::coco_record::{Annotation, File, Image, without_non_finite};
use super::{CheckOptions, Checked, Finding, photo};
use crate::error::{Error, Result};
use crate::files::{read_limited, stays_inside};
use crate::quarantine::DefectCode;

/// The largest annotation file, in bytes.
const MAX_JSON_BYTES: u64 = 2 << 30;
/// A box is absurd when it is this many times larger than its image.
const ABSURD: f64 = 10.;
/// Or when one of its numbers is this large.
const HUGE: f64 = 1e6;
/// How far a box may reach beyond its image, in pixels, and count as rounded.
const ROUNDING: f64 = 1.;
/// How far an area may be from that of the outline or the box.
const AREA_TOLERANCE: f64 = 0.01;

/// Checks the annotation file `annotations` of the images in `images`: all fields of all records, and all images.
///
/// NaN and infinities as Python writes them are read, and found defective where they stand.
///
/// # Errors
/// [`Error::Io`], [`Error::FileTooLarge`], and [`Error::Json`] for what has not the outline of an annotation file.
pub fn coco(annotations: &Path, images: &Path, options: &CheckOptions) -> Result<Checked> {
    let bytes = read_limited(annotations, MAX_JSON_BYTES)?;
    let parsed = serde_json::from_slice::<File>(&bytes)
        .or_else(|error| serde_json::from_slice(&without_non_finite(&bytes)).map_err(|_| error));
    drop(bytes);
    let file =
        parsed.map_err(|error| Error::Json { path: annotations.to_owned(), detail: error.to_string() })?;
    let samples = file.images.len() + file.annotations.len();
    let mut checked = Checked { samples, ..Checked::default() };

    let mut categories = HashSet::new();
    let mut names = HashSet::new();
    for (position, category) in file.categories.iter().enumerate() {
        let sample = sample_name("category", "categories", &category.id, position);
        let mut found = Vec::new();
        if let Some(id) = integer("id", &category.id, DefectCode::BadCategory, &mut found)
            && !categories.insert(id)
        {
            found.push((DefectCode::BadCategory, format!("id {id} occurs twice")));
        }
        match category.name.as_str() {
            Some(name) if names.insert(name) => {}
            Some(name) => found.push((DefectCode::BadCategory, format!("name {name:?} occurs twice"))),
            None => found.push((DefectCode::BadCategory, format!("name is {}", shorten(&category.name)))),
        }
        found.into_iter().for_each(|finding| checked.record(annotations, &sample, finding));
    }

    let sizes = check_images(&file.images, annotations, images, options, &mut checked)?;
    let mut ids = HashSet::new();
    for (position, annotation) in file.annotations.iter().enumerate() {
        let sample = sample_name("annotation", "annotations", &annotation.id, position);
        let mut found = Vec::new();
        if let Some(id) = integer("id", &annotation.id, DefectCode::BadId, &mut found)
            && !ids.insert(id)
        {
            found.push((DefectCode::DuplicateAnnotationId, id.to_string()));
        }
        check_annotation(annotation, &sizes, &categories, &mut found);
        found.into_iter().for_each(|finding| checked.record(annotations, &sample, finding));
    }
    Ok(checked)
}

/// Columns and rows of each image whose record tells them, by id.
type Sizes = HashMap<u64, Option<(usize, usize)>>;

fn check_images(
    records: &[Image],
    annotations: &Path,
    folder: &Path,
    options: &CheckOptions,
    checked: &mut Checked,
) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    let mut names = HashSet::new();
    let mut found: Vec<Vec<Finding>> = Vec::with_capacity(records.len());
    let mut files = Vec::with_capacity(records.len());
    for image in records {
        let mut own = Vec::new();
        let mut side = |name, value: &Value| {
            let side = integer(name, value, DefectCode::BadImageSize, &mut own)?;
            let valid = usize::try_from(side).ok().filter(|&side| side > 0);
            if valid.is_none() {
                own.push((DefectCode::BadImageSize, format!("{name} is {side}")));
            }
            valid
        };
        let size = side("width", &image.width).zip(side("height", &image.height));
        if let Some(id) = integer("id", &image.id, DefectCode::BadId, &mut own) {
            match sizes.entry(id) {
                Entry::Occupied(_) => own.push((DefectCode::DuplicateImageId, id.to_string())),
                Entry::Vacant(place) => drop(place.insert(size)),
            }
        }
        match image.file_name.as_str().filter(|name| stays_inside(name)) {
            None => own.push((DefectCode::BadFileName, shorten(&image.file_name))),
            Some(name) if names.insert(name) => files.push((found.len(), folder.join(name), size)),
            Some(name) => own.push((DefectCode::DuplicateFileName, name.to_owned())),
        }
        found.push(own);
    }
    let looked_at: Vec<(usize, Result<Vec<Finding>>)> = files
        .par_iter()
        .map(|(index, path, size)| (*index, photo::check(path, *size, options.decode)))
        .collect();
    for (index, findings) in looked_at {
        found[index].extend(findings?);
    }
    for (position, (image, findings)) in records.iter().zip(found).enumerate() {
        let sample = sample_name("image", "images", &image.id, position);
        findings.into_iter().for_each(|finding| checked.record(annotations, &sample, finding));
    }
    Ok(sizes)
}

fn check_annotation(
    annotation: &Annotation,
    sizes: &Sizes,
    categories: &HashSet<u64>,
    found: &mut Vec<Finding>,
) {
    let image = integer("image_id", &annotation.image_id, DefectCode::BadId, found);
    let size = image.and_then(|id| sizes.get(&id).copied().flatten());
    if let Some(id) = image.filter(|id| !sizes.contains_key(id)) {
        found.push((DefectCode::OrphanImage, format!("image_id {id} is not listed")));
    }
    let category = integer("category_id", &annotation.category_id, DefectCode::BadId, found);
    if let Some(id) = category.filter(|id| !categories.contains(id)) {
        found.push((DefectCode::OrphanCategory, format!("category_id {id} is not listed")));
    }
    let crowd = match &annotation.iscrowd {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        other => match integer("iscrowd", other, DefectCode::BadCrowdFlag, found) {
            None | Some(0) => false,
            Some(1) => true,
            Some(flag) => {
                found.push((DefectCode::BadCrowdFlag, format!("iscrowd is {flag}")));
                false
            }
        },
    };
    let bbox = numbers(&annotation.bbox, found);
    let box_is_sound = bbox.is_some_and(|bbox| check_bbox(bbox, size, found));
    if !annotation.area.is_null() {
        let box_area = bbox.filter(|_| box_is_sound).map(|[_, _, w, h]| w * h);
        check_area(&annotation.area, (annotation.segmentation.0, box_area), crowd, found);
    }
}

/// Four finite numbers.
fn numbers(bbox: &Value, found: &mut Vec<Finding>) -> Option<[f64; 4]> {
    let finding = |code| (code, format!("bbox is {}", shorten(bbox)));
    let Some(entries) = bbox.as_array().filter(|entries| entries.len() == 4) else {
        found.push(finding(DefectCode::BoxArity));
        return None;
    };
    let mut numbers = [0.; 4];
    for (number, entry) in numbers.iter_mut().zip(entries) {
        let text = entry.as_str().and_then(|text| text.trim().parse::<f64>().ok());
        *number = match (entry.as_f64(), text) {
            (Some(number), _) => number,
            (None, Some(number)) if number.is_finite() => {
                found.push(finding(DefectCode::StringNumber));
                return None;
            }
            // JSON has no NaN; writers put null or a word in its place.
            (None, Some(_)) => f64::NAN,
            (None, None) if entry.is_null() => f64::NAN,
            (None, None) => {
                found.push(finding(DefectCode::BoxArity));
                return None;
            }
        };
    }
    if numbers.iter().all(|number| number.is_finite()) {
        return Some(numbers);
    }
    found.push(finding(DefectCode::BoxNotFinite));
    None
}

/// Whether a box has sides and is where it can be.
fn check_bbox([x, y, w, h]: [f64; 4], size: Option<(usize, usize)>, found: &mut Vec<Finding>) -> bool {
    let mut fail = |code| {
        let image = size.map_or(String::new(), |(width, height)| format!(" in {width}x{height}"));
        found.push((code, format!("[{x}, {y}, {w}, {h}]{image}")));
        false
    };
    if w <= 0. || h <= 0. {
        return fail(DefectCode::BoxEmpty);
    }
    if [x, y, w, h].iter().any(|number| number.abs() > HUGE) {
        return fail(DefectCode::BoxTooLarge);
    }
    let Some((width, height)) = size.map(|(width, height)| (width as f64, height as f64)) else {
        return true;
    };
    if w > ABSURD * width || h > ABSURD * height {
        return fail(DefectCode::BoxTooLarge);
    }
    if x >= width || y >= height || x + w <= 0. || y + h <= 0. {
        return fail(DefectCode::BoxOutside);
    }
    if [-x, -y, x + w - width, y + h - height].iter().any(|beyond| *beyond > ROUNDING) {
        return fail(DefectCode::BoxClipped);
    }
    true
}

/// Compares an area with those of the outline and of the box, where they are known. Without an outline it is that of a mask
/// that nobody sees, which is in the box; a crowd's mask is not read.
fn check_area(
    value: &Value,
    (outline, bbox): (Option<f64>, Option<f64>),
    crowd: bool,
    found: &mut Vec<Finding>,
) {
    let area = match (value.as_f64(), value.as_str().map(|text| text.trim().parse::<f64>())) {
        (Some(area), _) => area,
        (None, Some(Ok(_))) => {
            return found.push((DefectCode::StringNumber, format!("area is {}", shorten(value))));
        }
        _ => return found.push((DefectCode::BadArea, format!("area is {}", shorten(value)))),
    };
    if !(area > 0. && area.is_finite()) {
        return found.push((DefectCode::BadArea, format!("area is {area}")));
    }
    let agrees = |expected: f64| (area - expected).abs() <= AREA_TOLERANCE * expected.max(area);
    let detail = match (outline, bbox) {
        (Some(outline), _) if !agrees(outline) && !bbox.is_some_and(agrees) => {
            format!("area is {area}, of the outline {outline}")
        }
        (None, Some(bbox)) if area > bbox && !agrees(bbox) => format!("area is {area}, of the box {bbox}"),
        _ => return,
    };
    if !crowd {
        found.push((DefectCode::AreaMismatch, detail));
    }
}

/// A non-negative integer, or a finding: `code`, or that it is text.
fn integer(name: &str, value: &Value, code: DefectCode, found: &mut Vec<Finding>) -> Option<u64> {
    let number = value.as_u64();
    if number.is_none() {
        let is_text = value.as_str().is_some_and(|text| text.trim().parse::<f64>().is_ok());
        let code = if is_text { DefectCode::StringNumber } else { code };
        found.push((code, format!("{name} is {}", shorten(value))));
    }
    number
}

fn sample_name(kind: &str, array: &str, id: &Value, position: usize) -> String {
    match id.as_u64() {
        Some(id) => format!("{kind} {id}"),
        None => format!("{array}[{position}]"),
    }
}

/// A value in at most 80 characters.
fn shorten(value: &Value) -> String {
    crate::coco::shorten(value).into()
}
