//! torch's `interpolate(mode="bilinear", align_corners=False)`: four neighbours, no antialiasing.

use pulp::Arch;

use super::taps::Neighbours;
use crate::image::Image;
use crate::planes::Planes;
use crate::transform::Tables;

/// Interpolator whose memory is reused for each image.
#[derive(Default)]
pub(crate) struct Unfiltered {
    source: Vec<[f32; 4]>,
    columns: Vec<Neighbours>,
    wide: Vec<[f32; 4]>,
    /// Two rows with resized columns, each of three planes.
    rows: [Vec<f32>; 2],
}

impl Unfiltered {
    /// Interpolates between the given rows and columns of the image, mirrored left to right if `mirror`. The
    /// results are written to the upper left of `target`; `tables` converts the samples to numbers. Columns must
    /// not decrease.
    pub fn interpolate(
        &mut self,
        image: &Image,
        tables: &Tables,
        rows: impl Iterator<Item = Neighbours>,
        columns: impl Iterator<Item = Neighbours>,
        mirror: bool,
        target: &mut Planes<'_>,
    ) {
        let arch = Arch::new();
        self.columns.clear();
        self.columns.extend(columns);
        let shown = self.columns.len();
        let (Some(&(start, ..)), Some(&(_, last, _))) = (self.columns.first(), self.columns.last()) else {
            return;
        };
        // Columns relative to the first needed column of the mirrored image; no other columns are needed.
        for (left, right, _) in &mut self.columns {
            (*left, *right) = (*left - start, *right - start);
        }
        let end = last + 1;
        let in_file = if mirror { image.width - end..image.width - start } else { start..end };
        self.source.resize(end - start, [0.; 4]);
        self.wide.resize(shown, [0.; 4]);
        self.rows.iter_mut().for_each(|row| row.resize(3 * shown, 0.));
        let mut held = [None; 2];
        for (index, (top, bottom, down)) in rows.enumerate() {
            for row in [top, bottom] {
                if held.contains(&Some(row)) {
                    continue;
                }
                // Not in the place of the other needed row.
                let place = usize::from(held[0] == Some(top) || held[0] == Some(bottom));
                held[place] = Some(row);
                let pixels = image.pixels[3 * image.width * row..][..3 * image.width].as_chunks::<3>().0;
                let pixels = &pixels[in_file.clone()];
                let look_up = |(place, &rgb): (&mut [f32; 4], &[u8; 3])| *place = tables.pixel(rgb);
                if mirror {
                    self.source.iter_mut().rev().zip(pixels).for_each(look_up);
                } else {
                    self.source.iter_mut().zip(pixels).for_each(look_up);
                }
                arch.dispatch(|| self.resize_columns(place));
            }
            let places = [top, bottom].map(|row| usize::from(held[0] != Some(row)));
            let [upper, lower] = places.map(|place| self.rows[place].chunks_exact(shown));
            for ((target, upper), lower) in target.rows(index, shown).into_iter().zip(upper).zip(lower) {
                arch.dispatch(|| {
                    for ((number, upper), lower) in target.iter_mut().zip(upper).zip(lower) {
                        *number = upper * (1. - down) + lower * down;
                    }
                });
            }
        }
    }

    /// Resizes the columns of the row of pixels in `source` into the three planes of `rows[place]`.
    #[inline(always)]
    fn resize_columns(&mut self, place: usize) {
        let Self { source, columns, wide, rows } = self;
        // All four numbers at once, including the unused one, so that a register holds the pixel.
        for (pixel, &(left, right, across)) in wide.iter_mut().zip(&*columns) {
            let (left, right): ([f32; 4], [f32; 4]) = (source[left], source[right]);
            *pixel = std::array::from_fn(|k| left[k] * (1. - across) + right[k] * across);
        }
        let (first, rest) = rows[place].split_at_mut(wide.len());
        let (second, third) = rest.split_at_mut(wide.len());
        for (((pixel, first), second), third) in wide.iter().zip(first).zip(second).zip(third) {
            [*first, *second, *third, _] = *pixel;
        }
    }
}
