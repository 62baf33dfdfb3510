//! Conversion of images with one annotation file each (VOC, YOLO) to one annotation file.

use std::path::{Path, PathBuf};

use crate::coco::{AnnotationFile, AnnotationRecord, CategoryRecord, ImageRecord, box_defect};
use crate::quarantine::Finding;

/// A value, or the defect in its place.
pub(super) type Parsed<T> = Result<T, Finding>;

/// Content of the annotation file of one image.
pub(super) struct AnnotatedImage {
    /// Path of the annotation file.
    pub(super) file: PathBuf,
    /// Image with columns and rows, or the reason why there is none.
    pub(super) image: Parsed<(PathBuf, (usize, usize))>,
    /// Objects with the line of each, counted from 1.
    pub(super) objects: Vec<(usize, Parsed<AnnotatedObject>)>,
}

/// An object with a known class.
pub(super) struct AnnotatedObject {
    /// Label of the class, from 1.
    pub(super) label: usize,
    /// Left, top, right and bottom in pixels, half-open.
    pub(super) corners: [f64; 4],
    /// Whether VOC marks the object as difficult; such an object is neither trained on nor scored.
    pub(super) is_difficult: bool,
}

/// Joins the annotations in the folder `root` to one annotation file; ids count from 1.
pub(super) fn annotation_file(
    root: &Path,
    classes: &[String],
    listed: Vec<AnnotatedImage>,
) -> AnnotationFile {
    let category = |(id, name): (u64, &String)| CategoryRecord { id, name: Some(name.clone()) };
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for (AnnotatedImage { file, image, objects }, id) in listed.into_iter().zip(1..) {
        let place = |Finding { code, detail }: Finding, line: String| {
            Box::new(Finding::new(code, format!("{}{line}: {detail}", file.display())))
        };
        let (width, height) = image.as_ref().map_or((1, 1), |(_, size)| *size);
        for (line, object) in objects {
            let object = object.and_then(|object| clipped(object, [width, height]));
            let (label, is_difficult) =
                object.as_ref().map_or((1, false), |(label, _, crowd)| (*label, *crowd));
            annotations.push(AnnotationRecord {
                id: Ok(annotations.len() as u64 + 1),
                image_id: Ok(id),
                category_id: Ok(label as u64),
                bbox: object
                    .map(|(_, bbox, _)| bbox)
                    .map_err(|finding| place(finding, format!(": line {line}"))),
                area: Ok(None),
                iscrowd: Ok(is_difficult),
            });
        }
        let name = image.map(|(path, _)| path.strip_prefix(root).unwrap_or(&path).display().to_string());
        let file_name = name.map_err(|finding| place(finding, String::new()));
        images.push(ImageRecord { id: Ok(id), file_name, width: Ok(width), height: Ok(height) });
    }
    let categories = (1..).zip(classes).map(category).collect();
    AnnotationFile { images, annotations: Some(annotations), categories }
}

/// Returns the label, the box clipped to the image, and whether the object is difficult; or the defect of the box.
fn clipped(object: AnnotatedObject, [width, height]: [usize; 2]) -> Parsed<(usize, [f64; 4], bool)> {
    let [x0, y0, x1, y1] = object.corners;
    if let Some(Finding { code, detail }) = box_defect([x0, y0, x1 - x0, y1 - y0], (width, height)) {
        return Err(Finding::new(code, format!("x, y, width and height {detail}")));
    }
    let [x0, y0, x1, y1] = [x0.max(0.), y0.max(0.), x1.min(width as f64), y1.min(height as f64)];
    Ok((object.label, [x0, y0, x1 - x0, y1 - y0], object.is_difficult))
}
