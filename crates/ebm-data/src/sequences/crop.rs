//! Crops around a target, for the training of trackers.

use super::Rect;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::planes::Planes;
use crate::resize::{Unfiltered, neighbours};
use crate::transform::Normalise;

/// Largest side of the square, in pixels. A larger one comes from an invalid box; up to here f32 is exact.
const MAX_SIDE: f64 = (1 << 20) as f64;
/// Largest position; whole numbers are exact in f64 up to here and far beyond.
const MAX_PLACE: f64 = 1e15;

/// Size of the square around a box, and size of the crop that shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchArea {
    /// Side of the square in units of √(width · height) of the box.
    pub factor: f64,
    /// Side S of the crop in pixels.
    pub size: usize,
}

/// Square of an image, in whole pixels, which may extend beyond the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First column.
    pub left: i64,
    /// First row.
    pub top: i64,
    /// Number of columns and of rows.
    pub side: usize,
}

/// Memory that is reused for each crop.
#[derive(Default)]
pub(super) struct CropMemory {
    planes: Vec<f32>,
    resize: Unfiltered,
}

impl SearchArea {
    /// Search area of ATOM: 5 times the box, in 288 × 288 pixels.
    pub const ATOM: Self = Self { factor: 5., size: 288 };

    /// Checks that both numbers are positive and that the size is not too large.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the setting.
    pub fn check(&self) -> Result<()> {
        if !(1..=1 << 14).contains(&self.size) {
            let detail = format!("{} is not in 1 to {}", self.size, 1 << 14);
            return Err(Error::Argument { name: "size", detail });
        }
        if !(self.factor > 0. && self.factor.is_finite()) {
            let detail = format!("{} is not positive", self.factor);
            return Err(Error::Argument { name: "factor", detail });
        }
        Ok(())
    }

    /// Returns the square around the box `around`. Its side is ⌈factor · √(w h)⌉; its corner is the box's centre
    /// minus half the side, rounded, halves to even.
    ///
    /// # Errors
    /// [`Error::Argument`] for a box that is not finite, has no extent, or whose square exceeds 2²⁰ pixels per side.
    pub fn window(&self, around: Rect) -> Result<Window> {
        let [x, y, width, height] = around;
        let side = (self.factor * (width * height).sqrt()).ceil();
        let corner = |start: f64, extent: f64| (start + 0.5 * extent - 0.5 * side).round_ties_even();
        let (left, top) = (corner(x, width), corner(y, height));
        // Not the negation, because no comparison holds for NaN.
        let sound = width > 0. && height > 0. && side <= MAX_SIDE;
        if sound && [left, top].iter().all(|place| place.abs() <= MAX_PLACE) {
            return Ok(Window { left: left as i64, top: top as i64, side: side as usize });
        }
        let detail = format!("{around:?} is no target to crop around; give a finite box with positive sides");
        Err(Error::Argument { name: "box", detail })
    }

    /// Returns the box `target` as `(x, y, w, h)` in pixels of the crop around the box `around`. Its centre is
    /// (S − 1)/2 + (c − c₀) S/side with the centres c and c₀ of the two boxes, and its sides are scaled by S/side.
    ///
    /// This is ATOM's rule. It places a pixel at its index instead of half a pixel further, and ignores the
    /// rounding of the square's corner. The box is therefore half a pixel less, give or take S/(2 side), than a
    /// box that covers the target's pixels.
    ///
    /// # Errors
    /// The errors of [`SearchArea::window`].
    pub fn box_in_crop(&self, target: Rect, around: Rect) -> Result<[f32; 4]> {
        let scale = self.size as f64 / self.window(around)?.side as f64;
        let middle = (self.size as f64 - 1.) / 2.;
        let place = |axis: usize| {
            let centre = |rect: Rect| rect[axis] + 0.5 * rect[axis + 2];
            let extent = target[axis + 2] * scale;
            (middle + (centre(target) - centre(around)) * scale - 0.5 * extent, extent)
        };
        let ((x, width), (y, height)) = (place(0), place(1));
        Ok([x, y, width, height].map(|number| number as f32))
    }

    /// Crops the square around the box `around` to `size` × `size` pixels. Beyond the image its outermost pixels
    /// repeat. Neighbours are interpolated linearly at half-pixel centres, without antialiasing, like OpenCV's
    /// `INTER_LINEAR` and torch's `bilinear` with `align_corners=False`. The result is computed in f32 and
    /// rounded to the nearest of 8 bits, halves up; OpenCV, with weights of 11 bits, differs by at most 1.
    ///
    /// # Errors
    /// [`Error::Failure`] for an image without pixels; the errors of [`SearchArea::check`] and
    /// [`SearchArea::window`].
    pub fn crop(&self, image: &Image, around: Rect) -> Result<Image> {
        self.check()?;
        let mut pixels = Vec::new();
        self.crop_into(image, self.window(around)?, &mut pixels, &mut CropMemory::default())?;
        Image::new(self.size, self.size, pixels)
    }

    /// Crops like [`SearchArea::crop`], into given memory and without a check of the settings.
    pub(super) fn crop_into(
        &self,
        image: &Image,
        window: Window,
        pixels: &mut Vec<u8>,
        CropMemory { planes, resize }: &mut CropMemory,
    ) -> Result<()> {
        image.check()?;
        let axis = |start: i64, len: usize| {
            let inside = move |place: usize| (start + place as i64).clamp(0, len as i64 - 1) as usize;
            neighbours(window.side, self.size, 0..self.size)
                .map(move |(first, second, weight)| (inside(first), inside(second), weight))
        };
        let (rows, columns) = (axis(window.top, image.height), axis(window.left, image.width));
        let area = self.size * self.size;
        planes.resize(3 * area, 0.);
        let tables = Normalise::IDENTITY.tables();
        resize.interpolate(
            image,
            &tables,
            rows,
            columns,
            false,
            &mut Planes::new(planes, (self.size, self.size)),
        );
        let (red, rest) = planes.split_at(area);
        let (green, blue) = rest.split_at(area);
        pixels.resize(3 * area, 0);
        let numbers = red.iter().zip(green).zip(blue);
        for (pixel, ((red, green), blue)) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(numbers) {
            // The conversion through i32 handles several numbers at once.
            *pixel = [red, green, blue].map(|number| (number + 0.5) as i32 as u8);
        }
        Ok(())
    }
}
