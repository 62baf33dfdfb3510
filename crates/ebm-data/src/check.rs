//! Every defect of a dataset, for `ebm data check`: what a loader would leave out, and nothing is tolerated.

use std::path::Path;

use rayon::prelude::*;

use crate::coco::{CocoDataset, CocoImage, LoadOptions, Purpose};
use crate::decode::read_image;
use crate::error::{Error, Result};
use crate::quarantine::{DefectCode, Finding, Quarantine, Tolerance};

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Images and annotations that were looked at.
    pub samples: usize,
    /// All defects: first those of the annotation file, then those of the images.
    pub quarantine: Quarantine,
}

impl Checked {
    /// Whether what is at `path` is without defects.
    ///
    /// # Errors
    /// [`Error::Defective`] with their number if there are any.
    pub fn verdict(&self, path: &Path) -> Result<()> {
        match self.quarantine.defects.len() {
            0 => Ok(()),
            defects => Err(Error::Defective { path: path.to_owned(), defects, samples: self.samples }),
        }
    }
}

/// Checks the annotation file `annotations` in COCO's format and its images in `images`, which are decoded if
/// `decode`; otherwise they need only be there.
///
/// # Errors
/// [`Error::Io`], [`Error::FileTooLarge`], and [`Error::Format`] for what has not the outline of an annotation
/// file.
pub fn coco(annotations: &Path, images: &Path, decode: bool) -> Result<Checked> {
    let tolerance = Tolerance { max_bad_fraction: 1., report: None };
    let options = LoadOptions { tolerance, ..LoadOptions::new(Purpose::Eval) };
    let CocoDataset { images, mut quarantine, .. } = CocoDataset::load(annotations, images, &options)?;
    let objects: usize = images.iter().map(|image| image.objects.len()).sum();
    let samples = images.len() + objects + quarantine.defects.len();
    let look = |image: &CocoImage| {
        let finding = decode.then(|| look_at(image)).flatten()?;
        Some(finding.in_sample(annotations, format!("image {}", image.id)))
    };
    quarantine.defects.par_extend(images.par_iter().filter_map(look));
    Ok(Checked { samples, quarantine })
}

/// What is wrong with an image's file.
fn look_at(image: &CocoImage) -> Option<Finding> {
    let (width, height) = (image.width, image.height);
    match read_image(&image.path) {
        Err(error) => Some(Finding::new(DefectCode::UnreadableImage, error.to_string())),
        Ok(found) if (found.width, found.height) == (width, height) => None,
        Ok(found) => {
            let detail = format!("{width}x{height} annotated, {}x{} in the file", found.width, found.height);
            Some(Finding::new(DefectCode::SizeMismatch, detail))
        }
    }
}
