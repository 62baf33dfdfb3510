//! The head on very few rows, as in the refinement of one prediction. The rows could not fill a tile, and reading W_y takes
//! most of the time. One pass reads it once for f and for the gradient.

use std::ops::Range;

use candle_core::Result;
use rayon::prelude::*;

use super::kernel::{Head, LANES, last};
use super::product::PackedProduct;
use crate::gemm::even_ranges;
use crate::simd::{arch, lane_products};

/// Largest number of rows for which this pays.
pub(super) const FEW: usize = 4;
/// Tasks that the hidden units are cut into.
const TASKS: usize = 2;

impl<T: PackedProduct> Head<'_, T> {
    /// Returns f of all rows, and its gradient in y, which is empty without `with_gradient`.
    pub(super) fn few_scores(&self, with_gradient: bool) -> Result<(Vec<T>, Vec<T>)> {
        let rows = self.y.len() / self.sizes.dim();
        let values = self.features(0, rows)?;
        let features = last(&values);
        let tasks = even_ranges(self.sizes.hidden, TASKS, 1).into_par_iter();
        let found: Vec<_> = tasks.map(|units| self.units(units, features, rows, with_gradient)).collect();
        let (mut f, mut slopes) = (vec![self.network.bias; rows], vec![T::zero(); features.len()]);
        for (value, slope) in &found {
            f.iter_mut().zip(value).for_each(|(to, from)| *to += *from);
            slopes.iter_mut().zip(slope).for_each(|(to, from)| *to += *from);
        }
        let gradient =
            if with_gradient { self.network.back(&values, slopes, rows, true, None)? } else { Vec::new() };
        Ok((f, gradient))
    }

    /// Returns the share of some hidden units in f and in its gradient in the features.
    fn units(
        &self,
        units: Range<usize>,
        features: &[T],
        rows: usize,
        with_gradient: bool,
    ) -> (Vec<T>, Vec<T>) {
        let (hidden, width) = (self.sizes.hidden, self.sizes.width());
        let (mut f, mut slopes) = (vec![T::zero(); rows], vec![T::zero(); features.len()]);
        arch().dispatch(|| {
            for j in units {
                let (weights, out) = (&self.network.join[j * width..(j + 1) * width], self.network.out[j]);
                let of_rows = features.chunks_exact(width).zip(slopes.chunks_exact_mut(width)).zip(&mut f);
                for (row, ((features, slopes), f)) in of_rows.enumerate() {
                    let z = self.projected[row / self.count * hidden + j] + dot(weights, features);
                    if z <= T::zero() {
                        continue;
                    }
                    *f += out * z;
                    if with_gradient {
                        slopes.iter_mut().zip(weights).for_each(|(slope, weight)| *slope += out * *weight);
                    }
                }
            }
        });
        (f, slopes)
    }
}

#[inline(always)]
fn dot<T: PackedProduct>(a: &[T], b: &[T]) -> T {
    lane_products::<T, false, LANES>(a, b).into_iter().fold(T::zero(), |sum, value| sum + value)
}
