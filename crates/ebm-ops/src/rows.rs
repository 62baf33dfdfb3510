//! Maps with the channels innermost as rows of channels, in blocks.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::float::Float;
use super::simd::arch;
use super::storage::unwritten;

/// Rows of channels of one task. Sums within these rows have the element type; the sums of tasks are added in f64.
pub(crate) const ROWS: usize = 64;

/// Loop over the rows of a block. If the loop and all that it calls are inlined, it is compiled for every instruction set,
/// which a closure is not.
pub(crate) trait Loop<T>: Sync {
    /// Runs the loop on the block whose first number has the index `first`, and writes the results to `to`.
    fn run(&self, first: usize, to: &mut [T]);
}

impl<T, F: Fn(usize, &mut [T]) + Sync> Loop<T> for F {
    fn run(&self, first: usize, to: &mut [T]) {
        self(first, to);
    }
}

struct Block<'a, T, L> {
    of: &'a L,
    first: usize,
    to: &'a mut [T],
}

impl<T, L: Loop<T>> WithSimd for Block<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.of.run(self.first, self.to);
    }
}

/// Returns `len` numbers in rows of `channels`. `of` writes all of them.
pub(crate) fn each<T: Float>(channels: usize, len: usize, of: &impl Loop<T>) -> Vec<T> {
    let (mut y, arch, block) = (unwritten(len), arch(), ROWS * channels);
    let blocks = y.par_chunks_mut(block).enumerate();
    blocks.for_each(|(number, to)| arch.dispatch(Block { of, first: number * block, to }));
    y
}

/// Returns `width` numbers for every block of `len` numbers in rows of `channels`. `of` computes them from zeros.
pub(crate) fn blocks<T: Float>(width: usize, channels: usize, len: usize, of: &impl Loop<T>) -> Vec<Vec<T>> {
    let arch = arch();
    let block = |number: usize| {
        let mut made = vec![T::zero(); width];
        arch.dispatch(Block { of, first: number * ROWS * channels, to: &mut made });
        made
    };
    (0..len.div_ceil(ROWS * channels)).into_par_iter().map(block).collect()
}

/// Returns the sum of [`blocks`], number by number, in f64.
pub(crate) fn sums<T: Float>(width: usize, channels: usize, len: usize, of: &impl Loop<T>) -> Vec<f64> {
    let mut total = vec![0.0; width];
    for block in blocks(width, channels, len, of) {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum.to_f64());
    }
    total
}

/// Returns the rows of the block of `values` that starts at `first`.
#[inline(always)]
pub(crate) fn rows<T>(values: &[T], first: usize, channels: usize) -> std::slice::ChunksExact<'_, T> {
    values[first..values.len().min(first + ROWS * channels)].chunks_exact(channels)
}
