//! The part of a COCO annotation file that scoring reads: ids, boxes, areas and crowd flags.

use crate::detections::{MAX_COORDINATE, check_box, check_range, check_size, read_json};
use crate::error::{BoxProblem, Error, Result};
use ebm_data::coco::{AnnotationFile, CocoDataset, Field};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The annotated boxes of a set of images, with the ids of its images and categories.
///
/// Images without boxes are part of it: a detection in one of them is a false positive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroundTruth {
    /// The ids of all images, annotated or not.
    pub images: Vec<u64>,
    /// The ids of all categories.
    pub categories: Vec<u64>,
    /// The names of categories that have one.
    pub names: BTreeMap<u64, String>,
    /// The annotated boxes.
    pub boxes: Vec<GroundTruthBox>,
}

/// One annotated box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruthBox {
    /// Id of the image that contains the box.
    pub image_id: u64,
    /// Id of the object's category.
    pub category_id: u64,
    /// Left, top, width, height in pixels.
    pub bbox: [f64; 4],
    /// Area in square pixels, which decides between small, medium and large. In COCO it is the area of the
    /// object's mask, not of the box.
    pub area: f64,
    /// Whether the box marks a crowd: detections in it are neither correct nor wrong.
    pub is_crowd: bool,
}

impl GroundTruth {
    /// Reads and checks a COCO annotation file. An annotation without `area` gets the area of its box.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Json`], [`Error::NotAnnotated`] for the file of a test set, [`Error::DuplicateId`]
    /// for a repeated annotation id, or the errors of [`check`](Self::check).
    pub fn read(path: &Path) -> Result<Self> {
        let file: AnnotationFile = read_json(path)?;
        let origin = path.display().to_string();
        let mut truth = Self::without_boxes(path, &file)?;
        let Some(annotations) = file.annotations else { return Err(Error::NotAnnotated(origin)) };
        let mut ids = Vec::with_capacity(annotations.len());
        for (position, annotation) in annotations.into_iter().enumerate() {
            let place = Place { path, array: "annotations", position };
            let bbox @ [_, _, width, height] = place.value(annotation.bbox)?;
            ids.push(place.value(annotation.id)?);
            truth.boxes.push(GroundTruthBox {
                image_id: place.value(annotation.image_id)?,
                category_id: place.value(annotation.category_id)?,
                bbox,
                area: place.value(annotation.area)?.unwrap_or(width * height),
                is_crowd: place.value(annotation.iscrowd)?,
            });
        }
        check_unique("annotation", ids.into_iter(), &origin)?;
        truth.check(&origin)?;
        Ok(truth)
    }

    /// Reads the images and categories of the file of a test set, such as COCO's
    /// `image_info_test-dev2017.json`. The file has no boxes, so it cannot score detections; it can check the
    /// ids of results ([`check_ids`](crate::detections::check_ids)).
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), except those about annotations.
    pub fn read_test_set(path: &Path) -> Result<Self> {
        let truth = Self::without_boxes(path, &read_json(path)?)?;
        truth.check(&path.display().to_string())?;
        Ok(truth)
    }

    fn without_boxes(path: &Path, file: &AnnotationFile) -> Result<Self> {
        let mut truth = Self::default();
        for (position, image) in file.images.iter().enumerate() {
            truth.images.push(Place { path, array: "images", position }.value(image.id.clone())?);
        }
        for category in &file.categories {
            truth.categories.push(category.id);
            truth.names.extend(category.name.clone().map(|name| (category.id, name)));
        }
        Ok(truth)
    }

    /// Returns the name of the category `id`, or the id as text if it has no name.
    pub fn category_name(&self, id: u64) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// Checks that detections can be scored on these annotations.
    ///
    /// # Errors
    /// [`Error::NothingToScore`] without images or categories, [`Error::DuplicateId`], or
    /// [`Error::Annotation`] for the first box that is not finite, has a negative size, lies beyond
    /// [`MAX_COORDINATE`], or names an unknown image or category. A size of zero is accepted: COCO has a few.
    pub fn check(&self, origin: &str) -> Result<()> {
        for (what, ids) in [("images", &self.images), ("categories", &self.categories)] {
            if ids.is_empty() {
                return Err(Error::NothingToScore(origin.into(), what));
            }
        }
        check_unique("image", self.images.iter().copied(), origin)?;
        check_unique("category", self.categories.iter().copied(), origin)?;
        let (images, categories) = self.id_sets();
        for (index, truth) in self.boxes.iter().enumerate() {
            let check = || {
                check_box(&truth.bbox)?;
                check_range("area", truth.area, MAX_COORDINATE * MAX_COORDINATE)?;
                check_size("area", truth.area)?;
                if !images.contains(&truth.image_id) {
                    return Err(BoxProblem::UnknownImage(truth.image_id));
                }
                if !categories.contains(&truth.category_id) {
                    return Err(BoxProblem::UnknownCategory(truth.category_id));
                }
                Ok(())
            };
            check().map_err(|problem| Error::Annotation { origin: origin.into(), index, problem })?;
        }
        Ok(())
    }

    /// Returns the image ids and the category ids as sets.
    pub(crate) fn id_sets(&self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        (self.images.iter().copied().collect(), self.categories.iter().copied().collect())
    }
}

/// Position of a record in an annotation file, for messages.
struct Place<'a> {
    path: &'a Path,
    array: &'a str,
    position: usize,
}

impl Place<'_> {
    /// Returns the value of a field; a malformed field is an error.
    fn value<T>(&self, field: Field<T>) -> Result<T> {
        let message = |detail| format!("{}[{}]: {detail}", self.array, self.position);
        field.map_err(|finding| Error::Json {
            path: self.path.to_owned(),
            source: serde::de::Error::custom(message(finding.detail)),
        })
    }
}

impl From<&CocoDataset> for GroundTruth {
    /// Takes the annotations of a loaded dataset. Datasets in the formats of Pascal VOC and YOLO have no
    /// annotation file for [`GroundTruth::read`].
    fn from(dataset: &CocoDataset) -> Self {
        let mut truth = Self::default();
        for category in &dataset.categories {
            truth.categories.push(category.id);
            truth.names.insert(category.id, category.name.clone());
        }
        for image in &dataset.images {
            truth.images.push(image.id);
            for object in &image.objects {
                let [x0, y0, x1, y1] = object.bbox.map(f64::from);
                let Some(category_id) = dataset.category_id(object.label) else { continue };
                truth.boxes.push(GroundTruthBox {
                    image_id: image.id,
                    category_id,
                    bbox: [x0, y0, x1 - x0, y1 - y0],
                    area: object.area,
                    is_crowd: object.iscrowd,
                });
            }
        }
        truth
    }
}

fn check_unique(what: &'static str, ids: impl Iterator<Item = u64>, origin: &str) -> Result<()> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(Error::DuplicateId(origin.into(), what, id));
        }
    }
    Ok(())
}
