//! The records that a loader keeps: each is either sound or in the quarantine.

use std::collections::HashMap;
use std::path::Path;

use super::examine::Examiner;
use super::file::{ANNOTATION, AnnotationFile, AnnotationRecord, IMAGE, ImageRecord, sample_name};
use super::{Category, CocoImage, Object, categories};
use crate::quarantine::{DefectCode, Finding, Quarantine};

/// What is sound, and what is not.
pub(super) struct Sound {
    /// By ascending id.
    pub images: Vec<CocoImage>,
    pub quarantine: Quarantine,
    /// Images, then annotations.
    pub bad_of_total: [(usize, usize); 2],
}

/// Where the records are from, and where their images are.
pub(crate) struct Origin<'a> {
    pub annotations: &'a Path,
    pub images: &'a Path,
    /// Whether each image file must exist.
    pub check_files: bool,
}

/// Keeps what is sound of `file`, whose categories `examiner` has seen and `categories` are.
pub(super) fn keep_sound(
    file: AnnotationFile,
    origin: &Origin<'_>,
    categories: &[Category],
    mut examiner: Examiner,
) -> Sound {
    let annotations = file.annotations.unwrap_or_default();
    let totals = [file.images.len(), annotations.len()];
    let mut quarantine = Quarantine::default();
    let mut record = |sample: String, finding: Finding| {
        quarantine.defects.push(finding.in_sample(origin.annotations, sample));
    };
    let mut bad = [0; 2];

    let mut images = Vec::with_capacity(totals[0]);
    // `None`: listed but left out, and so are its annotations.
    let mut index_of: HashMap<u64, Option<usize>> = HashMap::new();
    for (position, image) in file.images.into_iter().enumerate() {
        let (sample, id) = (sample_name(IMAGE, &image.id, position), image.id.clone());
        let index = match sound_image(image, origin, &mut examiner) {
            Ok(image) => {
                images.push(image);
                Some(images.len() - 1)
            }
            Err(finding) => {
                bad[0] += 1;
                record(sample, finding);
                None
            }
        };
        if let Ok(id) = id {
            index_of.entry(id).or_insert(index);
        }
    }
    for (position, annotation) in annotations.into_iter().enumerate() {
        let index = annotation.image_id.as_ref().ok().and_then(|id| index_of.get(id).copied());
        let finding = examiner.annotation(&annotation, None).into_iter().find(|f| matters(f, &annotation));
        match (index, finding) {
            // Left out with its image, which is in the quarantine.
            (Some(None), _) => {}
            (_, Some(finding)) => {
                bad[1] += 1;
                record(sample_name(ANNOTATION, &annotation.id, position), finding);
            }
            (index, None) => {
                if let Some(image) = index.flatten().and_then(|index: usize| images.get_mut(index)) {
                    image.objects.extend(object(&annotation, categories));
                }
            }
        }
    }
    images.sort_by_key(|image| image.id);
    Sound { images, quarantine, bad_of_total: [(bad[0], totals[0]), (bad[1], totals[1])] }
}

/// Whether an annotation is left out for this. A part of its box may be outside the image, its area may be
/// that of a mask that is not read, or zero.
fn matters(finding: &Finding, annotation: &AnnotationRecord) -> bool {
    match finding.code {
        DefectCode::BoxClipped | DefectCode::AreaMismatch => false,
        DefectCode::BadArea => annotation.area != Ok(Some(0.)),
        _ => true,
    }
}

fn sound_image(
    record: ImageRecord,
    origin: &Origin<'_>,
    examiner: &mut Examiner,
) -> Result<CocoImage, Finding> {
    if let Some(finding) = examiner.image(&record).into_iter().next() {
        return Err(finding);
    }
    let of = |record: ImageRecord| Ok((record.id?, record.file_name?, record.width?, record.height?));
    let (id, file_name, width, height) = of(record).map_err(|finding: Box<Finding>| *finding)?;
    let path = origin.images.join(&file_name);
    if origin.check_files && !path.is_file() {
        return Err(Finding::new(DefectCode::MissingFile, path.display().to_string()));
    }
    Ok(CocoImage { id, file_name, path, width, height, objects: Vec::new() })
}

/// `(x, y, w, h)` becomes `(x0, y0, x1, y1)`; without an area it is the box's.
fn object(record: &AnnotationRecord, categories: &[Category]) -> Option<Object> {
    let AnnotationRecord { id, category_id, bbox, area, iscrowd, .. } = record;
    let [x, y, w, h] = *bbox.as_ref().ok()?;
    Some(Object {
        annotation_id: *id.as_ref().ok()?,
        bbox: [x as f32, y as f32, (x + w) as f32, (y + h) as f32],
        label: categories::label(categories, *category_id.as_ref().ok()?)?,
        area: area.as_ref().ok()?.unwrap_or(w * h),
        iscrowd: *iscrowd.as_ref().ok()?,
    })
}
