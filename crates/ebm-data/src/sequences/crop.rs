//! The square around a target that a tracker learns from.

use super::Rect;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::resize::neighbours;

/// Crops of more pixels per side stand for a box that is no target: positions are exact in f32 up to here.
const MAX_SIDE: f64 = (1 << 20) as f64;

/// How large a square around a box to show, and in how many pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchArea {
    /// The side of the square in units of √(width · height) of the box.
    pub factor: f64,
    /// The side of the crop in pixels, S.
    pub size: usize,
}

/// A square of an image, in whole pixels, which may reach beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first column.
    pub left: i64,
    /// The first row.
    pub top: i64,
    /// Columns, and rows.
    pub side: usize,
}

impl SearchArea {
    /// ATOM's: 5 times the box, in 288 × 288 pixels.
    pub const ATOM: Self = Self { factor: 5., size: 288 };

    /// Checks that both numbers are positive and the size is not beyond reason.
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

    /// The square around the box `around`: its side is ⌈factor · √(w h)⌉, its corner the box's centre less half the side,
    /// rounded, halves to even.
    ///
    /// # Errors
    /// [`Error::Argument`] for a box that is not finite, has no extent, or whose square exceeds 2²⁰ pixels per side.
    pub fn window(&self, around: Rect) -> Result<Window> {
        let [x, y, width, height] = around;
        let side = (self.factor * (width * height).sqrt()).ceil();
        let corner = |start: f64, extent: f64| (start + 0.5 * extent - 0.5 * side).round_ties_even();
        let (left, top) = (corner(x, width), corner(y, height));
        // Not the negation: no comparison holds for what is no number.
        let sound = width > 0. && height > 0. && side <= MAX_SIDE;
        if sound && [left, top].iter().all(|place| place.abs() <= 1e15) {
            return Ok(Window { left: left as i64, top: top as i64, side: side as usize });
        }
        let detail = format!("{around:?} is no target to crop around; give a finite box with positive sides");
        Err(Error::Argument { name: "box", detail })
    }

    /// The box `target` in the pixels of the crop around `around`: `(x, y, w, h)`, of which the centre is
    /// (S − 1)/2 + (c − c₀) S/side with the centres c and c₀ of the two boxes, and the sides are scaled by S/side.
    ///
    /// That is ATOM's rule. A pixel lies there at its number and not half a pixel further, and the rounding of the square's
    /// corner is left out: the box is half a pixel less, give or take S/(2 side), than one that covers the target's pixels.
    ///
    /// # Errors
    /// Those of [`SearchArea::window`].
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

    /// What the square shows, `size` × `size` pixels: beyond the image its outermost pixels go on, and neighbours are
    /// interpolated linearly at half-pixel centres, without antialiasing, as OpenCV's `INTER_LINEAR` and torch's
    /// `bilinear` with `align_corners=False` do. Computed in f32 and rounded to the nearest of 8 bits, halves up; OpenCV,
    /// with weights of 11 bits, differs by at most 1.
    ///
    /// # Errors
    /// [`Error::ImageShape`] for an image without pixels.
    pub fn crop(&self, image: &Image, window: Window) -> Result<Image> {
        let mut pixels = Vec::new();
        self.crop_into(image, window, &mut pixels)?;
        Image::new(self.size, self.size, pixels)
    }

    /// As [`SearchArea::crop`], into memory.
    pub(super) fn crop_into(&self, image: &Image, window: Window, pixels: &mut Vec<u8>) -> Result<()> {
        let Image { width, height, pixels: source } = image;
        if source.is_empty() || source.len() != 3 * width * height {
            return Err(Error::ImageShape { width: *width, height: *height, len: source.len() });
        }
        let columns = axis(window.left, window.side, *width, self.size);
        let rows = axis(window.top, window.side, *height, self.size);
        let row = |y: usize| source[3 * width * y..][..3 * width].as_chunks::<3>().0;
        pixels.clear();
        pixels.reserve(3 * self.size * self.size);
        for (top, bottom, down) in rows {
            let (upper, lower) = (row(top), row(bottom));
            for &(left, right, across) in &columns {
                for channel in 0..3 {
                    let [a, b, c, d] = [upper[left], upper[right], lower[left], lower[right]]
                        .map(|pixel| f32::from(pixel[channel]));
                    let (upper, lower) = (a * (1. - across) + b * across, c * (1. - across) + d * across);
                    pixels.push((upper * (1. - down) + lower * down + 0.5) as u8);
                }
            }
        }
        Ok(())
    }
}

/// Of each of `size` places of a crop the two neighbours in the image, and the weight of the second.
fn axis(start: i64, side: usize, len: usize, size: usize) -> Vec<(usize, usize, f32)> {
    let inside = |place: usize| (start + place as i64).clamp(0, len as i64 - 1) as usize;
    neighbours(side, size, 0..size)
        .map(|(first, second, weight)| (inside(first), inside(second), weight))
        .collect()
}
