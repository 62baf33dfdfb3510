//! A matrix of weights in the order in which a register tile reads it.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::tile::VECTORS;
use super::workspace::{line_start, room};
use crate::simd::arch;
use crate::storage::zeros;

/// Channels that are turned at once, while their rows are in the first-level cache.
const SIDE: usize = 16;

/// The matrix B (depth × columns) cut into panels of as many columns as a tile has; within a panel, row after
/// row. The last panel is filled up with zeros.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    depth: usize,
    columns: usize,
    /// Columns of a panel on this processor.
    width: usize,
    data: Vec<f32>,
    start: usize,
}

impl Panels {
    /// Room for a matrix, filled with zeros.
    pub(crate) fn zeros(depth: usize, columns: usize) -> Self {
        let width = panel_width();
        Self::over(zeros(room(columns.div_ceil(width) * depth * width)), depth, columns)
    }

    /// [`zeros`](Self::zeros) by this thread alone: where others may wait for the result, it must not be
    /// given their work meanwhile.
    pub(crate) fn zeros_here(depth: usize, columns: usize) -> Self {
        let width = panel_width();
        Self::over(vec![0.0; room(columns.div_ceil(width) * depth * width)], depth, columns)
    }

    fn over(data: Vec<f32>, depth: usize, columns: usize) -> Self {
        let start = line_start(&data);
        Self { depth, columns, width: panel_width(), data, start }
    }

    /// Lines of (channels × taps) numbers as columns; number (c, t) goes to row t · channels + c.
    pub(crate) fn transposed(lines: &[f32], channels: usize, taps: usize) -> Self {
        let len = channels * taps;
        let mut panels = Self::zeros(len, lines.len() / len);
        let width = panels.width;
        panels.panels_mut().zip(lines.par_chunks(width * len)).for_each(|(to, from)| {
            for first in (0..channels).step_by(SIDE) {
                let block = first * taps..channels.min(first + SIDE) * taps;
                for (j, line) in from.chunks_exact(len).enumerate() {
                    for (c, numbers) in (first..).zip(line[block.clone()].chunks_exact(taps)) {
                        for (t, number) in numbers.iter().enumerate() {
                            to[(t * channels + c) * width + j] = *number;
                        }
                    }
                }
            }
        });
        panels
    }

    /// The panels, each depth × width, to be filled.
    pub(crate) fn panels_mut_in_order(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let len = self.depth * self.width;
        let all = self.columns.div_ceil(self.width) * len;
        self.data[self.start..][..all].chunks_exact_mut(len.max(1))
    }

    /// [`panels_mut_in_order`](Self::panels_mut_in_order), to be filled in parallel.
    pub(crate) fn panels_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [f32]> {
        let len = self.depth * self.width;
        let all = self.columns.div_ceil(self.width) * len;
        self.data[self.start..][..all].par_chunks_exact_mut(len.max(1))
    }

    /// Fills them, on this thread, where element (k, column) of B is `element(k, column)`.
    pub(crate) fn fill(&mut self, element: impl Fn(usize, usize) -> f32) {
        let (width, columns) = (self.width, self.columns);
        for (panel, to) in self.panels_mut_in_order().enumerate() {
            for (k, row) in to.chunks_exact_mut(width).enumerate() {
                for (value, column) in row.iter_mut().zip(panel * width..columns) {
                    *value = element(k, column);
                }
            }
        }
    }

    /// The number of rows of B.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The number of columns of B.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The number of columns of a panel.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The number of panels.
    pub(crate) fn count(&self) -> usize {
        self.columns.div_ceil(self.width)
    }

    /// The bytes of a panel.
    pub(crate) fn bytes(&self) -> usize {
        self.depth * self.width * size_of::<f32>()
    }

    /// Panel `i`, depth × width.
    pub(crate) fn panel(&self, i: usize) -> &[f32] {
        &self.data[self.start + i * self.depth * self.width..][..self.depth * self.width]
    }

    /// Element (k, column) of B.
    pub(crate) fn get(&self, k: usize, column: usize) -> f32 {
        self.panel(column / self.width)[k * self.width + column % self.width]
    }
}

/// The columns of a panel: the width of a register tile on this processor.
pub(crate) fn panel_width() -> usize {
    struct Width;
    impl WithSimd for Width {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            VECTORS * S::F32_LANES
        }
    }
    arch().dispatch(Width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_again() {
        let mut panels = Panels::zeros(3, 37);
        let width = panels.width();
        for (panel, to) in panels.panels_mut_in_order().enumerate() {
            for (i, value) in to.iter_mut().enumerate().filter(|(i, _)| panel * width + i % width < 37) {
                *value = (100 * (i / width) + panel * width + i % width) as f32 + 1.0;
            }
        }
        for k in 0..3 {
            for j in 0..37 {
                assert_eq!(panels.get(k, j), (100 * k + j) as f32 + 1.0);
            }
        }
        let last = panels.panel(panels.count() - 1);
        let filled = last.iter().filter(|v| **v != 0.0).count();
        assert_eq!(filled, 3 * (37 - (panels.count() - 1) * panels.width()));
    }
}
