//! A matrix of weights in the order in which a register tile reads it.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::tile::VECTORS;
use super::workspace::{line_start, room};
use crate::simd::arch;
use crate::storage::zeros;

/// Channels that are transposed at once, while their rows are in the first-level cache.
const SIDE: usize = 16;

/// Matrix B (depth × columns), cut into panels with the columns of a tile. Within a panel, rows lie end to end. The last
/// panel is padded with zeros.
#[derive(Clone, Debug)]
pub struct Panels {
    depth: usize,
    columns: usize,
    /// Columns of a panel on this processor.
    width: usize,
    data: Vec<f32>,
    start: usize,
}

impl Panels {
    /// Makes a matrix of zeros.
    pub(crate) fn zeros(depth: usize, columns: usize) -> Self {
        let width = panel_width();
        Self::over(zeros(room(columns.div_ceil(width) * depth * width)), depth, columns)
    }

    /// Makes a matrix as [`zeros`](Self::zeros) does, on this thread alone. If others may wait for the result, the thread
    /// must not be given their work meanwhile.
    pub(crate) fn zeros_here(depth: usize, columns: usize) -> Self {
        let width = panel_width();
        Self::over(vec![0.0; room(columns.div_ceil(width) * depth * width)], depth, columns)
    }

    fn over(data: Vec<f32>, depth: usize, columns: usize) -> Self {
        let start = line_start(&data);
        Self { depth, columns, width: panel_width(), data, start }
    }

    /// Packs lines of (channels × taps) numbers as columns. Number (c, t) goes to row t · channels + c.
    pub fn transposed(lines: &[f32], channels: usize, taps: usize) -> Self {
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

    /// Returns the panels, each depth × width, to be filled.
    pub(crate) fn panels_mut_in_order(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let len = self.depth * self.width;
        let all = self.columns.div_ceil(self.width) * len;
        self.data[self.start..][..all].chunks_exact_mut(len.max(1))
    }

    /// Returns the panels, to be filled in parallel.
    pub(crate) fn panels_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [f32]> {
        let len = self.depth * self.width;
        let all = self.columns.div_ceil(self.width) * len;
        self.data[self.start..][..all].par_chunks_exact_mut(len.max(1))
    }

    /// Fills the panels, on this thread. Element (k, column) of B is `element(k, column)`.
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

    /// Returns the number of rows of B.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the number of columns of B.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of columns of a panel.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of panels.
    pub(crate) fn count(&self) -> usize {
        self.columns.div_ceil(self.width)
    }

    /// Returns the bytes of a panel.
    pub(crate) fn bytes(&self) -> usize {
        self.depth * self.width * size_of::<f32>()
    }

    /// Returns panel `i`, depth × width.
    pub(crate) fn panel(&self, i: usize) -> &[f32] {
        &self.data[self.start + i * self.depth * self.width..][..self.depth * self.width]
    }

    /// Returns element (k, column) of B.
    pub(crate) fn get(&self, k: usize, column: usize) -> f32 {
        self.panel(column / self.width)[k * self.width + column % self.width]
    }
}

/// Returns the columns of a panel: the width of a register tile on this processor.
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
