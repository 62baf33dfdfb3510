//! One image made ready, and what a batch holds of it.

use ebm_seed::Key;
use rand::RngCore;

use super::LoaderConfig;
use super::block::Block;
use crate::coco::CocoImage;
use crate::decode::read_image_into;
use crate::error::{Error, Result};
use crate::planes::Planes;
use crate::quarantine::{Defect, DefectCode};
use crate::transform::{TransformMemory, flip_boxes, resize_boxes};

/// What a batch knows of one of its images.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The image's id in the annotation file.
    pub image_id: u64,
    /// Its index in [`CocoDataset::images`](crate::coco::CocoDataset::images).
    pub index: usize,
    /// Rows of the resized image, without padding.
    pub height: usize,
    /// Columns of the resized image, without padding.
    pub width: usize,
    /// `(height, width)` of the image file.
    pub original: (usize, usize),
    /// `(x0, y0, x1, y1)` in pixels of the resized (and mirrored) image, half-open. Crowd regions are left out.
    pub boxes: Vec<[f32; 4]>,
    /// The label of each box, from 1.
    pub labels: Vec<usize>,
    /// Whether the image was mirrored left to right.
    pub flipped: bool,
}

/// Images of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The step, counted over all epochs from 0.
    pub step: u64,
    /// `(N, 3, H, W)`, normalised; padded with zeros at the bottom and on the right.
    pub data: Block,
    /// N, 3, H, W; H and W are multiples of 32.
    pub shape: (usize, usize, usize, usize),
    /// The N images.
    pub samples: Vec<Sample>,
}

/// What one thread uses again from image to image.
#[derive(Default)]
pub(super) struct Memory {
    pixels: Vec<u8>,
    transform: TransformMemory,
}

/// Decodes one image and writes it to `target`; the inner error says why it is left out.
pub(super) fn prepare(
    image: &CocoImage,
    index: usize,
    config: &LoaderConfig,
    key: Key,
    target: &mut Planes<'_>,
    memory: &mut Memory,
) -> Result<std::result::Result<Sample, Defect>> {
    let defect = |code, detail| {
        Ok(Err(Defect { file: image.path.clone(), sample: format!("image {}", image.id), code, detail }))
    };
    let decoded = match read_image_into(&image.path, &config.limits, std::mem::take(&mut memory.pixels)) {
        Ok(decoded) => decoded,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return defect(DefectCode::MissingFile, source.to_string());
        }
        // The machine's failure, not the sample's: it must not pass for a defect.
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => return defect(DefectCode::UnreadableImage, error.to_string()),
    };
    if (decoded.width, decoded.height) != (image.width, image.height) {
        let found = format!("{}x{}", decoded.width, decoded.height);
        return defect(
            DefectCode::SizeMismatch,
            format!("{found}, annotated {}x{}", image.width, image.height),
        );
    }

    let flipped = uniform(&mut key.rng()) < config.flip_probability;
    let original = (image.height, image.width);
    let (height, width) = config.transform.write(&decoded, flipped, target, &mut memory.transform);
    memory.pixels = decoded.pixels;
    let (boxes, labels): (Vec<_>, Vec<_>) = image
        .objects
        .iter()
        .filter(|object| !object.iscrowd)
        .map(|object| (object.bbox, object.label))
        .unzip();
    let boxes = resize_boxes(&boxes, original, (height, width));
    let boxes = if flipped { flip_boxes(&boxes, width) } else { boxes };
    Ok(Ok(Sample { image_id: image.id, index, height, width, original, boxes, labels, flipped }))
}

/// Uniform in `[0, 1)`.
fn uniform(rng: &mut dyn RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
