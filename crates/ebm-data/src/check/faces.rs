//! Folders of faces.

use std::path::Path;

use rayon::prelude::*;

use super::{CheckOptions, Checked, photo};
use crate::error::Result;
use crate::faces::utkface::load_directory;
use crate::faces::{Faces, Pixels, biwi};
use crate::quarantine::{Finding, Tolerance};

/// No number of defects ends a check.
const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };

/// Checks the images in the folder `images` of UTKFace, whose names tell ages.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io); [`Error::Format`](crate::Error::Format) for a folder without images.
pub fn utkface(images: &Path, options: &CheckOptions) -> Result<Checked> {
    look_at(images, load_directory(images, &ANY)?, options)
}

/// Checks BIWI's folder of raw frames.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io); [`Error::Format`](crate::Error::Format) for what is none, or has a
/// damaged calibration.
pub fn biwi(path: &Path, options: &CheckOptions) -> Result<Checked> {
    let frames = biwi::FramesOptions { tolerance: ANY, ..biwi::FramesOptions::default() };
    look_at(path, biwi::load_frames(path, &frames)?, options)
}

fn look_at(root: &Path, faces: Faces, options: &CheckOptions) -> Result<Checked> {
    let Faces { faces, quarantine } = faces;
    let mut checked = Checked { samples: faces.len() + quarantine.defects.len(), quarantine };
    let found: Vec<Result<Vec<Finding>>> = faces
        .par_iter()
        .map(|face| match &face.pixels {
            Pixels::File(path) | Pixels::Region { path, .. } => photo::check(path, None, options.decode),
            Pixels::Memory(_) => Ok(Vec::new()),
        })
        .collect();
    for (face, findings) in faces.iter().zip(found) {
        findings?.into_iter().for_each(|finding| checked.record(root, &face.name, finding));
    }
    Ok(checked)
}
