//! Datasets in COCO's annotation format.

mod categories;
mod file;
mod sound;

pub use categories::Category;
pub use file::{
    AnnotationFile, AnnotationRecord, CategoryRecord, Field, ImageRecord, with_words_for_non_finite,
};
pub(crate) use sound::{Origin, misplaced};
use sound::{Sound, keep_sound};

use std::path::{Path, PathBuf};

use crate::digest::digest;
use crate::error::{Error, Result};
use crate::quarantine::{Defect, DefectCode, Quarantine, SHOWN, Tolerance};

/// What an annotation file is read as.
const COCO: &str = "a COCO annotation file";

/// What to keep of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Crowd regions are dropped, boxes are clipped to the image, boxes that are empty then are dropped, and
    /// so are images without an object of more than one pixel per side: the filter of the published
    /// detectors.
    Train,
    /// Every image stays, also those without objects; boxes stay as annotated.
    Eval,
}

/// How to load a dataset.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What to keep.
    pub purpose: Purpose,
    /// Whether each image file must exist; a missing one is a defect then.
    pub check_files: bool,
    /// How many images, and how many annotations, may be defective, and where all defects are listed.
    pub tolerance: Tolerance,
    /// How many labels the model has, the background not counted, which decides how categories are labelled
    /// (see [`Category::label`]); `None` where there is no model.
    pub labels: Option<usize>,
}

impl LoadOptions {
    /// The settings for results to publish: files checked, 1 defect in 1000, no report; no model.
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, check_files: true, tolerance: Tolerance::default(), labels: None }
    }
}

/// An annotated object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The annotation's id.
    pub annotation_id: u64,
    /// `(x0, y0, x1, y1)` in pixels, half-open: the box covers `x1 - x0` columns.
    pub bbox: [f32; 4],
    /// The category's label, from 1; 0 is the background.
    pub label: usize,
    /// The area of the object's mask in pixels, or of its box where none is annotated.
    pub area: f64,
    /// Whether the box covers a crowd instead of one object.
    pub iscrowd: bool,
}

/// An annotated image.
#[derive(Clone, Debug, PartialEq)]
pub struct CocoImage {
    /// The image's id.
    pub id: u64,
    /// Its name in the annotation file.
    pub file_name: String,
    /// The file.
    pub path: PathBuf,
    /// Columns, as annotated.
    pub width: usize,
    /// Rows, as annotated.
    pub height: usize,
    /// Its objects, in the order of the annotation file.
    pub objects: Vec<Object>,
}

/// A checked dataset.
#[derive(Clone, Debug)]
pub struct CocoDataset {
    /// The images, by ascending id.
    pub images: Vec<CocoImage>,
    /// The categories, by ascending id.
    pub categories: Vec<Category>,
    /// What was found defective and left out.
    pub quarantine: Quarantine,
}

impl CocoDataset {
    /// Reads and checks the annotation file `annotations` of the images in `images_dir`.
    ///
    /// A defective image is left out with its annotations; a defective annotation alone is left out.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TooLarge`]; [`Error::Data`] for a file that is not JSON, has no usable
    /// categories or those of another model, or nothing to train on;
    /// above the tolerated fraction [`Error::Data`] for missing images and [`Error::TooManyDefects`] for other
    /// defects, after the report was written.
    pub fn load(annotations: &Path, images_dir: &Path, options: &LoadOptions) -> Result<Self> {
        let file = AnnotationFile::read(annotations)?;
        let origin = Origin { annotations, images: images_dir, check_files: options.check_files };
        Self::from_file(file, &origin, options)
    }

    /// SHA-256 of all that is trained on but the pixels: names, sizes and objects of the images, wherever they
    /// lie.
    pub fn digest(&self) -> String {
        digest(
            self.images.iter().map(|image| (&image.file_name, [image.width, image.height], &image.objects)),
        )
    }

    /// As [`load`](Self::load), of a file that was read.
    pub(crate) fn from_file(
        mut file: AnnotationFile,
        origin: &Origin<'_>,
        options: &LoadOptions,
    ) -> Result<Self> {
        let fail = |detail: String| Error::format(origin.annotations, COCO, detail);
        let mut categories = categories::sound(std::mem::take(&mut file.categories)).map_err(fail)?;
        categories::relabel(&mut categories, options.labels, origin.annotations)?;
        let Sound { mut images, quarantine, bad_of_total } = keep_sound(file, origin, &categories);
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

    /// The images of this dataset and of `others`, in that order.
    ///
    /// # Errors
    /// [`Error::Data`] with the differences to the first of them, called `path`, that has other
    /// categories.
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

    /// The label, from 1, of the category with this id.
    pub fn label(&self, category_id: u64) -> Option<usize> {
        categories::label(&self.categories, category_id)
    }

    /// The id of the category with this label; none for the background, 0, and for a label without a
    /// category.
    pub fn category_id(&self, label: usize) -> Option<u64> {
        let index = self.categories.binary_search_by_key(&label, |category| category.label).ok()?;
        Some(self.categories.get(index)?.id)
    }
}

/// Applies the filter of [`Purpose::Train`]; false if the image is to be dropped.
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
