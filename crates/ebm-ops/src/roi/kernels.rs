//! Loops over channels.
//!
//! A *tile* is one box's (ph, pw, C) block with the channels innermost. All sums run in a fixed order.

use super::weights::BoxWeights;
use crate::float::Float;
use crate::simd::{Vectorized, lane_products};

/// Most vectors that one pass adds.
const PASS: usize = 6;

/// Iterates over several slices together, as a nest of pairs, for which the compiler removes the bounds checks.
macro_rules! together {
    ($first:ident) => { $first.iter() };
    ($first:ident $($rest:ident)+) => { $first.iter().zip(together!($($rest)+)) };
}
/// Pattern of one element of [`together`].
macro_rules! element {
    ($first:ident) => { &$first };
    ($first:ident $($rest:ident)+) => { (&$first, element!($($rest)+)) };
}

/// Computes `to = [to +] Σ_k weight[k] · from[stride·index[k]..][..to.len()]`. Without terms, and unless kept, `to` is zero.
#[inline(always)]
fn combine<T: Float, const FMA: bool>(
    to: &mut [T],
    from: &[T],
    stride: usize,
    index: &[usize],
    weight: &[T],
    keep: bool,
) {
    let n = to.len();
    if index.is_empty() && !keep {
        to.fill(T::zero());
    }
    let mut keep = keep;
    for (index, w) in index.chunks(PASS).zip(weight.chunks(PASS)) {
        macro_rules! run {
            ($first:ident $($v:ident)* = $($k:literal)*) => {{
                let [$first, $($v),*] = [$(&from[index[$k] * stride..][..n]),*];
                let weights = [$(w[$k]),*];
                if keep {
                    for (to, element!($first $($v)*)) in to.iter_mut().zip(together!($first $($v)*)) {
                        let mut sum = *to;
                        for (w, x) in weights.into_iter().zip([$first, $($v),*]) {
                            sum = sum.add_product::<FMA>(w, x);
                        }
                        *to = sum;
                    }
                } else {
                    for (to, element!($first $($v)*)) in to.iter_mut().zip(together!($first $($v)*)) {
                        let mut sum = weights[0] * $first;
                        for (w, x) in weights.into_iter().skip(1).zip([$($v),*]) {
                            sum = sum.add_product::<FMA>(w, x);
                        }
                        *to = sum;
                    }
                }
            }};
        }
        match index.len() {
            1 => run!(a = 0),
            2 => run!(a b = 0 1),
            3 => run!(a b c = 0 1 2),
            4 => run!(a b c d = 0 1 2 3),
            5 => run!(a b c d e = 0 1 2 3 4),
            _ => run!(a b c d e f = 0 1 2 3 4 5),
        }
        keep = true;
    }
}

/// Loop that pools one box: `to = Wy · F · Wxᵀ` per channel.
pub(super) struct PoolBox<'a, T> {
    /// Map (H, W, C).
    pub map: &'a [T],
    pub width: usize,
    pub weights: &'a BoxWeights<T>,
    /// Tile (ph, pw, C).
    pub to: &'a mut [T],
    /// Scratch memory of C numbers.
    pub line: &'a mut [T],
}

impl<T: Float> Vectorized for PoolBox<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { map, width, weights, to, line } = self;
        let c = line.len();
        let bins = weights.x.len();
        to.fill(T::zero());
        let rows = &weights.y_by_pixel;
        for y in 0..rows.len() {
            let row = rows.row(y);
            if row.index.is_empty() {
                continue;
            }
            let pixels = &map[(rows.first() + y) * width * c..][..width * c];
            for q in 0..bins {
                let along_x = weights.x.row(q);
                if along_x.index.is_empty() {
                    continue;
                }
                combine::<T, FMA>(line, pixels, c, along_x.index, along_x.weight, false);
                for (&p, &weight) in row.index.iter().zip(row.weight) {
                    let to = &mut to[(p * bins + q) * c..][..c];
                    for (to, &x) in to.iter_mut().zip(&*line) {
                        *to = to.add_product::<FMA>(weight, x);
                    }
                }
            }
        }
    }
}

/// Loop that adds one box's `Wyᵀ · G · Wx` to some rows of the map.
pub(super) struct ScatterBox<'a, T> {
    /// Gradient G as (ph, pw, C).
    pub tile: &'a [T],
    pub weights: &'a BoxWeights<T>,
    /// Range of rows, within the rows that the box reads.
    pub rows: std::ops::Range<usize>,
    /// Gradient in these rows, (rows, W, C).
    pub to: &'a mut [T],
    pub width: usize,
    /// Scratch memory of pw·C numbers.
    pub lines: &'a mut [T],
}

impl<T: Float> Vectorized for ScatterBox<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { tile, weights, rows, to, width, lines } = self;
        let bins = weights.x.len();
        let c = lines.len() / bins;
        let by_row = &weights.y_by_pixel;
        let columns = &weights.x_by_pixel;
        for (y, to) in rows.zip(to.chunks_exact_mut(width * c)) {
            let along_y = by_row.row(y - by_row.first());
            if along_y.index.is_empty() {
                continue;
            }
            // The rows p of the tile are whole lines of pw·C numbers, so all q are added at once.
            combine::<T, FMA>(lines, tile, bins * c, along_y.index, along_y.weight, false);
            for x in 0..columns.len() {
                let along_x = columns.row(x);
                let to = &mut to[(columns.first() + x) * c..][..c];
                combine::<T, FMA>(to, lines, c, along_x.index, along_x.weight, true);
            }
        }
    }
}

/// Channels whose products are summed side by side.
const LANES: usize = 16;

/// Loop of the gradient of `Σ G ∘ (Wy · F · Wxᵀ)` in the box's (x0, y0, x1, y1), in pixels of the map: the same product with
/// the weights of one axis replaced by their derivatives. A pixel and a bin share `Σ_c G·F`, which serves all four slopes and
/// is the only work for each channel.
pub(super) struct GradBox<'a, T> {
    /// Map (H, W, C).
    pub map: &'a [T],
    pub width: usize,
    pub weights: &'a BoxWeights<T>,
    /// Gradient G as (ph, pw, C).
    pub tile: &'a [T],
    pub to: &'a mut [f64; 4],
}

impl<T: Float> Vectorized for GradBox<'_, T> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { map, width, weights, tile, to } = self;
        let bins = weights.x.len();
        let c = tile.len() / (bins * weights.y.len());
        let mut sums = [[T::zero(); LANES]; 4];
        let (rows, columns) = (&weights.y_by_pixel, &weights.x_by_pixel);
        for y in 0..rows.len() {
            let pixels = &map[(rows.first() + y) * width * c..][..width * c];
            for x in 0..columns.len() {
                let pixel = &pixels[(columns.first() + x) * c..][..c];
                for down in rows.row(y).entries() {
                    for across in columns.row(x).entries() {
                        let tile = &tile[(down.index * bins + across.index) * c..][..c];
                        let product = lane_products::<T, FMA, LANES>(tile, pixel);
                        let slopes = [
                            down.weight * across.d_start,
                            down.d_start * across.weight,
                            down.weight * across.d_end,
                            down.d_end * across.weight,
                        ];
                        for (sums, slope) in sums.iter_mut().zip(slopes) {
                            for (sum, product) in sums.iter_mut().zip(product) {
                                *sum = sum.add_product::<FMA>(slope, product);
                            }
                        }
                    }
                }
            }
        }
        *to = sums.map(|sums| sums.iter().map(|v| v.to_f64()).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::arch;
    use pulp::Arch;

    #[test]
    fn every_instruction_set_gives_the_same_sums() {
        let (h, w, c) = (5, 6, 37);
        let map: Vec<f32> = (0..h * w * c).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let tile: Vec<f32> = (0..4 * c).map(|i| ((i * 31) % 17) as f32 / 8.0 - 1.0).collect();
        let mut weights = BoxWeights::default();
        for (axis, n) in [(&mut weights.x, 6), (&mut weights.y, 5)] {
            axis.clear();
            for bin in 0..2 {
                for i in bin..n {
                    axis.push_with_slopes(i, 0.1 + i as f64 * 0.3, 0.2 - i as f64, 1.0 / (1.0 + i as f64));
                }
                axis.end_row();
            }
        }
        weights.transpose();
        let run = |arch: Arch| {
            let (mut out, mut line) = (vec![0.0; 4 * c], vec![0.0; c]);
            let (map, weights) = (&map[..], &weights);
            PoolBox { map, width: w, weights, to: &mut out, line: &mut line }.dispatch(arch);
            let (mut grad, mut lines) = (vec![0.0; 3 * w * c], vec![0.0; 2 * c]);
            let (tile, rows, to, lines) = (&tile[..], 1..4, &mut grad[..], &mut lines[..]);
            ScatterBox { tile, weights, rows, to, width: w, lines }.dispatch(arch);
            let mut coordinates = [0.0; 4];
            GradBox { map, width: w, weights, tile, to: &mut coordinates }.dispatch(arch);
            out.extend(grad);
            out.extend(coordinates.map(|v| v as f32));
            out
        };
        let base = run(Arch::Scalar);
        let mut archs = vec![arch()];
        #[cfg(target_arch = "x86_64")]
        archs.extend(pulp::x86::V3::try_new().map(Arch::V3));
        assert!(base.iter().any(|v| v.abs() > 0.1));
        for arch in archs {
            for (i, (a, b)) in base.iter().zip(run(arch)).enumerate() {
                assert!((a - b).abs() <= 2e-5 * a.abs().max(10.0), "{arch:?} element {i}: {a} against {b}");
            }
        }
    }
}
