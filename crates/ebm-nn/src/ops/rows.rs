//! Maps with the channels innermost as rows of channels, in blocks.

use rayon::prelude::*;

use super::float::Float;

/// Rows of channels that one task takes, and whose sums are made in the element type before they go on in
/// f64.
pub(crate) const ROWS: usize = 64;

/// `f` of every block of rows, added up channel by channel.
pub(crate) fn sums<T: Float>(channels: usize, len: usize, f: impl Fn(usize, &mut [T]) + Sync) -> Vec<f64> {
    let blocks: Vec<Vec<T>> = (0..len.div_ceil(ROWS * channels))
        .into_par_iter()
        .map(|block| {
            let mut sums = vec![T::zero(); channels];
            f(block * ROWS * channels, &mut sums);
            sums
        })
        .collect();
    let mut total = vec![0.0; channels];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum.to_f64());
    }
    total
}

/// The rows of the block of `values` that starts at `first`.
pub(crate) fn rows<T>(values: &[T], first: usize, channels: usize) -> std::slice::ChunksExact<'_, T> {
    values[first..values.len().min(first + ROWS * channels)].chunks_exact(channels)
}
