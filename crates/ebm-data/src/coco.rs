//! Datasets in COCO's annotation format.

mod categories;
mod file;
mod validate;

pub use categories::Category;
pub use file::{
    AnnotationFile, AnnotationRecord, CategoryRecord, Field, ImageRecord, with_words_for_non_finite,
};
pub(crate) use validate::{Origin, box_defect};
use validate::{ValidRecords, keep_valid};

use std::path::{Path, PathBuf};

use crate::digest::digest;
use crate::error::{Error, Result};
use crate::quarantine::{Defect, DefectCode, Quarantine, SHOWN, Tolerance};

/// Name of the format in error messages.
const COCO: &str = "a COCO annotation file";

/// Purpose of a dataset, which decides which images and boxes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For training, the filter of the published detectors. Crowd regions are dropped, boxes are clipped to the
    /// image, and boxes that are empty after that are dropped. An image without an object of more than one pixel
    /// per side is dropped too.
    Train,
    /// For evaluation: every image stays, also without objects, and boxes stay as annotated.
    Eval,
}

/// Options of [`CocoDataset::load`].
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The images and boxes to keep.
    pub purpose: Purpose,
    /// Whether each image file must exist. A missing file is a defect then.
    pub check_files: bool,
    /// Tolerated fraction of defective images and of defective annotations, and the file that lists all defects.
    pub tolerance: Tolerance,
    /// Number of labels of the model, without the background. It decides how categories are labelled (see
    /// [`Category::label`]). `None` without a model.
    pub labels: Option<usize>,
}

impl LoadOptions {
    /// Returns the settings for published results: files are checked, 1 defect in 1000 is tolerated, no report is
    /// written. No model is set.
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, check_files: true, tolerance: Tolerance::default(), labels: None }
    }
}

/// An annotated object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The annotation's id.
    pub annotation_id: u64,
    /// Box `(x0, y0, x1, y1)` in pixels, half-open: the box covers `x1 - x0` columns.
    pub bbox: [f32; 4],
    /// Label of the category, from 1; 0 is the background.
    pub label: usize,
    /// Area of the object's mask in pixels, or area of the box if no mask area is annotated.
    pub area: f64,
    /// Whether the box covers a crowd instead of one object.
    pub iscrowd: bool,
}

/// An annotated image.
#[derive(Clone, Debug, PartialEq)]
pub struct CocoImage {
    /// The image's id.
    pub id: u64,
    /// Name of the image in the annotation file.
    pub file_name: String,
    /// Path of the image file.
    pub path: PathBuf,
    /// Number of columns, as annotated.
    pub width: usize,
    /// Number of rows, as annotated.
    pub height: usize,
    /// Objects of the image, in the order of the annotation file.
    pub objects: Vec<Object>,
}

/// A checked dataset.
#[derive(Clone, Debug)]
pub struct CocoDataset {
    /// The images, by ascending id.
    pub images: Vec<CocoImage>,
    /// The categories, by ascending id.
    pub categories: Vec<Category>,
    /// Defective records, which were left out.
    pub quarantine: Quarantine,
}

impl CocoDataset {
    /// Reads and checks the annotation file `annotations` of the images in the folder `images_dir`.
    ///
    /// A defective image is left out together with its annotations. A defective annotation is left out alone.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TooLarge`]. [`Error::Data`] for a file that is not JSON, that has no usable
    /// categories, that has other categories than the model, or that leaves nothing to train on. Above the
    /// tolerated fraction of defects, after the report was written: [`Error::Data`] for missing images and
    /// [`Error::TooManyDefects`] for other defects.
    pub fn load(annotations: &Path, images_dir: &Path, options: &LoadOptions) -> Result<Self> {
        let file = AnnotationFile::read(annotations)?;
        let origin = Origin { annotations, images: images_dir, check_files: options.check_files };
        Self::from_file(file, &origin, options)
    }

    /// Returns the SHA-256 of everything that is trained on except pixels: names, sizes and objects of the
    /// images. The folder of the images does not matter.
    pub fn digest(&self) -> String {
        digest(
            self.images.iter().map(|image| (&image.file_name, [image.width, image.height], &image.objects)),
        )
    }

    /// Checks an annotation file that was read already, like [`load`](Self::load).
    pub(crate) fn from_file(
        mut file: AnnotationFile,
        origin: &Origin<'_>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let fail = |detail: String| Error::format(origin.annotations, COCO, detail);
        let mut categories = categories::valid(std::mem::take(&mut file.categories)).map_err(fail)?;
        categories::relabel(&mut categories, options.labels, origin.annotations)?;
        let ValidRecords { mut images, quarantine, bad_of_total } = keep_valid(file, origin, &categories);
        let tolerance = &options.tolerance;
        tolerance.list(&quarantine)?;
        let is_missing = |defect: &&Defect| defect.code == DefectCode::MissingFile;
        let missing: Vec<&Defect> = quarantine.defects.iter().filter(is_missing).collect();
        let [(_, total), _] = bad_of_total;
        if missing.len() as f64 > tolerance.max_bad_fraction * total as f64 {
            let first: Vec<&str> = missing.iter().take(SHOWN).map(|defect| defect.detail.as_str()).collect();
            let (missing, first, folder) = (missing.len(), first.join(", "), origin.images.display());
            let advice = "give the folder that holds this split's images, or fetch the missing ones";
            let detail =
                format!("{missing} of its {total} images are not in {folder}; first: {first}; {advice}");
            return Err(Error::Data(origin.annotations.to_owned(), detail));
        }
        for (bad, total) in bad_of_total {
            tolerance.check(&quarantine, bad, total)?;
        }
        if options.purpose == Purpose::Train {
            images.retain_mut(keep_for_training);
            if images.is_empty() {
                return Err(fail("no image with an object to train on".to_owned()));
            }
        }
        Ok(Self { images, categories, quarantine })
    }

    /// Appends the images of `others`, in that order.
    ///
    /// # Errors
    /// [`Error::Data`] if a dataset of `others` has different categories. It names the first such dataset by its
    /// `path` and lists the differences.
    pub fn joined(mut self, others: impl IntoIterator<Item = (PathBuf, Self)>) -> Result<Self> {
        for (path, other) in others {
            if other.categories != self.categories {
                let names = |categories: &[Category]| {
                    let name = |category: &Category| format!("{} {}", category.id, category.name);
                    categories.iter().map(name).collect::<Vec<_>>().join(", ")
                };
                let (found, first) = (names(&other.categories), names(&self.categories));
                let detail = format!("its categories are {found}, those of the first annotations {first}");
                return Err(Error::categories(path, &detail));
            }
            self.images.extend(other.images);
            self.quarantine.defects.extend(other.quarantine.defects);
        }
        Ok(self)
    }

    /// Returns the label, from 1, of the category with the id `category_id`.
    pub fn label(&self, category_id: u64) -> Option<usize> {
        categories::label(&self.categories, category_id)
    }

    /// Returns the id of the category with the label `label`. The background (0) and labels without a category
    /// have none.
    pub fn category_id(&self, label: usize) -> Option<u64> {
        let index = self.categories.binary_search_by_key(&label, |category| category.label).ok()?;
        Some(self.categories.get(index)?.id)
    }
}

/// Applies the filter of [`Purpose::Train`]. Returns false if the image is to be dropped.
fn keep_for_training(image: &mut CocoImage) -> bool {
    let (width, height) = (image.width as f32, image.height as f32);
    image.objects.retain_mut(|object| {
        let [x0, y0, x1, y1] = object.bbox;
        object.bbox = [x0.clamp(0., width), y0.clamp(0., height), x1.clamp(0., width), y1.clamp(0., height)];
        let [x0, y0, x1, y1] = object.bbox;
        !object.iscrowd && x1 > x0 && y1 > y0
    });
    image.objects.iter().any(|object| {
        let [x0, y0, x1, y1] = object.bbox;
        x1 - x0 > 1. && y1 - y0 > 1.
    })
}
