//! The innermost product if the depth runs over rows of both operands: `to += Aᵀ · panel`, for a few columns of A.
//!
//! As in [`super::tile`], sums stay in registers. Here the numbers of A that a step needs lie side by side.

use std::hint::black_box;

use pulp::{Simd, WithSimd};

use super::product::Strided;
use super::tile::{VECTORS, by_rows};

/// Steps of the depth at equal distances. Step k reads A from `a + k · step` on, and row `b + k` of the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// Computes `to += Aᵀ · panel` over the segments. A's rows are the steps. `to` has a row of a panel's width for each wanted
/// column of A, at most [`most_rows`](super::tile::most_rows).
#[inline(always)]
pub(crate) fn accumulate<S: Simd>(
    simd: S,
    a: Strided<'_, f32>,
    segments: &[Segment],
    panel: &[f32],
    to: &mut [f32],
) {
    let count = to.len() / (VECTORS * S::F32_LANES);
    by_rows!(S, count, ROWS => simd.vectorize(Outer::<ROWS> { a, segments, panel, to }));
}

struct Outer<'a, const ROWS: usize> {
    a: Strided<'a, f32>,
    segments: &'a [Segment],
    panel: &'a [f32],
    to: &'a mut [f32],
}

impl<const ROWS: usize> WithSimd for Outer<'_, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Strided { data: a, stride: step } = self.a;
        let (panel, _) = S::as_simd_f32s(self.panel).0.as_chunks::<VECTORS>();
        let (to, _) = S::as_mut_simd_f32s(self.to).0.as_chunks_mut::<VECTORS>();
        let Some(to) = to.first_chunk_mut::<ROWS>() else { return };
        // Vector by vector: a copy of the array as a whole would keep it in memory instead of registers.
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for i in 0..ROWS {
            for v in 0..VECTORS {
                sums[i][v] = to[i][v];
            }
        }
        for segment in self.segments {
            // Opaque to the compiler, which would otherwise keep a pointer for each row.
            let mut a = black_box(&a[segment.a..]);
            for columns in &panel[segment.b..segment.b + segment.len] {
                let numbers = &a[..ROWS];
                for i in 0..ROWS {
                    let number = simd.splat_f32s(numbers[i]);
                    for v in 0..VECTORS {
                        sums[i][v] = simd.mul_add_e_f32s(number, columns[v], sums[i][v]);
                    }
                }
                a = a.get(step..).unwrap_or_default();
            }
        }
        for i in 0..ROWS {
            for v in 0..VECTORS {
                to[i][v] = sums[i][v];
            }
        }
    }
}
