//! Conversion of images and boxes between the image file and the network's input.

use candle_core::{DType, Device, Tensor};
use ebm_data::Image;
use ebm_data::loader::{Batch, Sample};
use ebm_data::transform::{Normalise, ResizeRule, Transform, padded_size};
use ebm_ops::boxes::{BBox, BoxConvention};
use ebm_ops::device::Uploader;

use crate::Result;
use crate::config::InputConfig;
use crate::faster_rcnn::{ImageBatch, Objects};

impl InputConfig {
    /// Converts these settings to the loader's form.
    pub fn transform(&self) -> Transform {
        Transform {
            resize: ResizeRule { short_side: self.short_side, max_side: self.long_side },
            resample: self.resample,
            normalise: Normalise { order: self.channels, scale: self.scale, mean: self.mean, std: self.std },
        }
    }
}

impl ImageBatch {
    /// Converts one image to a batch on `device`, resized, normalised and padded as in training. The returned sample
    /// converts boxes back to the image: see [`to_original`].
    ///
    /// # Errors
    /// When the device has no memory for it.
    pub fn of_image(image: &Image, config: &InputConfig, device: &Device) -> Result<(Self, Sample)> {
        let (planes, (height, width)) = config.transform().apply(image);
        let (h, w) = padded_size([(height, width)]);
        let mut padded = vec![0f32; 3 * h * w];
        for (row, source) in planes.chunks_exact(width).enumerate() {
            let at = (row / height * h + row % height) * w;
            padded[at..at + width].copy_from_slice(source);
        }
        let pixels = Tensor::from_vec(padded, (1, 3, h, w), device)?;
        let sample = Sample {
            image_id: 0,
            index: 0,
            height,
            width,
            original: (image.height, image.width),
            boxes: vec![],
            labels: vec![],
            flipped: false,
        };
        Ok((Self { pixels, sizes: vec![(height, width)] }, sample))
    }

    /// Creates a batch of images of these `sizes` (height, width) whose maps are cached and whose pixels are not.
    pub(crate) fn without_pixels(sizes: Vec<(usize, usize)>) -> Result<Self> {
        Ok(Self { pixels: Tensor::zeros((sizes.len(), 3, 0, 0), DType::F32, &Device::Cpu)?, sizes })
    }

    /// Uploads a batch to `device`.
    pub fn new(batch: &Batch, device: &Device) -> Result<Self> {
        Self::uploaded(batch, &mut Uploader::new(device))
    }

    /// Uploads one of many batches to the uploader's device.
    pub fn uploaded(batch: &Batch, uploader: &mut Uploader) -> Result<Self> {
        Ok(Self {
            pixels: uploader.upload(&batch.data, batch.shape)?,
            sizes: batch.samples.iter().map(|sample| (sample.height, sample.width)).collect(),
        })
    }
}

/// Returns the objects of a sample in the network's box convention.
///
/// Inclusive corners are as in maskrcnn-benchmark: `x + w - 1` of the annotated box is multiplied by the ratio of the
/// sizes, so that the last pixel is a pixel of the image, not of the input; mirroring converts `x` to `W - 1 - x`.
/// Boxes of a pixel or less have no extent in this convention and are left out.
pub fn objects(sample: &Sample, convention: BoxConvention) -> Objects {
    let corners = |&[x0, y0, x1, y1]: &[f32; 4]| match convention {
        BoxConvention::HalfOpen => [x0, y0, x1, y1],
        BoxConvention::Inclusive => {
            let [sx, sy] = original_pixel(sample).map(|size| 1.0 / size as f32);
            let [left, right] = if sample.flipped { [sx - 1.0, 1.0] } else { [0.0, sx] };
            [x0 + left, y0, x1 - right, y1 - sy]
        }
    };
    let objects = sample.boxes.iter().map(corners).zip(sample.labels.iter().copied());
    objects.filter(|([x0, y0, x1, y1], _)| x1 > x0 && y1 > y0).collect()
}

/// Converts a box of the input to `[x, y, width, height]` in pixels of the image file. The corners are multiplied by
/// the ratio of the sizes; for inclusive corners, a pixel of the image is added to width and height.
pub fn to_original(bbox: &BBox, sample: &Sample, convention: BoxConvention) -> [f64; 4] {
    let [sx, sy] = original_pixel(sample);
    let end = f64::from(convention.offset());
    let [x0, y0, x1, y1] = bbox.map(f64::from);
    [x0 * sx, y0 * sy, (x1 - x0) * sx + end, (y1 - y0) * sy + end]
}

/// Converts a box `[x, y, width, height]` of the image file to corners in the input: the inverse of [`to_original`].
pub(crate) fn to_input(
    &[x, y, width, height]: &[f64; 4],
    sample: &Sample,
    convention: BoxConvention,
) -> BBox {
    let ([across, down], end) = (original_pixel(sample), f64::from(convention.offset()));
    [x / across, y / down, (x + width - end) / across, (y + height - end) / down].map(|at| at as f32)
}

/// Clips a box `[x, y, width, height]` to the image file; returns `None` for a box outside of it.
pub(crate) fn clipped([x, y, width, height]: [f64; 4], sample: &Sample) -> Option<[f64; 4]> {
    let (rows, columns) = sample.original;
    let clip = |ends: [f64; 2], extent: usize| ends.map(|end| end.clamp(0.0, extent as f64));
    let ([x0, x1], [y0, y1]) = (clip([x, x + width], columns), clip([y, y + height], rows));
    (x1 > x0 && y1 > y0).then_some([x0, y0, x1 - x0, y1 - y0])
}

/// Returns width and height of an input pixel, in pixels of the image file.
pub fn original_pixel(sample: &Sample) -> [f64; 2] {
    let ratio = |original: usize, resized: usize| original as f64 / resized as f64;
    [ratio(sample.original.1, sample.width), ratio(sample.original.0, sample.height)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of 480 rows and 640 columns with a box `[x, y, w, h] = [30, 60, 90, 120]`, resized to a short
    /// side of 800: the other is floor(800 · 640 / 480) = 1066, so that the ratios are 1066/640 = 1.665625
    /// across and 800/480 = 5/3 down.
    fn sample(flipped: bool) -> Sample {
        let [x0, x1] = [30.0, 120.0].map(|x: f32| x * 1.665_625);
        let [y0, y1] = [60.0, 180.0].map(|y: f32| y * 5.0 / 3.0);
        let boxes = vec![if flipped { [1066.0 - x1, y0, 1066.0 - x0, y1] } else { [x0, y0, x1, y1] }];
        let (image_id, index, labels) = (1, 0, vec![3]);
        Sample { image_id, index, height: 800, width: 1066, original: (480, 640), boxes, labels, flipped }
    }

    fn close(found: &[f64; 4], expected: &[f64; 4]) {
        let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 2e-4, "{found:?} for {expected:?}");
    }

    #[test]
    fn boxes_return_to_the_image() {
        // maskrcnn-benchmark: xywh -> [30, 60, 30 + 90 - 1, 60 + 120 - 1] = [30, 60, 119, 179], times the
        // ratios: [49.96875, 100, 198.209375, 298.333333]; mirrored x -> 1066 - 1 - x, corners swapped.
        let inclusive = [49.96875, 100.0, 198.209_375, 298.333_333];
        let mirrored = [866.790_625, 100.0, 1015.03125, 298.333_333];
        let half_open = [49.96875, 100.0, 199.875, 300.0];
        for (convention, flipped, expected) in [
            (BoxConvention::Inclusive, false, inclusive),
            (BoxConvention::Inclusive, true, mirrored),
            (BoxConvention::HalfOpen, false, half_open),
        ] {
            let sample = sample(flipped);
            let Objects { boxes, classes } = objects(&sample, convention);
            assert_eq!(classes, [3]);
            close(&boxes[0].map(f64::from), &expected);
            if !flipped {
                close(&to_original(&boxes[0], &sample, convention), &[30.0, 60.0, 90.0, 120.0]);
            }
        }
        // A detection [100, 200, 300, 500] of that input: corners [60.0375, 120, 180.1126, 300] of the image;
        // inclusive, they span 180.1126 - 60.0375 + 1 columns and 300 - 120 + 1 rows.
        let found = to_original(&[100.0, 200.0, 300.0, 500.0], &sample(false), BoxConvention::Inclusive);
        close(&found, &[60.037_523, 120.0, 121.075_047, 181.0]);
    }

    #[test]
    fn what_lies_outside_is_cut_off() {
        let clipped = |bbox| clipped(bbox, &sample(false));
        assert_eq!(clipped([10.0, 20.0, 30.0, 40.0]), Some([10.0, 20.0, 30.0, 40.0]));
        assert_eq!(clipped([-10.0, 470.0, 30.0, 40.0]), Some([0.0, 470.0, 20.0, 10.0]));
        assert_eq!(clipped([-1.0, -1.0, 900.0, 900.0]), Some([0.0, 0.0, 640.0, 480.0]));
        assert_eq!(clipped([640.0, 0.0, 30.0, 40.0]), None);
    }

    #[test]
    fn boxes_of_one_pixel_have_no_inclusive_extent() {
        let mut sample = sample(false);
        sample.boxes.push([10.0, 10.0, 11.0, 100.0]);
        sample.labels.push(4);
        assert_eq!(objects(&sample, BoxConvention::Inclusive).classes, [3]);
        assert_eq!(objects(&sample, BoxConvention::HalfOpen).classes, [3, 4]);
    }
}
