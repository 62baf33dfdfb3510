//! Check of a dataset for `ebm data check`: every defect that a loader would leave out; nothing is tolerated.

use std::path::Path;

use rayon::prelude::*;

use crate::coco::{CocoDataset, CocoImage, LoadOptions, Purpose};
use crate::decode::read_image;
use crate::error::{Error, Result};
use crate::quarantine::{DefectCode, Finding, Quarantine, Tolerance};

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Number of images and annotations that were checked.
    pub samples: usize,
    /// All defects: first the defects of the annotation file, then the defects of the images.
    pub quarantine: Quarantine,
}

impl Checked {
    /// Succeeds if the dataset at `path` has no defects.
    ///
    /// # Errors
    /// [`Error::Data`] with the number of defects if there are any.
    pub fn verdict(&self, path: &Path) -> Result<()> {
        let (defects, samples) = (self.quarantine.defects.len(), self.samples);
        let detail = || format!("{defects} defects in {samples} samples; each is listed above");
        if defects == 0 { Ok(()) } else { Err(Error::Data(path.to_owned(), detail())) }
    }
}

/// Checks the annotation file `annotations` in COCO's format and its images in the folder `images`. With `decode`
/// every image is decoded; without it every image file only has to exist.
///
/// # Errors
/// [`Error::Io`], [`Error::TooLarge`], and [`Error::Data`] for a file without the structure of an annotation file.
pub fn coco(annotations: &Path, images: &Path, decode: bool) -> Result<Checked> {
    let tolerance = Tolerance { max_bad_fraction: 1., report: None };
    let options = LoadOptions { tolerance, ..LoadOptions::new(Purpose::Eval) };
    let CocoDataset { images, mut quarantine, .. } = CocoDataset::load(annotations, images, &options)?;
    let objects: usize = images.iter().map(|image| image.objects.len()).sum();
    let samples = images.len() + objects + quarantine.defects.len();
    // Returns the defect of an image's file, if it has one.
    let find_defect = |image: &CocoImage| {
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
    quarantine.defects.par_extend(images.par_iter().filter(|_| decode).filter_map(find_defect));
    Ok(Checked { samples, quarantine })
}
