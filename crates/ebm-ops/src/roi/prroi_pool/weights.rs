//! The mean of a tent over an interval, and its derivatives in the interval's ends.

use crate::float::Float;
use crate::roi::{AxisWeights, Span};

/// Mean of tent(t) over [a, b] and its derivatives in a and b.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TentMean {
    mean: f64,
    d_a: f64,
    d_b: f64,
}

/// Computes `m = 1/(b−a) ∫ tent`, `∂m/∂a = 1/(b−a)² ∫ (b−t)·tent′(t) dt` and `∂m/∂b = 1/(b−a)² ∫ (t−a)·tent′(t) dt`. The
/// derivatives are integrated by parts, so that no two near values are subtracted. tent is linear on [−1, 0] and [0, 1], so
/// midpoints are exact.
fn tent_mean(a: f64, b: f64) -> TentMean {
    let width = b - a;
    let mut sum = TentMean::default();
    for (low, high, slope) in [(-1.0, 0.0, 1.0), (0.0, 1.0, -1.0)] {
        if width > 0.0 {
            let (from, to) = (a.max(low), b.min(high));
            if from < to {
                let share = (to - from) / width;
                let middle = 0.5 * (from + to);
                sum.mean += share * (1.0 - middle.abs());
                // Distances of the middle as means of the ends' distances, which are exact if all points are close.
                sum.d_a += slope * share * (0.5 * ((b - from) + (b - to)) / width);
                sum.d_b += slope * share * (0.5 * ((from - a) + (to - a)) / width);
            }
        } else if low <= a && a < high {
            // The bin is narrower than the spacing of floating-point numbers here, so this is the limit.
            sum = TentMean { mean: 1.0 - a.abs(), d_a: 0.5 * slope, d_b: 0.5 * slope };
        }
    }
    sum
}

/// Fills the weights of an axis of a box by bin, and their slopes, on a map of `size` pixels along it.
pub(in crate::roi) fn axis<T: Float>(
    Span { start, end }: Span,
    bins: usize,
    size: usize,
    to: &mut AxisWeights<T>,
) {
    to.clear();
    let count = bins as f64;
    let width = (end - start) / count;
    for bin in 0..bins {
        let before = bin as f64 / count;
        let after = (bin + 1) as f64 / count;
        let a = start + width * bin as f64;
        let b = if bin + 1 == bins { end } else { start + width * (bin + 1) as f64 };
        // Pixels whose tent overlaps (a, b), clipped to the map before the conversion to integers.
        let first = a.floor().clamp(0.0, size as f64) as usize;
        let until = (b.ceil() + 1.0).clamp(0.0, size as f64) as usize;
        for pixel in first..until {
            let tent = tent_mean(a - pixel as f64, b - pixel as f64);
            if tent != TentMean::default() {
                let d_start = (1.0 - before) * tent.d_a + (1.0 - after) * tent.d_b;
                let d_end = before * tent.d_a + after * tent.d_b;
                to.push_with_slopes(pixel, tent.mean, d_start, d_end);
            }
        }
        to.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns T(t) = ∫ tent up to t.
    fn integral(t: f64) -> f64 {
        match t {
            t if t <= -1.0 => 0.0,
            t if t <= 0.0 => 0.5 * (t + 1.0) * (t + 1.0),
            t if t <= 1.0 => 0.5 + t - 0.5 * t * t,
            _ => 1.0,
        }
    }

    #[test]
    fn the_mean_is_the_difference_of_the_closed_form() {
        for i in -14..14 {
            for j in 1..20 {
                let a = f64::from(i) * 0.17;
                let b = a + f64::from(j) * 0.21;
                let expected = (integral(b) - integral(a)) / (b - a);
                let found = tent_mean(a, b);
                assert!((found.mean - expected).abs() < 1e-14, "[{a}, {b}]");
                let tent = |t: f64| (1.0 - t.abs()).max(0.0);
                assert!((found.d_a - (expected - tent(a)) / (b - a)).abs() < 1e-13, "[{a}, {b}]");
                assert!((found.d_b - (tent(b) - expected) / (b - a)).abs() < 1e-13, "[{a}, {b}]");
            }
        }
    }

    #[test]
    fn a_vanishing_interval_keeps_its_limit() {
        for width in [1e-3, 1e-9, 1e-15, 1e-30, 1e-300, 0.0] {
            let m = tent_mean(0.25, 0.25 + width);
            assert!((m.mean - 0.75).abs() <= width, "{width}: {m:?}");
            assert!((m.d_a + 0.5).abs() < 1e-12 && (m.d_b + 0.5).abs() < 1e-12, "{width}: {m:?}");
        }
    }
}
