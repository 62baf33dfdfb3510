//! Images whose annotations are in a file each, gathered to a dataset.

use std::path::{Path, PathBuf};

use crate::coco::{CocoImage, Object, Sound, misplaced};
use crate::quarantine::{Finding, Quarantine};

/// A thing, or what is wrong with it.
pub(super) type Sought<T> = Result<T, Finding>;

/// What a file of annotations says of its image.
#[derive(Clone, Debug)]
pub(super) struct Listed<T> {
    /// The file.
    pub annotations: PathBuf,
    /// Its image, or why there is none.
    pub image: Sought<ImageFile>,
    /// Its objects with the line of each, counted from 1.
    pub objects: Vec<(u32, Sought<T>)>,
}

/// An image file that is there.
#[derive(Clone, Debug)]
pub(super) struct ImageFile {
    /// Where.
    pub path: PathBuf,
    /// Columns and rows.
    pub size: (usize, usize),
}

/// An object whose class is known.
pub(super) struct Annotated {
    /// The class, from 1.
    pub label: usize,
    /// Left, top, right and bottom in pixels, half-open.
    pub corners: [f64; 4],
    /// Whether it does not count.
    pub is_difficult: bool,
}

/// Gathers the records of `root` in their order; ids count from 1. `label` tells an object's class and box in
/// an image of a size, and `remedy` is what to do about a box that is not in its image.
pub(super) fn gather<T>(
    root: &Path,
    records: &[Listed<T>],
    remedy: &str,
    label: impl Fn(&T, (usize, usize)) -> Sought<Annotated>,
) -> Sound {
    let mut images = Vec::with_capacity(records.len());
    let mut quarantine = Quarantine::default();
    let (mut total, mut bad) = (0, [0; 2]);
    for (record, id) in records.iter().zip(1..) {
        let mut defect = |sample: String, finding: Finding| {
            quarantine.defects.push(finding.in_sample(&record.annotations, sample));
        };
        let image = match &record.image {
            Ok(image) => image,
            Err(finding) => {
                bad[0] += 1;
                defect(format!("image {id}"), finding.clone());
                continue;
            }
        };
        let mut objects = Vec::with_capacity(record.objects.len());
        for (line, object) in &record.objects {
            total += 1;
            let object = object.as_ref().map_err(Finding::clone).and_then(|object| label(object, image.size));
            match object.and_then(|object| clipped(object, image.size, remedy)) {
                Ok(object) => objects.push(Object { annotation_id: total as u64, ..object }),
                Err(finding) => {
                    bad[1] += 1;
                    defect(format!("line {line}"), finding);
                }
            }
        }
        let (width, height) = image.size;
        let file_name = image.path.strip_prefix(root).unwrap_or(&image.path).display().to_string();
        images.push(CocoImage { id, file_name, path: image.path.clone(), width, height, objects });
    }
    Sound { images, quarantine, bad_of_total: [(bad[0], records.len()), (bad[1], total)] }
}

/// The object with its box clipped to the image, or what is wrong with the box; a part of it may be outside.
fn clipped(object: Annotated, size: (usize, usize), remedy: &str) -> Sought<Object> {
    let [x0, y0, x1, y1] = object.corners;
    let found = misplaced([x0, y0, x1 - x0, y1 - y0], size);
    if let Some(Finding { code, detail }) = found {
        return Err(Finding::new(code, format!("x, y, width and height {detail}; {remedy}")));
    }
    let (width, height) = (size.0 as f64, size.1 as f64);
    let [x0, y0, x1, y1] = [x0.max(0.), y0.max(0.), x1.min(width), y1.min(height)];
    Ok(Object {
        annotation_id: 0,
        bbox: [x0 as f32, y0 as f32, x1 as f32, y1 as f32],
        label: object.label,
        area: (x1 - x0) * (y1 - y0),
        iscrowd: object.is_difficult,
    })
}
