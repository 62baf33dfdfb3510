//! Maps with the channels innermost as rows of channels, in blocks.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::float::Float;
use super::simd::arch;
use super::storage::unwritten;

/// Rows of channels that one task takes, and whose sums are made in the element type before they go on in
/// f64.
pub(crate) const ROWS: usize = 64;

/// A loop over the rows of a block. Where it and what it calls are inlined, it is compiled for every instruction
/// set, which a closure is not.
pub(crate) trait Loop<T>: Sync {
    /// Of the block whose first number has this place, to what is made of it.
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

/// `len` numbers in rows of `channels`, all of which `of` writes.
pub(crate) fn each<T: Float>(channels: usize, len: usize, of: &impl Loop<T>) -> Vec<T> {
    let (mut y, arch, block) = (unwritten(len), arch(), ROWS * channels);
    let blocks = y.par_chunks_mut(block).enumerate();
    blocks.for_each(|(number, to)| arch.dispatch(Block { of, first: number * block, to }));
    y
}

/// The `width` numbers, zeros at first, that `of` makes of every block of `len` numbers in rows of `channels`.
pub(crate) fn blocks<T: Float>(width: usize, channels: usize, len: usize, of: &impl Loop<T>) -> Vec<Vec<T>> {
    let arch = arch();
    let block = |number: usize| {
        let mut made = vec![T::zero(); width];
        arch.dispatch(Block { of, first: number * ROWS * channels, to: &mut made });
        made
    };
    (0..len.div_ceil(ROWS * channels)).into_par_iter().map(block).collect()
}

/// [`blocks`], added up number by number.
pub(crate) fn sums<T: Float>(width: usize, channels: usize, len: usize, of: &impl Loop<T>) -> Vec<f64> {
    let mut total = vec![0.0; width];
    for block in blocks(width, channels, len, of) {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum.to_f64());
    }
    total
}

/// The rows of the block of `values` that starts at `first`.
#[inline(always)]
pub(crate) fn rows<T>(values: &[T], first: usize, channels: usize) -> std::slice::ChunksExact<'_, T> {
    values[first..values.len().min(first + ROWS * channels)].chunks_exact(channels)
}
