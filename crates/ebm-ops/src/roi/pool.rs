//! Loops over boxes.
//!
//! The forward pass and the gradient in the boxes are independent per box. The gradient in the map is divided by rows of the
//! map, and every row adds the boxes in their order. So each sum has one order for every number of threads.

use candle_core::{Result, Shape};
use rayon::prelude::*;

use super::kernels::{GradBox, PoolBox, ScatterBox};
use super::op::RoiPool;
use super::rois::{Roi, Span};
use super::weights::BoxWeights;
use crate::float::Float;
use crate::layout::{ChannelsLast, Order, swap, transpose};
use crate::simd::{Vectorized, arch};

/// Boxes whose gradients are held at a time, with the channels innermost.
const BOXES: usize = 128;
/// Bytes of the part of the map's gradient that one task adds to: a share of a core's second-level cache.
const BAND: usize = 1 << 18;

/// Orders boxes so that near ones on a map follow each other and find it in the cache: rows of squares, left to right.
fn by_place<A>(mut work: Vec<(A, &Roi)>) -> Vec<(A, &Roi)> {
    // Conversions saturate, so that far-away boxes are in order too.
    let square = |span: Span| ((span.start + span.end) / 32.0) as i64;
    work.sort_by_cached_key(|(_, roi)| (roi.level, roi.image, square(roi.y), square(roi.x)));
    work
}

/// Loops over boxes whose channels are innermost, for one kind of numbers.
///
/// They are not generic, so they are compiled with the optimisation of this crate and not with that of the crate that
/// calls them.
pub trait Loops: Sized {
    /// Pools as [`RoiPool::pool`] does, as (R, ph, pw, C).
    fn pool(pool: &RoiPool, maps: &[ChannelsLast<'_, Self>], boxes: &[Roi], to: &mut [Self])
    where
        Self: Float;

    /// Returns the gradient of [`RoiPool::slopes`], for `grad` (R, ph, pw, C).
    fn slopes(pool: &RoiPool, maps: &[ChannelsLast<'_, Self>], boxes: &[Roi], grad: &[Self]) -> Vec<[f64; 4]>
    where
        Self: Float;
}

macro_rules! loops {
    ($type:ty) => {
        impl Loops for $type {
            fn pool(pool: &RoiPool, maps: &[ChannelsLast<'_, Self>], boxes: &[Roi], to: &mut [Self]) {
                pool.pool(maps, boxes, Order::ChannelsLast, to);
            }

            fn slopes(
                pool: &RoiPool,
                maps: &[ChannelsLast<'_, Self>],
                boxes: &[Roi],
                grad: &[Self],
            ) -> Vec<[f64; 4]> {
                pool.slopes(maps, boxes, Order::ChannelsLast, grad)
            }
        }
    };
}
loops!(f32);
loops!(f64);

impl RoiPool {
    fn bins(&self) -> usize {
        self.out.0 * self.out.1
    }

    /// Writes `out[r] = Wy · F · Wxᵀ` for every box on its map of `maps` to `to`, as (R, C, ph, pw) or (R, ph, pw, C).
    pub(super) fn pool<T: Float>(
        &self,
        maps: &[ChannelsLast<'_, T>],
        boxes: &[Roi],
        order: Order,
        to: &mut [T],
    ) {
        let (c, bins, isa) = (maps[0].shape().1, self.bins(), arch());
        if to.is_empty() {
            return;
        }
        by_place(to.chunks_exact_mut(c * bins).zip(boxes).collect()).into_par_iter().for_each_init(
            || (BoxWeights::default(), Vec::new(), vec![T::zero(); c]),
            |(weights, tile, line), (to, roi)| {
                let (map, (_, _, height, width)) = (&maps[roi.level], maps[roi.level].shape());
                self.fill(roi, [height, width], weights);
                if weights.is_zero() {
                    to.fill(T::zero());
                    return;
                }
                weights.transpose();
                let map = map.image(roi.image);
                match order {
                    Order::ChannelsLast => PoolBox { map, width, weights, to, line }.dispatch(isa),
                    Order::ChannelsFirst => {
                        tile.resize(bins * c, T::zero());
                        PoolBox { map, width, weights, to: tile, line }.dispatch(isa);
                        transpose(tile, c, bins, c, to, bins);
                    }
                }
            },
        );
    }

    /// Returns the gradient in the map, (N, C, H, W): the sum over boxes of `Wyᵀ · G · Wx`. `map` is (N, C, H, W), `grad` (R,
    /// C, ph, pw).
    pub(super) fn feature_gradient<T: Float>(&self, map: &Shape, rois: &[T], grad: &[T]) -> Result<Vec<T>> {
        let ((n, c, h, w), bins) = (map.dims4()?, self.bins());
        let boxes = self.boxes(rois, n)?;
        let mut result = vec![T::zero(); n * c * h * w];
        if result.is_empty() || boxes.is_empty() {
            return Ok(result);
        }
        let arch = arch();
        let row = w * c;
        let band =
            (BAND / (row * size_of::<T>())).clamp(1, (n * h).div_ceil(4 * rayon::current_num_threads()));
        let mut prepared = vec![(BoxWeights::default(), vec![T::zero(); c * bins]); BOXES.min(boxes.len())];
        for (boxes, grad) in boxes.chunks(BOXES).zip(grad.chunks(BOXES * c * bins)) {
            prepared.par_iter_mut().zip(boxes).zip(grad.par_chunks_exact(c * bins)).for_each(
                |(((weights, tile), roi), grad)| {
                    self.fill(roi, [h, w], weights);
                    if !weights.is_zero() {
                        weights.transpose();
                        transpose(grad, bins, c, bins, tile, c);
                    }
                },
            );
            // Rows of all images in one sequence: row y of image i is number i·h + y.
            result.par_chunks_mut(band * row).enumerate().for_each_init(
                || vec![T::zero(); self.out.1 * c],
                |lines, (number, to)| {
                    let first = number * band;
                    let last = first + to.len() / row;
                    for ((weights, tile), roi) in prepared.iter().zip(boxes) {
                        if weights.is_zero() {
                            continue;
                        }
                        let top = roi.image * h;
                        let reads = top + weights.y_by_pixel.first();
                        let from = reads.max(first);
                        let until = (reads + weights.y_by_pixel.len()).min(last);
                        if from < until {
                            let to = &mut to[(from - first) * row..(until - first) * row];
                            let rows = from - top..until - top;
                            ScatterBox { tile, weights, rows, to, width: w, lines }.dispatch(arch);
                        }
                    }
                },
            );
        }
        Ok(swap(&result, n, h * w, c))
    }

    /// Returns the gradient in the boxes' x0, y0, x1, y1, in pixels of their maps. `grad` has the order of
    /// [`pool`](Self::pool)'s result.
    pub(super) fn slopes<T: Float>(
        &self,
        maps: &[ChannelsLast<'_, T>],
        boxes: &[Roi],
        order: Order,
        grad: &[T],
    ) -> Vec<[f64; 4]> {
        let (c, bins, isa) = (maps[0].shape().1, self.bins(), arch());
        let mut result = vec![[0.0; 4]; boxes.len()];
        if grad.is_empty() {
            return result;
        }
        let work = result.iter_mut().zip(grad.chunks_exact(c * bins)).zip(boxes).collect();
        by_place(work).into_par_iter().for_each_init(
            || (BoxWeights::default(), Vec::new()),
            |(weights, tile), ((result, grad), roi)| {
                let (map, (_, _, height, width)) = (&maps[roi.level], maps[roi.level].shape());
                self.fill(roi, [height, width], weights);
                if weights.is_zero() {
                    return;
                }
                weights.transpose();
                let tile = match order {
                    Order::ChannelsLast => grad,
                    Order::ChannelsFirst => {
                        tile.resize(bins * c, T::zero());
                        transpose(grad, bins, c, bins, tile, c);
                        tile
                    }
                };
                GradBox { map: map.image(roi.image), width, weights, tile, to: result }.dispatch(isa);
            },
        );
        result
    }
}
