//! Conversion of an image and its boxes to a network's input.

use ebm_base::settings::Setting;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::image::Image;
use crate::planes::Planes;
use crate::resize::{Filtered, Unfiltered, neighbours};

/// Library whose resizing is followed, in the rule for the size and in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resample {
    /// maskrcnn-benchmark: Pillow's antialiased bilinear filter on 8-bit samples, before normalisation.
    Pillow,
    /// torchvision's detectors: bilinear interpolation without antialiasing of normalised f32 samples.
    #[serde(rename = "torch")]
    TorchBilinear,
}

impl Setting for Resample {}

/// Rule of detectors for the size of the input. The short side becomes `short_side`. If the long side would then
/// exceed `max_side`, the long side becomes `max_side` instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeRule {
    /// Desired short side in pixels; 800 in the published detectors.
    pub short_side: usize,
    /// Largest long side in pixels; 1333 in the published detectors.
    pub max_side: usize,
}

impl ResizeRule {
    /// Returns `(height, width)` of the resized image; sides are at least 1.
    ///
    /// With [`Resample::Pillow`] a reduced short side is rounded to an integer before the long side is computed
    /// from it, so that the long side may exceed `max_side` by half the aspect ratio. With
    /// [`Resample::TorchBilinear`] both sides are rounded down after scaling by one factor.
    pub fn output_size(&self, height: usize, width: usize, resample: Resample) -> (usize, usize) {
        let (short, long) = (height.min(width).max(1), height.max(width).max(1));
        let (aim, max) = (self.short_side, self.max_side);
        let (new_short, new_long) = match resample {
            Resample::Pillow => {
                let too_long = long as f64 / short as f64 * aim as f64 > max as f64;
                let reduced = (max as f64 * short as f64 / long as f64).round_ties_even() as usize;
                let side = if too_long { reduced } else { aim };
                // A strip whose short side would vanish keeps one row.
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

/// Order of the channels in a network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelOrder {
    /// Red first.
    Rgb,
    /// Blue first, as OpenCV reads images and caffe2's weights expect them.
    Bgr,
}

impl Setting for ChannelOrder {}

/// Normalisation `(scale · sample - mean) / std` per channel; `mean` and `std` are in the output's channel order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    /// Channel order of the output.
    pub order: ChannelOrder,
    /// Factor of the 8-bit sample.
    pub scale: f32,
    /// Mean of each channel, which is subtracted.
    pub mean: [f32; 3],
    /// Standard deviation of each channel, which is the divisor.
    pub std: [f32; 3],
}

impl Normalise {
    /// Normalisation of the caffe2 weights that maskrcnn-benchmark starts from: BGR, 0 to 255, mean subtracted.
    pub const CAFFE2: Self =
        Self { order: ChannelOrder::Bgr, scale: 1., mean: [102.9801, 115.9465, 122.7717], std: [1.; 3] };

    /// Normalisation of torchvision's weights: RGB, 0 to 1, ImageNet's mean and standard deviation.
    pub const IMAGENET: Self = Self {
        order: ChannelOrder::Rgb,
        scale: 1. / 255.,
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };

    /// No normalisation: RGB, 0 to 255.
    pub const IDENTITY: Self = Self { order: ChannelOrder::Rgb, scale: 1., mean: [0.; 3], std: [1.; 3] };

    /// Returns the normalised planes `(3, height, width)` of an image.
    pub fn to_chw(&self, image: &Image) -> Vec<f32> {
        let (arch, size) = (Arch::new(), (image.height, image.width));
        let mut data = vec![0.; 3 * size.0 * size.1];
        let mut planes = Planes::new(&mut data, size);
        Filtered::default().resize(image, size, false, |y, row| {
            self.write_row(arch, row, planes.rows(y, size.1));
        });
        data
    }

    /// Returns the index of the RGB sample for each output channel.
    fn sources(&self) -> [usize; 3] {
        match self.order {
            ChannelOrder::Rgb => [0, 1, 2],
            ChannelOrder::Bgr => [2, 1, 0],
        }
    }

    #[inline(always)]
    fn number(&self, sample: u8, channel: usize) -> f32 {
        (f32::from(sample) * self.scale - self.mean[channel]) / self.std[channel]
    }

    /// Writes the normalised planes of a row of pixels; the fourth sample of a pixel is ignored.
    pub(crate) fn write_row(&self, arch: Arch, row: &[[u8; 4]], target: [&mut [f32]; 3]) {
        for (channel, (target, source)) in target.into_iter().zip(self.sources()).enumerate() {
            arch.dispatch(|| {
                for (number, &pixel) in target.iter_mut().zip(row) {
                    // The shift is one instruction for many pixels; indexing is not.
                    let sample = (u32::from_le_bytes(pixel) >> (8 * source)) as u8;
                    *number = self.number(sample, channel);
                }
            });
        }
    }

    pub(crate) fn tables(&self) -> Tables {
        self.brightened([1.; 3])
    }

    /// Returns the tables for samples that are first multiplied by their channel's factor, in the output's order,
    /// and clipped at white.
    pub(crate) fn brightened(&self, factors: [f32; 3]) -> Tables {
        let number = |sample, channel: usize| {
            let bright = (f32::from(sample) * factors[channel]).clamp(0., 255.);
            (bright * self.scale - self.mean[channel]) / self.std[channel]
        };
        let table = |channel| std::array::from_fn(|sample| number(sample as u8, channel));
        Tables { order: self.order, channels: std::array::from_fn(table) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let finite = [self.scale].iter().chain(&self.mean).chain(&self.std).all(|number| number.is_finite());
        if !finite || self.std.contains(&0.) {
            let detail = format!("scale, mean and std must be finite and std not 0: {self:?}");
            return Err(Error::Argument { name: "normalise", detail });
        }
        Ok(())
    }
}

/// Normalised value of each sample, per channel.
pub(crate) struct Tables {
    order: ChannelOrder,
    channels: [[f32; 256]; 3],
}

impl Tables {
    /// Returns a normalised pixel; the fourth number is 0.
    #[inline(always)]
    pub fn pixel(&self, [red, green, blue]: [u8; 3]) -> [f32; 4] {
        let (first, third) = match self.order {
            ChannelOrder::Rgb => (red, blue),
            ChannelOrder::Bgr => (blue, red),
        };
        let [a, b, c] = &self.channels;
        [a[usize::from(first)], b[usize::from(green)], c[usize::from(third)], 0.]
    }
}

/// Conversion of pixels to a network's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// Rule for the size.
    pub resize: ResizeRule,
    /// Resizing filter.
    pub resample: Resample,
    /// Normalisation of the pixels.
    pub normalise: Normalise,
}

impl Transform {
    /// Transform of maskrcnn-benchmark: short side 800, long side 1333, Pillow, [`Normalise::CAFFE2`].
    pub const MASKRCNN_BENCHMARK: Self = Self {
        resize: ResizeRule { short_side: 800, max_side: 1333 },
        resample: Resample::Pillow,
        normalise: Normalise::CAFFE2,
    };

    /// Transform of torchvision: short side 800, long side 1333, unfiltered bilinear, [`Normalise::IMAGENET`].
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

    /// Returns `(height, width)` of the input made from an image of this size.
    pub fn output_size(&self, height: usize, width: usize) -> (usize, usize) {
        self.resize.output_size(height, width, self.resample)
    }

    /// Returns the normalised planes `(3, height, width)` of the resized image, and `(height, width)`.
    pub fn apply(&self, image: &Image) -> (Vec<f32>, (usize, usize)) {
        let size = self.output_size(image.height, image.width);
        let mut data = vec![0.; 3 * size.0 * size.1];
        self.write(image, false, &mut Planes::new(&mut data, size), &mut TransformMemory::default());
        (data, size)
    }

    /// Writes the normalised planes of the resized image to the upper left of `target`, mirrored left to right if
    /// `mirror`, and zeros to the rest. Returns the `(height, width)` of the resized image. `target` must be
    /// large enough.
    pub(crate) fn write(
        &self,
        image: &Image,
        mirror: bool,
        target: &mut Planes<'_>,
        memory: &mut TransformMemory,
    ) -> (usize, usize) {
        let size = self.output_size(image.height, image.width);
        let normalise = &self.normalise;
        match self.resample {
            Resample::Pillow => {
                let arch = Arch::new();
                memory.filtered.resize(image, size, mirror, |y, row| {
                    normalise.write_row(arch, row, target.rows(y, size.1));
                });
            }
            Resample::TorchBilinear => {
                let rows = neighbours(image.height, size.0, 0..size.0);
                let columns = neighbours(image.width, size.1, 0..size.1);
                memory.unfiltered.interpolate(image, &normalise.tables(), rows, columns, mirror, target);
            }
        }
        target.pad_below(size.0);
        size
    }
}

/// Memory that is reused for each image.
#[derive(Default)]
pub struct TransformMemory {
    pub(crate) filtered: Filtered,
    pub(crate) unfiltered: Unfiltered,
}

/// Converts boxes `(x0, y0, x1, y1)` from an image of size `from` (height, width) to its resized copy of size `to`.
pub fn resize_boxes(boxes: &[[f32; 4]], from: (usize, usize), to: (usize, usize)) -> Vec<[f32; 4]> {
    let (down, across) = (to.0 as f32 / from.0 as f32, to.1 as f32 / from.1 as f32);
    boxes.iter().map(|[x0, y0, x1, y1]| [x0 * across, y0 * down, x1 * across, y1 * down]).collect()
}

/// Mirrors half-open boxes with their image of `width` columns: `x ↦ width - x`, corners swapped.
pub fn flip_boxes(boxes: &[[f32; 4]], width: usize) -> Vec<[f32; 4]> {
    let width = width as f32;
    boxes.iter().map(|[x0, y0, x1, y1]| [width - x1, *y0, width - x0, *y1]).collect()
}

/// Divisor of a batch's sides, so that each level of the feature pyramid halves exactly.
pub const SIZE_DIVISOR: usize = 32;

/// Returns the `(height, width)` that holds all of `sizes`, each side rounded up to a multiple of [`SIZE_DIVISOR`].
pub fn padded_size(sizes: impl IntoIterator<Item = (usize, usize)>) -> (usize, usize) {
    let (height, width) =
        sizes.into_iter().fold((0, 0), |(height, width), size| (height.max(size.0), width.max(size.1)));
    (height.next_multiple_of(SIZE_DIVISOR), width.next_multiple_of(SIZE_DIVISOR))
}
