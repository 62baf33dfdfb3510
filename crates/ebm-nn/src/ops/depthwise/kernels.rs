//! The loops over the pixels and channels of a row.

use super::geometry::Meeting;
use crate::ops::float::Float;
use crate::ops::simd::{Level, multiversion};

/// Channels that are summed at a time, in registers.
const LANES: usize = 16;

/// The image (H, W, C) that is read.
#[derive(Clone, Copy)]
pub(super) struct Line<'a, T> {
    pub(super) image: &'a [T],
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl<'a, T> Line<'a, T> {
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

#[inline(always)]
fn line_body<T: Float, const FMA: bool>(
    to: &mut [T],
    from: Line<'_, T>,
    taps: Taps<'_, T>,
    bias: &[T],
    bounds: [T; 2],
) {
    let channels = from.channels;
    let mut terms: Vec<(&[T], &[T])> = Vec::with_capacity(taps.rows.len() * taps.kernel_w);
    for (to, columns) in to.chunks_exact_mut(channels).zip(taps.columns) {
        terms.clear();
        for &(u, row) in taps.rows {
            for &(v, column) in columns {
                let w = &taps.w[(u * taps.kernel_w + v) * channels..][..channels];
                terms.push((from.pixel(row, column), w));
            }
        }
        pixel::<T, FMA>(to, &terms, bias, bounds);
    }
}

/// `to[c] = cut(bias[c] + Σ x[c] · w[c])` over the terms (x, w).
#[inline(always)]
fn pixel<T: Float, const FMA: bool>(to: &mut [T], terms: &[(&[T], &[T])], bias: &[T], [least, most]: [T; 2]) {
    // NaN stays NaN.
    let cut = |sum: T| {
        let sum = if sum < least { least } else { sum };
        if sum > most { most } else { sum }
    };
    let Some(last) = to.len().checked_sub(LANES) else {
        for (c, to) in to.iter_mut().enumerate() {
            let first = bias.get(c).copied().unwrap_or(T::zero());
            *to = cut(terms.iter().fold(first, |sum, (x, w)| sum.add_product::<FMA>(x[c], w[c])));
        }
        return;
    };
    let mut at = 0;
    loop {
        let mut sums = [T::zero(); LANES];
        if let Some(bias) = bias.get(at..at + LANES) {
            sums.copy_from_slice(bias);
        }
        for (x, w) in terms {
            let (x, w) = (&x[at..at + LANES], &w[at..at + LANES]);
            for (sum, (x, w)) in sums.iter_mut().zip(x.iter().zip(w)) {
                *sum = sum.add_product::<FMA>(*x, *w);
            }
        }
        for (to, sum) in to[at..at + LANES].iter_mut().zip(sums) {
            *to = cut(sum);
        }
        if at == last {
            return;
        }
        // The last channels, some of them again where their number is no multiple.
        at = (at + LANES).min(last);
    }
}

multiversion! {
    /// A row of the result: the sums over the taps, plus `bias` (C) unless it is empty, within `bounds`.
    pub(super) fn line<T>(to: &mut [T], from: Line<'_, T>, taps: Taps<'_, T>, bias: &[T], bounds: [T; 2])
        = line_body
}

#[inline(always)]
fn line_gradient_body<T: Float, const FMA: bool>(
    dw: &mut [T],
    from: Line<'_, T>,
    taps: Taps<'_, T>,
    dy: &[T],
) {
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
    pub(super) fn line_gradient<T>(dw: &mut [T], from: Line<'_, T>, taps: Taps<'_, T>, dy: &[T])
        = line_gradient_body
}
