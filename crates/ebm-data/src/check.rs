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
    /// [`Error::Data`] with their number if there are any.
    pub fn verdict(&self, path: &Path) -> Result<()> {
        let (defects, samples) = (self.quarantine.defects.len(), self.samples);
        let detail = || format!("{defects} defects in {samples} samples; each is listed above");
        if defects == 0 { Ok(()) } else { Err(Error::Data(path.to_owned(), detail())) }
    }
}

/// Checks the annotation file `annotations` in COCO's format and its images in `images`, which are decoded if
/// `decode`; otherwise they need only be there.
///
/// # Errors
/// [`Error::Io`], [`Error::TooLarge`], and [`Error::Data`] for what has not the outline of an annotation
/// file.
pub fn coco(annotations: &Path, images: &Path, decode: bool) -> Result<Checked> {
    let tolerance = Tolerance { max_bad_fraction: 1., report: None };
    let options = LoadOptions { tolerance, ..LoadOptions::new(Purpose::Eval) };
    let CocoDataset { images, mut quarantine, .. } = CocoDataset::load(annotations, images, &options)?;
    let objects: usize = images.iter().map(|image| image.objects.len()).sum();
    let samples = images.len() + objects + quarantine.defects.len();
    // What is wrong with an image's file.
    let look = |image: &CocoImage| {
        let (width, height) = (image.width, image.height);
        let finding = match read_image(&image.path) {
            Err(error) => Finding::new(DefectCode::UnreadableImage, error.to_string()),
            Ok(found) if (found.width, found.height) == (width, height) => return None,
            Ok(found) => {
                let size = format!("{}x{}", found.width, found.height);
                let detail = format!("{width}x{height} annotated, {size} in the file");
                Finding::new(DefectCode::SizeMismatch, detail)
            }
        };
        Some(finding.in_sample(annotations, format!("image {}", image.id)))
    };
    quarantine.defects.par_extend(images.par_iter().filter(|_| decode).filter_map(look));
    Ok(Checked { samples, quarantine })
}
