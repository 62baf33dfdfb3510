//! The innermost product: a few rows of A times one panel of B, summed in registers.
//!
//! A tile of R rows and two vectors of columns reads two vectors and R numbers for 2R fused products. So it is bound by
//! arithmetic and not by reading. R is as large as the registers allow.

use std::hint::black_box;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::prefetch::Prefetch;

/// Vectors in a row of a tile.
pub(crate) const VECTORS: usize = 2;

/// Most rows of a tile on any processor.
pub(crate) const MOST_ROWS: usize = ROWS_OF_32_REGISTERS;
/// Most rows of a tile with 32 vector registers: 28 hold sums, two hold B and one holds an element of A.
const ROWS_OF_32_REGISTERS: usize = 14;
/// Most rows of a tile with 16 registers: 12 hold sums.
const ROWS_OF_16_REGISTERS: usize = 6;

/// Lanes of the widest vectors.
const WIDEST: usize = 16;

/// Returns the most rows of a tile.
#[inline(always)]
pub(crate) fn most_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { ROWS_OF_32_REGISTERS } else { ROWS_OF_16_REGISTERS }
}

/// Rows of A. Row i has the numbers of `data[starts[i] + run]`, run after run. A convolution has one run for each row of the
/// kernel.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) starts: &'a [usize],
    pub(crate) runs: &'a [Range<usize>],
}

impl<'a> Rows<'a> {
    /// Returns some of the rows.
    #[inline(always)]
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        Self { starts: &self.starts[range], ..self }
    }

    /// Returns the numbers of all rows if they lie end to end.
    #[inline(always)]
    pub(super) fn end_to_end(self) -> Option<&'a [f32]> {
        let ([run], &[first, ..], Some(last)) = (self.runs, self.starts, self.starts.last()) else {
            return None;
        };
        let gapless = *last == first + (self.starts.len() - 1) * run.len();
        gapless.then(|| &self.data[first + run.start..last + run.end])
    }
}

/// Sums of a tile, row after row of a panel's width.
#[repr(align(64))]
pub(crate) struct Sums([f32; ROWS_OF_32_REGISTERS * VECTORS * WIDEST]);

impl Sums {
    pub(crate) fn new() -> Self {
        Self([0.0; _])
    }

    /// Returns row `i` of a tile of panels of `width` columns.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, width: usize) -> &[f32] {
        &self.0[i * width..(i + 1) * width]
    }

    /// Returns a destination that replaces the sums.
    #[inline(always)]
    pub(crate) fn overwrite(&mut self) -> Destination<'_> {
        Destination { sums: &mut self.0, add: false }
    }
}

/// Destination of a tile's sums.
pub(crate) struct Destination<'a> {
    /// Sums, row after row of a panel's width.
    pub(super) sums: &'a mut [f32],
    /// Whether new sums are added to these.
    pub(super) add: bool,
}

/// Runs `$run` with the constant `$rows`, which is `$count`, for vectors `$simd`. There is one copy for each number of rows
/// up to [`most_rows`], because sums stay in registers only if the number is a constant. More rows are not served.
macro_rules! by_rows {
    ($simd:ident, $count:expr, $rows:ident => $run:expr) => {
        if const { $simd::REGISTER_COUNT >= 32 } {
            by_rows!($count, $rows => $run; 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        } else {
            by_rows!($count, $rows => $run; 1 2 3 4 5 6);
        }
    };
    ($count:expr, $rows:ident => $run:expr; $($number:literal)*) => {
        match $count {
            $($number => {
                const $rows: usize = $number;
                $run
            })*
            _ => {}
        }
    };
}
pub(super) use by_rows;

/// Computes `A · panel`. A has at most [`most_rows`] rows. Each step of the depth is a step of each `prefetch`.
#[inline(always)]
pub(crate) fn multiply<S: Simd, const PREFETCHES: usize>(
    simd: S,
    rows: Rows<'_>,
    panel: &[f32],
    prefetch: [Prefetch; PREFETCHES],
    destination: Destination<'_>,
) {
    by_rows!(S, rows.starts.len(), ROWS => {
        simd.vectorize(Tile::<ROWS, PREFETCHES> { rows, panel, prefetch, destination })
    });
}

struct Tile<'a, const ROWS: usize, const PREFETCHES: usize> {
    rows: Rows<'a>,
    panel: &'a [f32],
    prefetch: [Prefetch; PREFETCHES],
    destination: Destination<'a>,
}

impl<const ROWS: usize, const PREFETCHES: usize> WithSimd for Tile<'_, ROWS, PREFETCHES> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Rows { data, starts, runs } = self.rows;
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        let (mut panel, _) = S::as_simd_f32s(self.panel).0.as_chunks::<VECTORS>();
        for run in runs {
            let len = run.len();
            let (now, rest) = panel.split_at(len);
            panel = rest;
            let mut rows = [data; ROWS];
            for (i, row) in rows.iter_mut().enumerate() {
                // Opaque to the compiler, which would otherwise compute each address from the first in every step.
                *row = &black_box(&data[starts[i] + run.start..])[..len];
            }
            for k in 0..len {
                let columns = now[k];
                self.prefetch.iter_mut().for_each(Prefetch::step);
                for i in 0..ROWS {
                    let a = simd.splat_f32s(rows[i][k]);
                    for v in 0..VECTORS {
                        sums[i][v] = simd.mul_add_e_f32s(a, columns[v], sums[i][v]);
                    }
                }
            }
        }
        let (out, _) = S::as_mut_simd_f32s(self.destination.sums).0.as_chunks_mut::<VECTORS>();
        // Vector by vector: a copy of the array as a whole would keep it in memory instead of registers.
        for (out, row) in out.iter_mut().zip(sums) {
            for (out, sum) in out.iter_mut().zip(row) {
                *out = if self.destination.add { simd.add_f32s(*out, sum) } else { sum };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_gaps_are_known() {
        let data: Vec<f32> = (0..40u8).map(f32::from).collect();
        let all = |starts, runs| Rows { data: &data, starts, runs }.end_to_end();
        let run = 2..6;
        let runs = std::slice::from_ref(&run);
        assert_eq!(all(&[4, 8, 12], runs), Some(&data[6..18]));
        assert_eq!(all(&[4, 8, 16], runs), None, "a gap");
        assert_eq!(all(&[4, 8], &[0..2, 2..4]), None, "two runs");
        assert_eq!(all(&[4], runs), Some(&data[6..10]));
        assert_eq!(all(&[], runs), None);
    }
}
