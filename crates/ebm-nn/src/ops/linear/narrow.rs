//! Products with a matrix that is hardly wider and deeper than a vector: packing would take longer than the product.

use crate::ops::packed::Sizes;
use crate::ops::rows::{Loop, each};

/// The greatest depth and number of columns.
const LANES: usize = 16;

/// Whether the second factor is so small.
pub(super) fn is_narrow(sizes: Sizes) -> bool {
    sizes.depth.max(sizes.columns) <= LANES
}

/// `A · B`; `element(k, column)` is that of B.
pub(super) fn by(a: &[f32], element: impl Fn(usize, usize) -> f32, sizes: Sizes) -> Vec<f32> {
    let Sizes { rows, depth, columns } = sizes;
    let mut b = [[0.0; LANES]; LANES];
    for (k, row) in b.iter_mut().enumerate().take(depth) {
        row.iter_mut().enumerate().take(columns).for_each(|(column, to)| *to = element(k, column));
    }
    each(columns, rows * columns, &By { a, b, depth, columns })
}

struct By<'a> {
    a: &'a [f32],
    b: [[f32; LANES]; LANES],
    depth: usize,
    columns: usize,
}

impl Loop<f32> for By<'_> {
    #[inline(always)]
    fn run(&self, first: usize, to: &mut [f32]) {
        let &Self { a, ref b, depth, columns } = self;
        let pairs = a[first / columns * depth..].chunks(2 * depth);
        for (pair, to) in pairs.zip(to.chunks_mut(2 * columns)) {
            let (one, other) = pair.split_at(depth);
            // The last of an odd number of rows is computed twice.
            let other = if other.is_empty() { one } else { other };
            let mut sums = [[0.0; LANES]; 2];
            let [of_one, of_other] = &mut sums;
            for ((one, other), b) in one.iter().zip(other).zip(b) {
                for ((of_one, of_other), b) in of_one.iter_mut().zip(of_other.iter_mut()).zip(b) {
                    *of_one += one * b;
                    *of_other += other * b;
                }
            }
            for (to, sums) in to.chunks_exact_mut(columns).zip(&sums) {
                to.copy_from_slice(&sums[..columns]);
            }
        }
    }
}
