//! Loops over the pixels and channels of a row.

use pulp::{Arch, Simd, WithSimd};

use super::geometry::TapPixel;
use crate::float::Float;
use crate::simd::Vectorized;

/// Image (H, W, C) that is read.
#[derive(Clone, Copy)]
pub(super) struct Map<'a, T> {
    pub(super) image: &'a [T],
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl<'a, T> Map<'a, T> {
    /// Returns the channels of a pixel.
    #[inline(always)]
    fn pixel(self, row: usize, column: usize) -> &'a [T] {
        &self.image[(row * self.width + column) * self.channels..][..self.channels]
    }
}

/// Weights (kh·kw, C), the input rows that the output row reads, and the input columns that each of its pixels reads.
#[derive(Clone, Copy)]
pub(super) struct Taps<'a, T> {
    pub(super) w: &'a [T],
    pub(super) kernel_w: usize,
    pub(super) rows: &'a [TapPixel],
    pub(super) columns: &'a [Vec<TapPixel>],
}

/// Row of the result: the sums over the taps, plus `bias` (C) unless it is empty, within `bounds`.
pub(super) struct Row<'a, T> {
    pub(super) to: &'a mut [T],
    pub(super) from: Map<'a, T>,
    pub(super) taps: Taps<'a, T>,
    pub(super) bias: &'a [T],
    pub(super) bounds: [T; 2],
}

/// Element types that rows are computed in.
pub(super) trait Lanes: Float {
    /// Computes a row with the processor's widest vectors.
    fn compute(arch: Arch, row: Row<'_, Self>);
}

/// Neighbouring pixels that are summed at a time, so that a weight is read once for all of them.
const PIXELS: usize = 4;
/// Vectors of channels that are summed at a time.
const VECTORS: usize = 2;

/// Returns the number of pixels, [`PIXELS`] or one, from the first on that use the same columns of the kernel.
fn pixels_with_same_taps(columns: &[Vec<TapPixel>]) -> usize {
    let taps = |pairs: &'_ Vec<TapPixel>| (pairs.len(), pairs.first().map(|&(v, _)| v));
    match columns.get(..PIXELS) {
        Some([first, others @ ..]) if others.iter().all(|other| taps(other) == taps(first)) => PIXELS,
        _ => 1,
    }
}

macro_rules! lanes {
    (
        $type:ident, $as:ident, $as_mut:ident, $splat:ident, $load:ident, $store:ident,
        $mul_add:ident, $max:ident, $min:ident
    ) => {
        impl Lanes for $type {
            fn compute(arch: Arch, row: Row<'_, Self>) {
                arch.dispatch(row);
            }
        }

        impl Row<'_, $type> {
            /// Computes the P pixels from `first` on, which all use the same taps.
            #[inline(always)]
            fn pixels<S: Simd, const P: usize>(&mut self, simd: S, first: usize) {
                let Self { to, from, taps, bias, bounds } = self;
                let channels = from.channels;
                let to = &mut to[first * channels..][..P * channels];
                let [least, most] = bounds.map(|bound| simd.$splat(bound));
                // If `sum` is NaN, minimum and maximum return it.
                let cut = |sum| simd.$min(most, simd.$max(least, sum));
                let (bias, bias_end) = S::$as(bias);
                let count = S::$as(&to[..channels]).0.len();
                // The numbers that each pixel reads, and their weights.
                let mut terms = Vec::with_capacity(taps.rows.len() * taps.kernel_w);
                for &(u, row) in taps.rows {
                    for (i, &(v, _)) in taps.columns[first].iter().enumerate() {
                        let pixel = |p: usize| S::$as(from.pixel(row, taps.columns[first + p][i].1));
                        let w = &taps.w[(u * taps.kernel_w + v) * channels..][..channels];
                        terms.push((std::array::from_fn::<_, P, _>(pixel), S::$as(w)));
                    }
                }
                let mut at = 0;
                while at + VECTORS <= count {
                    let own = bias.get(at..at + VECTORS);
                    let start: [_; VECTORS] =
                        std::array::from_fn(|i| own.map_or(simd.$splat(0.0), |own| own[i]));
                    let mut sums = [start; P];
                    for (x, (w, _)) in &terms {
                        let w = &w[at..at + VECTORS];
                        for p in 0..P {
                            let x = &x[p].0[at..at + VECTORS];
                            for i in 0..VECTORS {
                                sums[p][i] = simd.$mul_add(x[i], w[i], sums[p][i]);
                            }
                        }
                    }
                    for p in 0..P {
                        let to = &mut S::$as_mut(&mut to[p * channels..][..channels]).0[at..at + VECTORS];
                        for i in 0..VECTORS {
                            to[i] = cut(sums[p][i]);
                        }
                    }
                    at += VECTORS;
                }
                while at < count {
                    let mut sums = [bias.get(at).copied().unwrap_or(simd.$splat(0.0)); P];
                    for (x, (w, _)) in &terms {
                        for p in 0..P {
                            sums[p] = simd.$mul_add(x[p].0[at], w[at], sums[p]);
                        }
                    }
                    for p in 0..P {
                        S::$as_mut(&mut to[p * channels..][..channels]).0[at] = cut(sums[p]);
                    }
                    at += 1;
                }
                for p in 0..P {
                    let (_, end) = S::$as_mut(&mut to[p * channels..][..channels]);
                    if !end.is_empty() {
                        let mut sum = simd.$load(bias_end);
                        for (x, (_, w)) in &terms {
                            sum = simd.$mul_add(simd.$load(x[p].1), simd.$load(w), sum);
                        }
                        simd.$store(end, cut(sum));
                    }
                }
            }
        }

        impl WithSimd for Row<'_, $type> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(mut self, simd: S) {
                let mut first = 0;
                while first < self.taps.columns.len() {
                    match pixels_with_same_taps(&self.taps.columns[first..]) {
                        PIXELS => {
                            self.pixels::<S, PIXELS>(simd, first);
                            first += PIXELS;
                        }
                        _ => {
                            self.pixels::<S, 1>(simd, first);
                            first += 1;
                        }
                    }
                }
            }
        }
    };
}
lanes!(
    f32,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    partial_load_f32s,
    partial_store_f32s,
    mul_add_e_f32s,
    max_f32s,
    min_f32s
);
lanes!(
    f64,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    partial_load_f64s,
    partial_store_f64s,
    mul_add_e_f64s,
    max_f64s,
    min_f64s
);

/// Loop that adds the share of a row dy (ow, C) of the result's gradient to the gradient of the weights, (kh·kw, C).
pub(super) struct RowGradient<'a, T> {
    pub(super) dw: &'a mut [T],
    pub(super) from: Map<'a, T>,
    pub(super) taps: Taps<'a, T>,
    pub(super) dy: &'a [T],
}

impl<T: Float> Vectorized for RowGradient<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { dw, from, taps, dy } = self;
        let channels = from.channels;
        for &(u, row) in taps.rows {
            for (dy, columns) in dy.chunks_exact(channels).zip(taps.columns) {
                for &(v, column) in columns {
                    let dw = &mut dw[(u * taps.kernel_w + v) * channels..][..channels];
                    for (dw, (x, dy)) in dw.iter_mut().zip(from.pixel(row, column).iter().zip(dy)) {
                        *dw = dw.add_product::<FMA>(*x, *dy);
                    }
                }
            }
        }
    }
}
