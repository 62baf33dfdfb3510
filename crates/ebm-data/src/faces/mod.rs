//! Faces with the numbers to be predicted from them: the age, or the pose of the head.

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

/// Where the pixels of a face are.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// A JPEG or PNG file.
    File(PathBuf),
    /// The part `[x0, y0, x1, y1]` of a JPEG or PNG file, half-open, in pixels; what lies beyond the image is
    /// black.
    Region {
        /// The file.
        path: PathBuf,
        /// The part.
        region: [i64; 4],
    },
    /// In memory.
    Memory(Arc<Image>),
}

impl Pixels {
    /// The image.
    ///
    /// # Errors
    /// As [`read_image`]; [`Error::Data`] for a region without a pixel.
    pub fn decode(&self) -> Result<Image> {
        match self {
            Self::File(path) => read_image(path),
            Self::Region { path, region } => region::crop(&read_image(path)?, *region)
                .map_err(|finding| Error::decode(path, finding.detail)),
            Self::Memory(image) => Ok((**image).clone()),
        }
    }

    /// What the pixels depend on: the bytes of the file, and the part of it, or the pixels themselves. Equal
    /// bytes are equal pixels.
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

/// One face.
#[derive(Clone, Debug, PartialEq)]
pub struct Face {
    /// What messages and result files call it: the file's name, or a number within a file.
    pub name: String,
    /// The image.
    pub pixels: Pixels,
    /// D numbers: the age in years, or yaw, pitch and roll or pan and tilt in degrees.
    pub target: Vec<f32>,
}

impl Faces {
    /// Takes a face, or records why `sample` of `file` is none.
    fn push(&mut self, file: &Path, sample: &str, outcome: std::result::Result<Face, Finding>) {
        match outcome {
            Ok(face) => self.faces.push(face),
            Err(finding) => self.quarantine.defects.push(finding.in_sample(file, sample)),
        }
    }

    /// The faces if no more are defective than is tolerated; the report is written first.
    fn within(self, tolerance: &Tolerance) -> Result<Self> {
        let bad = self.quarantine.defects.len();
        tolerance.list(&self.quarantine)?;
        tolerance.check(&self.quarantine, bad, bad + self.faces.len())?;
        Ok(self)
    }

    /// SHA-256 of the names and targets of the faces, in their order.
    pub fn digest(&self) -> String {
        crate::digest::digest(self.faces.iter().map(|face| (&face.name, &face.target)))
    }

    /// Which of these faces are the same photograph, byte for byte, as one of the `others`: what tells nothing of how
    /// well a network that learnt from these does on faces it has not seen.
    ///
    /// # Errors
    /// As [`Pixels::bytes`], but for a file that is not there, which is no other's photograph.
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

/// The faces of a dataset, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faces {
    /// In the order of the source.
    pub faces: Vec<Face>,
    /// Defective entries.
    pub quarantine: Quarantine,
}
