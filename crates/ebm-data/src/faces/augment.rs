//! Conversion of a face to a network's input, without or with the published augmentation.

use pulp::Arch;
use rand::RngCore;

use crate::draw::{below, unit};
use crate::error::{Error, Result};
use crate::image::Image;
use crate::loader::{Planes, check_range};
use crate::resize::{neighbours, resize_pillow};
use crate::transform::{Normalise, TransformMemory};

/// Augmentation of the paper's age and head-pose experiments (supplement): mirroring, a random scale, a random crop.
///
/// The paper gives a range of scales, and scales are drawn uniformly from it. (Code of the authors' later work
/// draws from a grid of step 0.1, which is not copied.)
#[derive(Clone, Debug, PartialEq)]
pub struct Augmentation {
    /// Probability of mirroring left to right.
    pub flip_probability: f64,
    /// Factors, each 1 or −1, of the D numbers of the target when the image is mirrored: `[1]` for the age,
    /// `[-1, 1, -1]` for yaw, pitch and roll.
    pub flip_signs: Vec<f32>,
    /// Smallest and largest scale; 0.7 and 1.4 in the paper.
    pub scale: [f64; 2],
}

impl Augmentation {
    /// Returns the augmentation of the paper: mirrored with probability 0.5, scaled by 0.7 to 1.4.
    pub fn published(flip_signs: Vec<f32>) -> Self {
        Self { flip_probability: 0.5, flip_signs, scale: [0.7, 1.4] }
    }

    /// Draws a placement in a square of `size` pixels. It draws mirroring, then the scale, then the row and the
    /// column of the crop, uniformly over all that lie inside. A scaled image that is not larger than the square
    /// is not cropped.
    pub fn draw(&self, size: usize, rng: &mut dyn RngCore) -> Placement {
        let [low, high] = self.scale;
        let flipped = unit(rng) < self.flip_probability;
        let side = scaled(size, low + (high - low) * unit(rng));
        let places = side.saturating_sub(size) + 1;
        let (row, column) = (below(places, rng), below(places, rng));
        Placement { flipped, side, offset: (row, column) }
    }

    /// Returns a copy of `target`, with the signs of the mirrored image if `flipped`.
    pub(super) fn target(&self, target: &[f32], flipped: bool) -> Vec<f32> {
        if !flipped {
            return target.to_vec();
        }
        target.iter().zip(&self.flip_signs).map(|(number, sign)| number * sign).collect()
    }

    fn check(&self, size: usize) -> Result<()> {
        check_range("flip_probability", self.flip_probability, 1.)?;
        let fail = |name, detail| Err(Error::Argument { name, detail });
        if self.flip_signs.iter().any(|sign| sign.abs() != 1.) {
            return fail("flip_signs", format!("{:?}: give 1 or -1 for each number", self.flip_signs));
        }
        let [low, high] = self.scale;
        // Not the negation, because no comparison holds for NaN.
        if low <= high && scaled(size, low) >= 1 && scaled(size, high) <= MAX_SIDE {
            return Ok(());
        }
        let detail =
            format!("[{low}, {high}]: give a range whose images have 1 to {MAX_SIDE} pixels per side");
        fail("scale", detail)
    }
}

/// Returns the side of an image of side `size` after scaling.
fn scaled(size: usize, scale: f64) -> usize {
    (size as f64 * scale).round() as usize
}

/// Largest side, in pixels. Up to here positions are exact in the resizing's f32, and the size of a batch of one
/// image does not overflow.
const MAX_SIDE: usize = 1 << 15;

/// Place of an augmented image in the square that it is cropped or padded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// `true` if the image is mirrored left to right.
    pub flipped: bool,
    /// Side of the scaled image, in pixels.
    pub side: usize,
    /// First `(row, column)` of the scaled image that the crop shows.
    pub offset: (usize, usize),
}

/// Conversion of a face's pixels to a network's input (3, size, size).
#[derive(Clone, Debug, PartialEq)]
pub struct FaceTransform {
    /// Side of the input in pixels; 200 for UTKFace, 64 for BIWI.
    pub size: usize,
    /// Normalisation of the pixels.
    pub normalise: Normalise,
    /// Augmentation of training images; `None` for evaluation.
    pub augmentation: Option<Augmentation>,
}

impl FaceTransform {
    /// Checks that sizes are positive, numbers finite, probabilities within 0 to 1 and signs 1 or −1.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the setting.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_SIDE).contains(&self.size) {
            let detail = format!("{} is not in 1 to {MAX_SIDE}", self.size);
            return Err(Error::Argument { name: "size", detail });
        }
        self.normalise.check()?;
        self.augmentation.as_ref().map_or(Ok(()), |augmentation| augmentation.check(self.size))
    }

    /// Returns the normalised planes (3, size, size) of an image, placed by [`Augmentation::draw`] if there is a
    /// `placement`.
    ///
    /// An image of another size is first resized to size × size by Pillow's bilinear filter, which is antialiased
    /// when reducing; its aspect ratio is not kept. An image of the right size is not changed by this step.
    ///
    /// A placed image is then mirrored and resized to [`Placement::side`] by unfiltered bilinear interpolation
    /// (OpenCV's, and torch's with `align_corners=False`; not rounded to 8 bits). It is cropped to the square
    /// that begins at [`Placement::offset`], and padded with black pixels at the bottom and on the right.
    pub fn apply(&self, image: &Image, placement: Option<Placement>) -> Vec<f32> {
        let mut data = vec![0.; 3 * self.size * self.size];
        let mut planes = Planes::new(&mut data, (self.size, self.size));
        self.write(image, placement, &mut planes, &mut TransformMemory::default());
        data
    }

    /// Writes the result of [`FaceTransform::apply`] to planes of its size; every number is written.
    pub(super) fn write(
        &self,
        image: &Image,
        placement: Option<Placement>,
        planes: &mut Planes<'_>,
        memory: &mut TransformMemory,
    ) {
        let size = self.size;
        let Some(Placement { flipped, side, offset: (row, column) }) = placement else {
            let arch = Arch::new();
            memory.filtered.resize(image, (size, size), false, |y, row| {
                self.normalise.write_row(arch, row, planes.rows(y, size));
            });
            return;
        };
        let tables = self.normalise.tables();
        let [first, second, third, _] = tables.pixel([0; 3]);
        planes.pad_with([first, second, third]);
        let shown = |start: usize| start.min(side)..start.saturating_add(size).min(side);
        let (rows, columns) = (shown(row), shown(column));
        let height = if columns.is_empty() { 0 } else { rows.len() };
        let square = ((image.height, image.width) != (size, size)).then(|| resize_pillow(image, size, size));
        let square = square.as_ref().unwrap_or(image);
        let (rows, columns) = (neighbours(size, side, rows), neighbours(size, side, columns));
        memory.unfiltered.interpolate(square, &tables, rows, columns, flipped, planes);
        planes.pad_below(height);
    }
}
