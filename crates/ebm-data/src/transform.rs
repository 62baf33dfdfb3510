//! From an image and its boxes to a network's input.

use crate::error::{Error, Result};
use crate::image::Image;
use crate::resize::{resize_pillow, resize_torch};

/// Which library's resizing to follow, in the rule for the size as well as in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    /// maskrcnn-benchmark: Pillow's antialiased bilinear filter on 8-bit samples, before normalisation.
    Pillow,
    /// torchvision's detectors: bilinear interpolation without antialiasing of normalised f32 samples.
    TorchBilinear,
}

/// The detectors' rule for the size of the input: the short side becomes `short_side`, unless the long side
/// would exceed `max_side`; then the long side becomes `max_side`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeRule {
    /// The short side aimed at, in pixels; 800 in the published detectors.
    pub short_side: usize,
    /// The limit of the long side, in pixels; 1333 in the published detectors.
    pub max_side: usize,
}

impl ResizeRule {
    /// `(height, width)` of the resized image; sides are at least 1.
    ///
    /// With [`Resample::Pillow`] a reduced short side is rounded to an integer before the long side follows from
    /// it, so that the long side may exceed `max_side` by half the aspect ratio. With
    /// [`Resample::TorchBilinear`] both sides are rounded down from one common factor.
    pub fn output_size(&self, height: usize, width: usize, resample: Resample) -> (usize, usize) {
        let (short, long) = (height.min(width).max(1), height.max(width).max(1));
        let (aim, max) = (self.short_side, self.max_side);
        let (new_short, new_long) = match resample {
            Resample::Pillow => {
                let too_long = long as f64 / short as f64 * aim as f64 > max as f64;
                let reduced = (max as f64 * short as f64 / long as f64).round_ties_even() as usize;
                let side = if too_long { reduced } else { aim };
                // A strip so thin that its short side would vanish keeps one row.
                if side == 0 { (1, max) } else { (side, (side as f64 * long as f64 / short as f64) as usize) }
            }
            Resample::TorchBilinear => {
                let scale = (aim as f64 / short as f64).min(max as f64 / long as f64);
                ((short as f64 * scale) as usize, (long as f64 * scale) as usize)
            }
        };
        let (new_short, new_long) = (new_short.max(1), new_long.max(1));
        if height <= width { (new_short, new_long) } else { (new_long, new_short) }
    }

    fn check(&self) -> Result<()> {
        if self.short_side == 0 || self.max_side == 0 {
            let detail =
                format!("short_side {} and max_side {} must be positive", self.short_side, self.max_side);
            return Err(Error::Argument { name: "resize", detail });
        }
        Ok(())
    }
}

/// The order of the channels that a network was trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Red first.
    Rgb,
    /// Blue first, as OpenCV reads images.
    Bgr,
}

/// `(scale · sample - mean) / std` per channel; `mean` and `std` are in the output's channel order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    /// The output's channel order.
    pub order: ChannelOrder,
    /// Multiplies the 8-bit sample.
    pub scale: f32,
    /// Subtracted.
    pub mean: [f32; 3],
    /// Divided by.
    pub std: [f32; 3],
}

impl Normalise {
    /// Of the caffe2 weights that maskrcnn-benchmark starts from: BGR, 0 to 255, mean subtracted.
    pub const CAFFE2: Self =
        Self { order: ChannelOrder::Bgr, scale: 1., mean: [102.9801, 115.9465, 122.7717], std: [1.; 3] };

    /// Of torchvision's weights: RGB, 0 to 1, ImageNet's mean and standard deviation.
    pub const IMAGENET: Self = Self {
        order: ChannelOrder::Rgb,
        scale: 1. / 255.,
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };

    /// The normalised planes `(3, height, width)` of an image.
    pub fn to_chw(&self, image: &Image) -> Vec<f32> {
        let mut planes = Vec::with_capacity(3 * image.width * image.height);
        for channel in 0..3 {
            let (mean, std) = (self.mean[channel], self.std[channel]);
            let table: [f32; 256] = std::array::from_fn(|sample| (sample as f32 * self.scale - mean) / std);
            let source = match self.order {
                ChannelOrder::Rgb => channel,
                ChannelOrder::Bgr => 2 - channel,
            };
            planes.extend(image.pixels.chunks_exact(3).map(|pixel| table[usize::from(pixel[source])]));
        }
        planes
    }

    fn check(&self) -> Result<()> {
        let finite = [self.scale].iter().chain(&self.mean).chain(&self.std).all(|number| number.is_finite());
        if !finite || self.std.contains(&0.) {
            let detail = format!("scale, mean and std must be finite and std not 0: {self:?}");
            return Err(Error::Argument { name: "normalise", detail });
        }
        Ok(())
    }
}

/// The way from pixels to a network's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// The rule for the size.
    pub resize: ResizeRule,
    /// The filter.
    pub resample: Resample,
    /// Normalisation.
    pub normalise: Normalise,
}

impl Transform {
    /// maskrcnn-benchmark's: short side 800, long side 1333, Pillow, [`Normalise::CAFFE2`].
    pub const MASKRCNN_BENCHMARK: Self = Self {
        resize: ResizeRule { short_side: 800, max_side: 1333 },
        resample: Resample::Pillow,
        normalise: Normalise::CAFFE2,
    };

    /// torchvision's: short side 800, long side 1333, unfiltered bilinear, [`Normalise::IMAGENET`].
    pub const TORCHVISION: Self = Self {
        resize: ResizeRule { short_side: 800, max_side: 1333 },
        resample: Resample::TorchBilinear,
        normalise: Normalise::IMAGENET,
    };

    /// Checks that sizes are positive and numbers finite.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the setting.
    pub fn check(&self) -> Result<()> {
        self.resize.check()?;
        self.normalise.check()
    }

    /// `(height, width)` of the input made from an image of this size.
    pub fn output_size(&self, height: usize, width: usize) -> (usize, usize) {
        self.resize.output_size(height, width, self.resample)
    }

    /// The normalised planes `(3, height, width)` of the resized image, and `(height, width)`.
    pub fn apply(&self, image: &Image) -> (Vec<f32>, (usize, usize)) {
        let (height, width) = self.output_size(image.height, image.width);
        let data = match self.resample {
            Resample::Pillow => self.normalise.to_chw(&resize_pillow(image, width, height)),
            Resample::TorchBilinear => {
                let planes = self.normalise.to_chw(image);
                let input = (image.height, image.width);
                let mut data = Vec::with_capacity(3 * height * width);
                for plane in planes.chunks_exact(image.height * image.width) {
                    data.extend_from_slice(&resize_torch(plane, input, (height, width)));
                }
                data
            }
        };
        (data, (height, width))
    }
}

/// Boxes `(x0, y0, x1, y1)` of an image of size `from` (height, width) in the pixels of its resized copy `to`.
pub fn resize_boxes(boxes: &[[f32; 4]], from: (usize, usize), to: (usize, usize)) -> Vec<[f32; 4]> {
    let (down, across) = (to.0 as f32 / from.0 as f32, to.1 as f32 / from.1 as f32);
    boxes.iter().map(|[x0, y0, x1, y1]| [x0 * across, y0 * down, x1 * across, y1 * down]).collect()
}

/// Half-open boxes of an image of `width` columns, mirrored with it: `x ↦ width - x`, corners swapped.
pub fn flip_boxes(boxes: &[[f32; 4]], width: usize) -> Vec<[f32; 4]> {
    let width = width as f32;
    boxes.iter().map(|[x0, y0, x1, y1]| [width - x1, *y0, width - x0, *y1]).collect()
}

/// A batch's sides are multiples of this, so that each level of the feature pyramid halves exactly.
pub const SIZE_DIVISOR: usize = 32;

/// `(height, width)` that holds all of `sizes`, each side rounded up to a multiple of [`SIZE_DIVISOR`].
pub fn padded_size(sizes: impl IntoIterator<Item = (usize, usize)>) -> (usize, usize) {
    let (height, width) =
        sizes.into_iter().fold((0, 0), |(height, width), size| (height.max(size.0), width.max(size.1)));
    (height.next_multiple_of(SIZE_DIVISOR), width.next_multiple_of(SIZE_DIVISOR))
}

/// Copies planes `(3, size.0, size.1)` to the upper left of zeroed planes `(3, padded.0, padded.1)`.
pub(crate) fn paste(planes: &[f32], size: (usize, usize), padded: (usize, usize), target: &mut [f32]) {
    let sources = planes.chunks_exact((size.0 * size.1).max(1));
    for (source, target) in sources.zip(target.chunks_exact_mut((padded.0 * padded.1).max(1))) {
        let rows = source.chunks_exact(size.1.max(1));
        for (source, target) in rows.zip(target.chunks_exact_mut(padded.1.max(1))) {
            target[..size.1].copy_from_slice(source);
        }
    }
}
