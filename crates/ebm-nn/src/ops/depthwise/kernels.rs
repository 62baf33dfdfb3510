//! The loops over the pixels and channels of a row.

use pulp::{Arch, Simd, WithSimd};

use super::geometry::Meeting;
use crate::ops::float::Float;
use crate::ops::simd::{Level, multiversion};

/// The image (H, W, C) that is read.
#[derive(Clone, Copy)]
pub(super) struct Map<'a, T> {
    pub(super) image: &'a [T],
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl<'a, T> Map<'a, T> {
    /// The channels of a pixel.
    #[inline(always)]
    fn pixel(self, row: usize, column: usize) -> &'a [T] {
        &self.image[(row * self.width + column) * self.channels..][..self.channels]
    }
}

/// The weights (kh·kw, C) and what they meet: the rows of a whole row, the columns of each of its pixels.
#[derive(Clone, Copy)]
pub(super) struct Taps<'a, T> {
    pub(super) w: &'a [T],
    pub(super) kernel_w: usize,
    pub(super) rows: &'a [Meeting],
    pub(super) columns: &'a [Vec<Meeting>],
}

/// A row of the result: the sums over the taps, plus `bias` (C) unless it is empty, within `bounds`.
pub(super) struct Row<'a, T> {
    pub(super) to: &'a mut [T],
    pub(super) from: Map<'a, T>,
    pub(super) taps: Taps<'a, T>,
    pub(super) bias: &'a [T],
    pub(super) bounds: [T; 2],
}

/// The element types that rows are computed in.
pub(super) trait Lanes: Float {
    /// Computes a row with the processor's widest vectors.
    fn compute(arch: Arch, row: Row<'_, Self>);
}

/// Vectors of channels that are summed at a time.
const VECTORS: usize = 4;

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

        impl WithSimd for Row<'_, $type> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Self { to, from, taps, bias, bounds } = self;
                let (bias, bias_end) = S::$as(bias);
                let [least, most] = bounds.map(|bound| simd.$splat(bound));
                // Either is the sum where that is NaN.
                let cut = |sum| simd.$min(most, simd.$max(least, sum));
                let zero = simd.$splat(0.0);
                let mut terms = Vec::with_capacity(taps.rows.len() * taps.kernel_w);
                for (to, columns) in to.chunks_exact_mut(from.channels).zip(taps.columns) {
                    terms.clear();
                    for &(u, row) in taps.rows {
                        for &(v, column) in columns {
                            let w = &taps.w[(u * taps.kernel_w + v) * from.channels..][..from.channels];
                            terms.push((S::$as(from.pixel(row, column)), S::$as(w)));
                        }
                    }
                    let (to, end) = S::$as_mut(to);
                    let (blocks, rest) = to.as_chunks_mut::<VECTORS>();
                    for (at, to) in (0..).step_by(VECTORS).zip(blocks.iter_mut()) {
                        let mut sums = [zero; VECTORS];
                        if let Some(bias) = bias.get(at..at + VECTORS) {
                            sums.copy_from_slice(bias);
                        }
                        for ((x, _), (w, _)) in &terms {
                            let (x, w) = (&x[at..at + VECTORS], &w[at..at + VECTORS]);
                            for i in 0..VECTORS {
                                sums[i] = simd.$mul_add(x[i], w[i], sums[i]);
                            }
                        }
                        for (to, sum) in to.iter_mut().zip(sums) {
                            *to = cut(sum);
                        }
                    }
                    for (at, to) in (blocks.len() * VECTORS..).zip(rest) {
                        let mut sum = bias.get(at).copied().unwrap_or(zero);
                        for ((x, _), (w, _)) in &terms {
                            sum = simd.$mul_add(x[at], w[at], sum);
                        }
                        *to = cut(sum);
                    }
                    if !end.is_empty() {
                        let mut sum = simd.$load(bias_end);
                        for ((_, x), (_, w)) in &terms {
                            sum = simd.$mul_add(simd.$load(x), simd.$load(w), sum);
                        }
                        simd.$store(end, cut(sum));
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

#[inline(always)]
fn row_gradient_body<T: Float, const FMA: bool>(dw: &mut [T], from: Map<'_, T>, taps: Taps<'_, T>, dy: &[T]) {
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

multiversion! {
    /// Adds what a row dy (ow, C) of the result's gradient gives to that of the weights, (kh·kw, C).
    pub(super) fn row_gradient<T>(dw: &mut [T], from: Map<'_, T>, taps: Taps<'_, T>, dy: &[T])
        = row_gradient_body
}
