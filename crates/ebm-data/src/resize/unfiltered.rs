//! torch's `interpolate(mode="bilinear", align_corners=False)`: four neighbours, no antialiasing.

use pulp::{Arch, Simd, WithSimd};

use super::taps::neighbours;
use crate::image::Image;
use crate::planes::Planes;

/// Memory that serves one image after another.
#[derive(Default)]
pub(crate) struct Unfiltered {
    source: Vec<[f32; 4]>,
    columns: Vec<(usize, usize, f32)>,
    /// Two rows whose columns are resized, each of three planes; row `y` at `y` modulo 2.
    rows: [Vec<f32>; 2],
}

impl Unfiltered {
    /// Resizes the `normalised` pixels of the image, mirrored left to right if asked for, to `(height, width)` in the
    /// upper left of `target`.
    pub fn resize(
        &mut self,
        image: &Image,
        normalised: impl Fn([u8; 3]) -> [f32; 4] + Copy,
        (height, width): (usize, usize),
        mirror: bool,
        target: &mut Planes<'_>,
    ) {
        let arch = Arch::new();
        self.source.resize(image.width, [0.; 4]);
        self.columns.clear();
        self.columns.extend(neighbours(image.width, width));
        self.rows.iter_mut().for_each(|row| row.resize(3 * width, 0.));
        let mut held = [None; 2];
        for (index, (top, bottom, down)) in neighbours(image.height, height).enumerate() {
            for row in [top, bottom] {
                if held[row % 2] == Some(row) {
                    continue;
                }
                held[row % 2] = Some(row);
                let pixels = image.pixels[3 * image.width * row..][..3 * image.width].as_chunks::<3>().0;
                let normalise = |(place, &pixel): (&mut [f32; 4], _)| *place = normalised(pixel);
                if mirror {
                    self.source.iter_mut().rev().zip(pixels).for_each(normalise);
                } else {
                    self.source.iter_mut().zip(pixels).for_each(normalise);
                }
                resize_columns(&self.source, &self.columns, &mut self.rows[row % 2]);
            }
            let [upper, lower] = [top, bottom].map(|row| self.rows[row % 2].chunks_exact(width));
            for ((target, upper), lower) in target.rows(index, width).into_iter().zip(upper).zip(lower) {
                arch.dispatch(Between { upper, lower, down, target });
            }
        }
    }
}

/// A row of one plane between two others.
struct Between<'a> {
    upper: &'a [f32],
    lower: &'a [f32],
    /// The weight of the lower row.
    down: f32,
    target: &'a mut [f32],
}

impl WithSimd for Between<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { upper, lower, down, target } = self;
        for ((number, upper), lower) in target.iter_mut().zip(upper).zip(lower) {
            *number = upper * (1. - down) + lower * down;
        }
    }
}

/// Resizes the columns of a row, of pixels, to three planes.
fn resize_columns(source: &[[f32; 4]], columns: &[(usize, usize, f32)], resized: &mut [f32]) {
    let (first, rest) = resized.split_at_mut(columns.len());
    let (second, third) = rest.split_at_mut(columns.len());
    let targets = first.iter_mut().zip(second).zip(third);
    for (&(left, right, across), ((first, second), third)) in columns.iter().zip(targets) {
        let (left, right) = (source[left], source[right]);
        let [a, b, c, _]: [f32; 4] = std::array::from_fn(|k| left[k] * (1. - across) + right[k] * across);
        (*first, *second, *third) = (a, b, c);
    }
}
