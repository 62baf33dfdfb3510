//! Pillow's filter in fixed-point arithmetic. The sums are exact in any order.

use pulp::Arch;

use super::taps::{Filter, PRECISION_BITS, Taps};
use crate::image::Image;

/// Samples that are summed together: four pixels of one row or one pixel of four rows. Each pixel is red, green,
/// blue and an unused sample.
type Lanes = [u8; 16];

/// Number of rows whose columns are resized together.
const BAND: usize = 4;

/// Resizer whose memory is reused for each image.
#[derive(Default)]
pub(crate) struct Filtered {
    filter: Filter,
    /// Pixels of [`BAND`] rows, for each column of the image.
    band: Vec<Lanes>,
    /// Latest rows with resized columns; row `y` is at `y` modulo their number.
    ring: Vec<Lanes>,
    /// Positions in the ring of the rows that make one row of the output.
    sources: Vec<usize>,
    row: Vec<Lanes>,
}

impl Filtered {
    /// Makes a resizer with this filter; the default is [`Filter::Bilinear`].
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Resizes the image to `(height, width)`, mirrored left to right if `mirror`. Each row is passed to `sink`
    /// in order, with its number.
    pub fn resize(
        &mut self,
        image: &Image,
        (height, width): (usize, usize),
        mirror: bool,
        mut sink: impl FnMut(usize, &[[u8; 4]]),
    ) {
        let arch = Arch::new();
        let columns = (width != image.width).then(|| Taps::new(image.width, width, self.filter));
        let rows = Taps::new(image.height, height, self.filter);
        let row_len = width.div_ceil(4);
        // The first and the last band with sources of one output row may hold other rows too.
        let ring_rows = (rows.stride() + BAND).min(image.height).next_multiple_of(BAND);
        self.band.resize(image.width, Lanes::default());
        self.ring.resize(ring_rows * row_len, Lanes::default());
        self.row.resize(row_len, Lanes::default());

        let mut bands = (0..).step_by(BAND).zip(image.pixels.chunks(3 * image.width * BAND)).peekable();
        for (index, (start, weights)) in rows.iter().enumerate() {
            while let Some((first, band)) = bands.next_if(|&(first, _)| first < start + weights.len()) {
                let resized = &mut self.ring[first % ring_rows * row_len..][..BAND * row_len];
                let rows = band.chunks_exact(3 * image.width);
                match &columns {
                    None => {
                        for (row, resized) in rows.zip(resized.chunks_exact_mut(row_len)) {
                            copy_pixels(row, mirror, resized.as_flattened_mut().as_chunks_mut().0, |cell| {
                                cell
                            });
                        }
                    }
                    Some(taps) => {
                        for (lane, row) in rows.enumerate() {
                            copy_pixels(row, mirror, &mut self.band, |cell| {
                                &mut cell.as_chunks_mut().0[lane % BAND]
                            });
                        }
                        arch.dispatch(|| resize_columns(&self.band, taps, resized));
                    }
                }
            }
            self.sources.clear();
            self.sources.extend((start..start + weights.len()).map(|row| row % ring_rows * row_len));
            let (ring, sources) = (&self.ring[..], &self.sources[..]);
            let row = if let &[source] = sources {
                // A single sample has the weight 1.
                &ring[source..][..row_len]
            } else {
                let row = &mut self.row;
                arch.dispatch(|| {
                    for (place, lanes) in row.iter_mut().enumerate() {
                        *lanes = weighted_sum(sources.iter().map(|source| &ring[source + place]), weights);
                    }
                });
                &self.row[..]
            };
            sink(index, &row.as_flattened().as_chunks().0[..width]);
        }
    }
}

/// Copies the pixels of a row. `place` selects the target pixel in each of `cells`; `mirror` reverses the order.
#[inline(always)]
fn copy_pixels<C>(row: &[u8], mirror: bool, cells: &mut [C], place: impl Fn(&mut C) -> &mut [u8; 4]) {
    let pixels = row.as_chunks::<3>().0;
    let cells = &mut cells[..pixels.len()];
    let copy = |(cell, &[red, green, blue]): (&mut C, &[u8; 3])| *place(cell) = [red, green, blue, 0];
    if mirror {
        cells.iter_mut().rev().zip(pixels).for_each(copy);
    } else {
        cells.iter_mut().zip(pixels).for_each(copy);
    }
}

/// Resizes the columns of a band of rows, and writes the rows one after the other.
#[inline(always)]
fn resize_columns(band: &[Lanes], taps: &Taps, resized: &mut [Lanes]) {
    let rows = resized.as_flattened_mut().as_chunks_mut::<4>().0;
    let row_len = rows.len() / BAND;
    let (top, rest) = rows.split_at_mut(row_len);
    let (second, rest) = rest.split_at_mut(row_len);
    let (third, bottom) = rest.split_at_mut(row_len);
    let targets = top.iter_mut().zip(second).zip(third).zip(bottom);
    for ((start, weights), (((top, second), third), bottom)) in taps.iter().zip(targets) {
        let lanes = weighted_sum(band[start..start + weights.len()].iter(), weights);
        if let [a, b, c, d] = *lanes.as_chunks::<4>().0 {
            (*top, *second, *third, *bottom) = (a, b, c, d);
        }
    }
}

/// Returns `Σ_k weights[k] · samples[k]`, rounded.
#[inline(always)]
fn weighted_sum<'a>(samples: impl Iterator<Item = &'a Lanes>, weights: &[i32]) -> Lanes {
    let mut sums = [1 << (PRECISION_BITS - 1); 16];
    for (samples, weight) in samples.zip(weights) {
        for (sum, &sample) in sums.iter_mut().zip(samples) {
            *sum += i32::from(sample) * weight;
        }
    }
    // The weights are not negative and add up to 1, or a little more after rounding.
    sums.map(|sum| (sum >> PRECISION_BITS).min(255) as u8)
}
