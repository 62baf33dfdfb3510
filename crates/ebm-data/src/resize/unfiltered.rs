//! torch's `interpolate(mode="bilinear", align_corners=False)`: four neighbours, no antialiasing.

use pulp::Arch;

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
                let (source, columns, resized) =
                    (&mut self.source[..], &self.columns[..], &mut self.rows[row % 2][..]);
                arch.dispatch(|| {
                    let normalise = |(place, &pixel): (&mut [f32; 4], _)| *place = normalised(pixel);
                    if mirror {
                        source.iter_mut().rev().zip(pixels).for_each(normalise);
                    } else {
                        source.iter_mut().zip(pixels).for_each(normalise);
                    }
                    resize_columns(source, columns, resized);
                });
            }
            let [upper, lower] = [top, bottom].map(|row| self.rows[row % 2].chunks_exact(width));
            let target = target.rows(index, width);
            arch.dispatch(|| {
                for ((target, upper), lower) in target.into_iter().zip(upper).zip(lower) {
                    for ((number, upper), lower) in target.iter_mut().zip(upper).zip(lower) {
                        *number = upper * (1. - down) + lower * down;
                    }
                }
            });
        }
    }
}

/// Resizes the columns of a row, of pixels, to three planes.
#[inline(always)]
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
