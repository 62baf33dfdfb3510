//! What scoring needs of a COCO annotation file: ids, boxes, areas and crowd flags.

use crate::detections::{MAX_COORDINATE, check_box, check_range, check_size, read_json};
use crate::error::{BoxProblem, Error, Result};
use ebm_data::coco::{AnnotationFile, CocoDataset, Field};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The annotated boxes of a set of images, and which images and categories there are.
///
/// Images without boxes belong here too: a detection on one of them is a false positive.
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
    /// The image that it lies in.
    pub image_id: u64,
    /// Its category.
    pub category_id: u64,
    /// Left, top, width, height in pixels.
    pub bbox: [f64; 4],
    /// Area in square pixels, which decides between small, medium and large. COCO's is that of the
    /// object's mask, not of the box.
    pub area: f64,
    /// A crowd region: detections in it are neither right nor wrong.
    pub is_crowd: bool,
}

impl GroundTruth {
    /// Reads a COCO annotation file and checks it. Without `area` an annotation has its box's.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Json`], [`Error::NotAnnotated`] for the file of a test set, a repeated
    /// annotation id ([`Error::DuplicateId`]), or what [`check`](Self::check) finds.
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
    /// `image_info_test-dev2017.json`. There are no boxes then, and nothing can be scored; ids of results can
    /// be checked ([`check_ids`](crate::detections::check_ids)).
    ///
    /// # Errors
    /// As [`read`](Self::read), but that annotations are not asked for.
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

    /// The category's name, or its id where it has none.
    pub fn category_name(&self, id: u64) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// Checks that figures against these annotations mean something.
    ///
    /// # Errors
    /// [`Error::NothingToScore`] without images or categories, [`Error::DuplicateId`], or
    /// [`Error::Annotation`] for the first box that is not finite, negative in size, absurdly large, or
    /// of an unknown image or category. A size of zero is accepted: COCO itself has a few.
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

    /// The image ids and the category ids as sets.
    pub(crate) fn id_sets(&self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        (self.images.iter().copied().collect(), self.categories.iter().copied().collect())
    }
}

/// A record of an annotation file.
struct Place<'a> {
    path: &'a Path,
    array: &'a str,
    position: usize,
}

impl Place<'_> {
    /// A field's value; figures against a file with anything else would mean nothing.
    fn value<T>(&self, field: Field<T>) -> Result<T> {
        let message = |detail| format!("{}[{}]: {detail}", self.array, self.position);
        field.map_err(|finding| Error::Json {
            path: self.path.to_owned(),
            source: serde::de::Error::custom(message(finding.detail)),
        })
    }
}

impl From<&CocoDataset> for GroundTruth {
    /// The annotations of a dataset that was loaded for evaluation, whatever its files are like: those of
    /// Pascal VOC's or YOLO's form have no annotation file that [`GroundTruth::read`] could read.
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
