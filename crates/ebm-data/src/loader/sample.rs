//! One image made ready, and several in a batch.

use ebm_seed::Key;
use rand::RngCore;

use super::LoaderConfig;
use crate::coco::CocoImage;
use crate::decode::read_image_limited;
use crate::error::{Error, Result};
use crate::quarantine::{Defect, DefectCode};
use crate::transform::{flip_boxes, padded_size, paste, resize_boxes};

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
    pub data: Vec<f32>,
    /// N, 3, H, W; H and W are multiples of 32.
    pub shape: (usize, usize, usize, usize),
    /// The N images.
    pub samples: Vec<Sample>,
}

/// A sample and its `(3, height, width)` planes.
pub(super) struct Prepared {
    sample: Sample,
    planes: Vec<f32>,
}

/// Decodes and transforms one image; the inner error says why it is left out.
pub(super) fn prepare(
    image: &CocoImage,
    index: usize,
    config: &LoaderConfig,
    key: Key,
) -> Result<std::result::Result<Prepared, Defect>> {
    let defect = |code, detail| {
        Ok(Err(Defect { file: image.path.clone(), sample: format!("image {}", image.id), code, detail }))
    };
    let decoded = match read_image_limited(&image.path, &config.limits) {
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
    let decoded = if flipped { decoded.flip_horizontal() } else { decoded };
    let original = (image.height, image.width);
    let (planes, (height, width)) = config.transform.apply(&decoded);
    let (boxes, labels): (Vec<_>, Vec<_>) = image
        .objects
        .iter()
        .filter(|object| !object.iscrowd)
        .map(|object| (object.bbox, object.label))
        .unzip();
    let boxes = resize_boxes(&boxes, original, (height, width));
    let boxes = if flipped { flip_boxes(&boxes, width) } else { boxes };
    let sample = Sample { image_id: image.id, index, height, width, original, boxes, labels, flipped };
    Ok(Ok(Prepared { sample, planes }))
}

/// Uniform in `[0, 1)`.
fn uniform(rng: &mut dyn RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl Batch {
    /// Pads and stacks; nothing without a sample.
    pub(super) fn collate(epoch: u64, step: u64, prepared: Vec<Prepared>) -> Option<Self> {
        if prepared.is_empty() {
            return None;
        }
        let padded = padded_size(prepared.iter().map(|p| (p.sample.height, p.sample.width)));
        let image_len = 3 * padded.0 * padded.1;
        let shape = (prepared.len(), 3, padded.0, padded.1);
        let mut data = vec![0.; prepared.len() * image_len];
        let mut samples = Vec::with_capacity(prepared.len());
        // Planes are freed one by one as they are copied.
        for (Prepared { sample, planes }, target) in
            prepared.into_iter().zip(data.chunks_exact_mut(image_len))
        {
            paste(&planes, (sample.height, sample.width), padded, target);
            samples.push(sample);
        }
        Some(Self { epoch, step, data, shape, samples })
    }
}
