//! Faces with the numbers to predict from them: the age, or the pose of the head.

mod augment;
pub mod biwi;
pub mod listed;
pub mod loader;
pub mod pointing04;
mod region;
pub mod split;
pub mod utkface;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::decode::{DecodeLimits, read_image};
use crate::error::{Error, Result};
use crate::files::read_limited;
use crate::image::Image;
use crate::quarantine::{Finding, Quarantine};

pub use crate::quarantine::Tolerance;
pub use region::crop_face;

/// Source of the pixels of a face.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// JPEG or PNG file.
    File(PathBuf),
    /// Region `[x0, y0, x1, y1]` of a JPEG or PNG file, half-open, in pixels. Pixels beyond the image are black.
    Region {
        /// Path of the image file.
        path: PathBuf,
        /// Corners of the region.
        region: [i64; 4],
    },
    /// Image in memory.
    Memory(Arc<Image>),
}

impl Pixels {
    /// Decodes the image.
    ///
    /// # Errors
    /// The errors of [`read_image`]; [`Error::Data`] for a region without a pixel.
    pub fn decode(&self) -> Result<Image> {
        match self {
            Self::File(path) => read_image(path),
            Self::Region { path, region } => region::crop(&read_image(path)?, *region)
                .map_err(|finding| Error::decode(path, finding.detail)),
            Self::Memory(image) => Ok((**image).clone()),
        }
    }

    /// Returns the bytes that determine the pixels: the bytes of the file, followed by the region, or the pixels
    /// in memory. Equal bytes mean equal pixels.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::TooLarge`].
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let read = |path: &PathBuf| read_limited(path, DecodeLimits::default().max_file_bytes);
        let (mut bytes, part) = match self {
            Self::File(path) => return read(path),
            Self::Region { path, region } => (read(path)?, region.to_vec()),
            Self::Memory(image) => (image.pixels.clone(), vec![image.width as i64, image.height as i64]),
        };
        bytes.extend(part.iter().flat_map(|side| side.to_le_bytes()));
        Ok(bytes)
    }
}

/// Face with its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Face {
    /// Name in messages and result files: the file's name, or a number within a file.
    pub name: String,
    /// Source of the image.
    pub pixels: Pixels,
    /// Target of D numbers: the age in years, or yaw, pitch and roll or pan and tilt in degrees.
    pub target: Vec<f32>,
}

impl Faces {
    /// Appends a face, or records the defect of the `sample` of `file`.
    fn push(&mut self, file: &Path, sample: &str, outcome: std::result::Result<Face, Finding>) {
        match outcome {
            Ok(face) => self.faces.push(face),
            Err(finding) => self.quarantine.defects.push(finding.in_sample(file, sample)),
        }
    }

    /// Returns the faces, unless more are defective than is tolerated. The report is written first.
    fn check_tolerance(self, tolerance: &Tolerance) -> Result<Self> {
        let bad = self.quarantine.defects.len();
        tolerance.list(&self.quarantine)?;
        tolerance.check(&self.quarantine, bad, bad + self.faces.len())?;
        Ok(self)
    }

    /// Returns the SHA-256 of the names and targets of the faces, in their order.
    pub fn digest(&self) -> String {
        crate::digest::digest(self.faces.iter().map(|face| (&face.name, &face.target)))
    }

    /// Returns the faces that are the same photograph, byte for byte, as one of `others`. They do not show how
    /// well a network that was trained on `others` predicts unseen faces.
    ///
    /// # Errors
    /// The errors of [`Pixels::bytes`]. A missing file is no error; it equals no other photograph.
    pub fn repeated_in(&self, others: &Self) -> Result<Vec<&Face>> {
        let digest = |face: &Face| match face.pixels.bytes() {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(Some(Sha256::digest(bytes?))),
        };
        let known = others.faces.iter().map(digest).collect::<Result<HashSet<_>>>()?;
        let mut repeated = Vec::new();
        for face in &self.faces {
            let digest = digest(face)?;
            if digest.is_some() && known.contains(&digest) {
                repeated.push(face);
            }
        }
        Ok(repeated)
    }
}

/// Faces of a dataset, and the defective entries that were left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faces {
    /// Faces in the order of the source.
    pub faces: Vec<Face>,
    /// Defective entries.
    pub quarantine: Quarantine,
}
