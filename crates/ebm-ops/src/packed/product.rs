//! `C = A · B` with B in panels, and an epilogue on C while it is in the cache.
//!
//! The sizes alone decide how the work is cut, and one task sums each number of C in the order of the depth. So the number of
//! threads changes no bit.

use std::ops::Range;
use std::ptr::slice_from_raw_parts;

use candle_core::Result;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::panels::Panels;
use super::prefetch::Prefetch;
use super::tile::{MOST_ROWS, Rows, Sums, most_rows, multiply};
use crate::gemm::{MatMut, even_ranges};
use crate::relu::Activation;
use crate::simd::arch;

/// Tasks that the rows of A are cut into.
const ROW_TASKS: usize = 16;
/// Fewest rows of a task, at least one tile.
const FEWEST_ROWS: usize = MOST_ROWS;
/// Tasks that the panels of B are cut into, if B is the larger matrix.
const PANEL_TASKS: usize = 8;
/// Bytes of B that stay in the second-level cache while the rows of A pass.
const RESIDENT: usize = 3 << 18;
/// Bytes of B that every task may read for any size of A.
const SMALL: usize = 1 << 19;
/// Multiplications below which a product is one task.
const TASK: usize = 1 << 18;

/// Returns part `part` of `count` rows cut into tiles of almost equal numbers of rows.
#[inline(always)]
pub(crate) fn tile<S: Simd>(count: usize, part: usize) -> Range<usize> {
    let parts = tiles::<S>(count);
    count * part / parts..count * (part + 1) / parts
}

/// Returns the number of tiles that `count` rows are cut into.
#[inline(always)]
pub(crate) fn tiles<S: Simd>(count: usize) -> usize {
    count.div_ceil(most_rows::<S>()).max(1)
}

/// Epilogue `C ← activation(A · B + bias + residual)`.
#[derive(Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// One number for each column, or none.
    pub bias: &'a [f32],
    /// Matrix of the size of C, or none.
    pub residual: Option<&'a [f32]>,
    /// Activation after the sum.
    pub activation: Activation,
}

/// Computes `c ← epilogue(A · B)`, c (rows × columns of B), in parallel.
pub(crate) fn product(rows: Rows<'_>, panels: &Panels, epilogue: Epilogue<'_>, c: &mut [f32]) -> Result<()> {
    let (columns, count) = (panels.columns(), panels.count());
    let height = rows.starts.len();
    let (a_len, b_len) = (height * panels.depth(), columns * panels.depth());
    let by_rows = height >= ROW_TASKS * FEWEST_ROWS && (b_len <= a_len || b_len * size_of::<f32>() <= SMALL);
    let (row_tasks, panel_tasks) = if height * b_len <= TASK {
        (1, 1)
    } else if by_rows {
        (ROW_TASKS, 1)
    } else {
        (1, PANEL_TASKS)
    };
    let mut tasks = Vec::with_capacity(row_tasks * panel_tasks);
    let mut rest = MatMut::new(c, height, columns)?;
    for part in even_ranges(height, row_tasks, 1) {
        let (mut here, below) = rest.split_rows(part.len());
        rest = below;
        for range in even_ranges(count, panel_tasks, 1) {
            let (c, right) = here.split_cols(range.len() * panels.width());
            here = right;
            let (rows, first) = (rows.part(part.clone()), part.start);
            tasks.push(Task { rows, first, panels, range, is_whole: by_rows, epilogue, c });
        }
    }
    let arch = arch();
    tasks.into_par_iter().for_each(|task| arch.dispatch(task));
    Ok(())
}

/// Rectangle of C.
struct Task<'a> {
    rows: Rows<'a>,
    /// Number of the first row.
    first: usize,
    panels: &'a Panels,
    range: Range<usize>,
    /// Whether the task has all panels, and not all rows.
    is_whole: bool,
    epilogue: Epilogue<'a>,
    c: MatMut<'a, f32>,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (first_panel, height) = (self.range.start, self.rows.starts.len());
        let (width, columns, depth) = (self.panels.width(), self.panels.columns(), self.panels.depth());
        // Unless the task has all panels, all rows pass one panel at a time, while the next panel is prefetched.
        let at_a_time = if self.is_whole { (RESIDENT / self.panels.bytes().max(1)).max(1) } else { 1 };
        let mut sums = Sums::new();
        for start in self.range.clone().step_by(at_a_time) {
            let here = start..self.range.end.min(start + at_a_time);
            for part in 0..tiles::<S>(height) {
                let range = tile::<S>(height, part);
                let rows = self.rows.part(range.clone());
                let next_rows = self.rows_to_prefetch(range.clone(), here == self.range);
                for panel in here.clone() {
                    let (now, destination) = (self.panels.panel(panel), sums.overwrite());
                    if self.is_whole {
                        let prefetch = next_rows.map(|numbers| match numbers {
                            Some(numbers) => Prefetch::share(numbers, panel - here.start, here.len(), depth),
                            None => Prefetch::none(now),
                        });
                        multiply(simd, rows, now, prefetch, destination);
                    } else {
                        let prefetch = if panel + 1 < self.panels.count() {
                            Prefetch::share(self.panels.panel(panel + 1), part, tiles::<S>(height), depth)
                        } else {
                            Prefetch::none(now)
                        };
                        multiply(simd, rows, now, [prefetch], destination);
                    }
                    let all = panel * width..columns.min((panel + 1) * width);
                    let here = all.start - first_panel * width..all.end - first_panel * width;
                    let bias = self.epilogue.bias.get(all.clone()).unwrap_or_default();
                    for row in range.clone() {
                        let residual = match self.epilogue.residual {
                            Some(residual) => &residual[(self.first + row) * columns..][all.clone()],
                            None => &[],
                        };
                        let to = &mut self.c.row_mut(row)[here.clone()];
                        finish(
                            simd,
                            sums.row(row - range.start, width),
                            bias,
                            residual,
                            self.epilogue.activation,
                            to,
                        );
                    }
                }
            }
        }
    }
}

impl Task<'_> {
    /// Returns the memory to prefetch for the rows after `range`, here or in the next task: of A if it lies end to end, and
    /// of the residual and of C if each row is finished `at_once`.
    #[inline(always)]
    fn rows_to_prefetch(&self, range: Range<usize>, at_once: bool) -> [Option<*const [f32]>; 3] {
        let (columns, after) = (self.panels.columns(), range.end..range.end + range.len());
        let rows = self.rows.part(range).end_to_end();
        let residual = |all: &[f32]| {
            let start = all.as_ptr().wrapping_add((self.first + after.start) * columns);
            slice_from_raw_parts(start, after.len() * columns)
        };
        [
            rows.map(|rows| slice_from_raw_parts(rows.as_ptr_range().end, rows.len())),
            self.epilogue.residual.filter(|_| at_once).map(residual),
            at_once.then(|| self.c.span(after.clone())),
        ]
    }
}

/// Computes `to ← activation(sums + bias + residual)`. An empty bias or residual is none.
#[inline(always)]
pub(crate) fn finish<S: Simd>(
    simd: S,
    sums: &[f32],
    bias: &[f32],
    residual: &[f32],
    activation: Activation,
    to: &mut [f32],
) {
    let [least, most] = activation.bounds().map(|bound| simd.splat_f32s(bound as f32));
    // If `value` is NaN, minimum and maximum return it.
    let cut = |value| simd.min_f32s(most, simd.max_f32s(least, value));
    if to.len().is_multiple_of(S::F32_LANES) {
        let ((sums, _), (bias, _)) = (S::as_simd_f32s(sums), S::as_simd_f32s(bias));
        let (residual, _) = S::as_simd_f32s(residual);
        let (to, _) = S::as_mut_simd_f32s(to);
        for (i, (to, sum)) in to.iter_mut().zip(sums).enumerate() {
            let mut value = *sum;
            if let Some(bias) = bias.get(i) {
                value = simd.add_f32s(value, *bias);
            }
            if let Some(residual) = residual.get(i) {
                value = simd.add_f32s(value, *residual);
            }
            *to = cut(value);
        }
        return;
    }
    for (i, to) in to.chunks_mut(S::F32_LANES).enumerate() {
        let range = i * S::F32_LANES..i * S::F32_LANES + to.len();
        let mut value = load(simd, &sums[range.clone()]);
        if !bias.is_empty() {
            value = simd.add_f32s(value, load(simd, &bias[range.clone()]));
        }
        if !residual.is_empty() {
            value = simd.add_f32s(value, load(simd, &residual[range]));
        }
        value = cut(value);
        match S::as_mut_simd_f32s(to) {
            ([to], _) => *to = value,
            _ => simd.partial_store_f32s(to, value),
        }
    }
}

/// Loads a vector's numbers, or fewer numbers and zeros.
#[inline(always)]
fn load<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    match S::as_simd_f32s(values) {
        ([vector], _) => *vector,
        _ => simd.partial_load_f32s(values),
    }
}

/// Rows of a matrix at equal distances. The product defines the length of a row.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) stride: usize,
}

/// Computes `c = A · B`, or `c += A · B` with `accumulate`, on this thread. The rows of A are at equal distances. The rows of
/// c are as long as B's and lie end to end, and their number is the number of rows. `next`, with the size of B, is the matrix
/// of the next product.
#[inline(always)]
pub(crate) fn product_here<S: Simd>(
    simd: S,
    a: Strided<'_, f32>,
    panels: &Panels,
    next: Option<&Panels>,
    accumulate: bool,
    c: &mut [f32],
) {
    let (columns, width) = (panels.columns(), panels.width());
    let (run, count) = (0..panels.depth(), c.len() / columns);
    let mut sums = Sums::new();
    for part in 0..tiles::<S>(count) {
        let range = tile::<S>(count, part);
        let mut starts = [0; MOST_ROWS];
        starts.iter_mut().zip(range.clone()).for_each(|(start, row)| *start = row * a.stride);
        let rows = Rows { data: a.data, starts: &starts[..range.len()], runs: std::slice::from_ref(&run) };
        for panel in 0..panels.count() {
            let now = panels.panel(panel);
            let prefetch = match next {
                Some(next) => Prefetch::share(next.panel(panel), part, tiles::<S>(count), panels.depth()),
                None => Prefetch::none(now),
            };
            multiply(simd, rows, now, [prefetch], sums.overwrite());
            let all = panel * width..columns.min((panel + 1) * width);
            for row in range.clone() {
                let to = &mut c[row * columns..][all.clone()];
                let sums = &sums.row(row - range.start, width)[..to.len()];
                if accumulate {
                    to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
                } else {
                    to.copy_from_slice(sums);
                }
            }
        }
    }
}
