//! From the loader's batches to the network's input and back to the image's pixels.

use candle_core::Device;
use ebm_data::{
    loader::{Batch, Sample},
    transform::{self, Normalise, Resample, ResizeRule, Transform},
};
use ebm_nn::{
    boxes::{BBox, BoxConvention},
    device::Uploader,
};

use crate::{
    config::{ChannelOrder, InputConfig, ResampleKind},
    error::Result,
    faster_rcnn::{ImageBatch, Objects},
};

impl InputConfig {
    /// The loader's form of these settings.
    pub fn transform(&self) -> Transform {
        Transform {
            resize: ResizeRule { short_side: self.short_side, max_side: self.long_side },
            resample: match self.resample {
                ResampleKind::Pillow => Resample::Pillow,
                ResampleKind::Torch => Resample::TorchBilinear,
            },
            normalise: Normalise {
                order: match self.channels {
                    ChannelOrder::Rgb => transform::ChannelOrder::Rgb,
                    ChannelOrder::Bgr => transform::ChannelOrder::Bgr,
                },
                scale: self.scale,
                mean: self.mean,
                std: self.std,
            },
        }
    }
}

impl ImageBatch {
    /// Uploads a batch.
    pub fn new(batch: &Batch, device: &Device) -> Result<Self> {
        Self::uploaded(batch, &mut Uploader::new(device))
    }

    /// The same as one of many, to the uploader's device.
    pub fn uploaded(batch: &Batch, uploader: &mut Uploader) -> Result<Self> {
        Ok(Self {
            pixels: uploader.upload(&batch.data, batch.shape)?,
            sizes: batch.samples.iter().map(|sample| (sample.height, sample.width)).collect(),
        })
    }
}

/// The objects of a sample in the network's box convention.
pub fn objects(sample: &Sample, convention: BoxConvention) -> Objects {
    let end = convention.offset();
    let inclusive = |b: &[f32; 4]| [b[0], b[1], (b[2] - end).max(b[0]), (b[3] - end).max(b[1])];
    (sample.boxes.iter().map(inclusive).collect(), sample.labels.clone())
}

/// A box of the input as `[x, y, width, height]` in pixels of the image file.
pub fn to_original(bbox: &BBox, sample: &Sample, convention: BoxConvention) -> [f64; 4] {
    let scale = |original: usize, resized: usize| original as f64 / resized as f64;
    let (sy, sx) = (scale(sample.original.0, sample.height), scale(sample.original.1, sample.width));
    let end = f64::from(convention.offset());
    let [x0, y0, x1, y1] = bbox.map(f64::from);
    [x0 * sx, y0 * sy, (x1 - x0 + end) * sx, (y1 - y0 + end) * sy]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_return_to_the_image() {
        let sample = Sample {
            image_id: 1,
            index: 0,
            height: 50,
            width: 100,
            original: (100, 300),
            boxes: vec![[10., 20., 40., 45.]],
            labels: vec![3],
            flipped: false,
        };
        for convention in [BoxConvention::HalfOpen, BoxConvention::Inclusive] {
            let (boxes, labels) = objects(&sample, convention);
            assert_eq!(labels, [3]);
            assert_eq!(to_original(&boxes[0], &sample, convention), [30., 40., 90., 50.]);
        }
    }
}
