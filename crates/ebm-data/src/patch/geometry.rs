//! Geometry of a patch: the pixels of an image that it is made from.

use crate::error::{Error, Result};
use crate::resize::{Neighbours, neighbours};

/// Square of an image and its resized copy, with the conversion of positions between the two.
///
/// With the ratio `r = sample_size / output`, every `df = max(⌊r - 0.1⌋, 1)`-th pixel of the image is used, on
/// the grid that contains the centre. The square has `round(sample_size / df)` of these pixels on each side and
/// is resized bilinearly (`align_corners=False`, no antialiasing) to `output` pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchGeometry {
    /// Row and column of the first pixel used, which may lie outside the image.
    first: [i64; 2],
    /// Distance between two pixels used.
    step: i64,
    /// Number of pixels used in each row and in each column.
    side: usize,
    /// Side of the patch.
    output: usize,
}

/// Largest coordinate, beyond any image. All sums of such numbers are exact in f64.
const FARTHEST: f64 = (1u32 << 30) as f64;

/// Largest side. Positions up to here are exact in the resizing's f32.
const MAX_SIDE: usize = 1 << 15;

impl PatchGeometry {
    /// Describes a patch of `output` pixels per side. It shows the square of `sample_size` image pixels per side
    /// around `center`, a `(row, column)` whose fractions are cut off. A square with an even number of pixels
    /// reaches one pixel farther down and to the right of its centre.
    ///
    /// # Errors
    /// [`Error::Argument`] for numbers that are not finite or beyond 2³⁰, and for a side that is not positive.
    pub fn new(center: [f64; 2], sample_size: f64, output: usize) -> Result<Self> {
        let fail = |name, detail| Err(Error::Argument { name, detail });
        if !center.iter().all(|number| number.abs() <= FARTHEST) {
            return fail("center", format!("{center:?} is not a position within 2^30 pixels"));
        }
        if !(1..=MAX_SIDE).contains(&output) {
            return fail("output", format!("{output} is not in 1 to {MAX_SIDE} pixels"));
        }
        if !(sample_size > 0. && sample_size <= FARTHEST) {
            return fail("sample_size", format!("{sample_size} is not a positive number up to 2^30"));
        }
        // Casts cut the fraction off.
        let step = ((sample_size / output as f64 - 0.1) as i64).max(1);
        let side = (sample_size / step as f64).round_ties_even().max(1.) as usize;
        if side > MAX_SIDE {
            return fail(
                "sample_size",
                format!("{sample_size} is too large for an output of {output} pixels"),
            );
        }
        let before = step * ((side as i64 - 1) / 2);
        Ok(Self { first: center.map(|number| number as i64 - before), step, side, output })
    }

    /// Returns the patch's side in pixels.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Returns the number of image pixels per patch pixel. A length in the patch times this is the length in the
    /// image.
    pub fn scale(&self) -> f64 {
        (self.step * self.side as i64) as f64 / self.output as f64
    }

    /// Returns the `(row, column)` in the image of the patch's middle, which is `(output - 1) / 2` in the patch. If
    /// the square has an even number of pixels used, it differs from the truncated centre by half of their distance.
    pub fn center(&self) -> [f64; 2] {
        self.to_image([0.5 * (self.output as f64 - 1.); 2])
    }

    /// Converts a position `(row, column)` in the patch to the image.
    pub fn to_image(&self, position: [f64; 2]) -> [f64; 2] {
        let offset = 0.5 * (self.scale() - self.step as f64);
        [0, 1].map(|axis| self.first[axis] as f64 + offset + self.scale() * position[axis])
    }

    /// Converts a position `(row, column)` in the image to the patch.
    pub fn to_patch(&self, position: [f64; 2]) -> [f64; 2] {
        let offset = 0.5 * (self.scale() - self.step as f64);
        [0, 1].map(|axis| (position[axis] - self.first[axis] as f64 - offset) / self.scale())
    }

    /// Returns, for each row (`axis` 0) or column (1) of the patch, the two neighbours in an image with `len`
    /// rows or columns, and the weight of the second. Beyond the image its last pixels on the grid repeat.
    pub(super) fn neighbours(&self, axis: usize, len: usize) -> impl Iterator<Item = Neighbours> + use<> {
        let Self { first, step, side, output } = *self;
        let first = first[axis];
        let last = len as i64 - 1;
        let lowest = first.rem_euclid(step).min(last);
        let highest = lowest + (last - lowest) / step * step;
        // Between 0 and `last`.
        let place = move |sample: usize| (first + step * sample as i64).clamp(lowest, highest) as usize;
        neighbours(side, output, 0..output).map(move |(low, high, weight)| (place(low), place(high), weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsampling_follows_the_ratio() {
        for (sample_size, step, side) in [
            (288., 1, 288),
            (600., 1, 600),
            (605., 2, 302),
            (892.8, 2, 446),
            (893., 3, 298),
            (3., 1, 3),
            (0.2, 1, 1),
        ] {
            let geometry = PatchGeometry::new([50.9, -7.9], sample_size, 288).unwrap();
            assert_eq!((geometry.step, geometry.side), (step, side), "{sample_size}");
            let before = step * ((side as i64 - 1) / 2);
            assert_eq!(geometry.first, [50 - before, -7 - before], "{sample_size}");
        }
    }

    #[test]
    fn positions_go_there_and_back() {
        let geometry = PatchGeometry::new([100.2, 81.], 700., 288).unwrap();
        assert_eq!(geometry.scale(), 700. / 288.);
        let [row, column] = geometry.to_patch(geometry.to_image([3.25, 287.]));
        assert!((row - 3.25).abs() < 1e-9 && (column - 287.).abs() < 1e-9);
        let odd = PatchGeometry::new([100.2, 81.], 577., 288).unwrap();
        let [row, column] = odd.center();
        assert!((row - 100.).abs() < 1e-12 && (column - 81.).abs() < 1e-12);
        let [row, column] = PatchGeometry::new([100.2, 81.], 576., 288).unwrap().center();
        assert!((row - 100.5).abs() < 1e-12 && (column - 81.5).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_square_is_refused() {
        for (center, size, output) in [
            ([f64::NAN, 0.], 10., 10),
            ([0., 1e10], 10., 10),
            ([0., 0.], 0., 10),
            ([0., 0.], f64::NAN, 10),
            ([0., 0.], f64::INFINITY, 10),
            ([0., 0.], 10., 0),
        ] {
            assert!(matches!(PatchGeometry::new(center, size, output), Err(Error::Argument { .. })));
        }
    }
}
