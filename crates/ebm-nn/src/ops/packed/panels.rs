//! A matrix of weights in the order in which a register tile reads it.

use pulp::{Arch, Simd, WithSimd};

use super::tile::VECTORS;
use super::workspace::{line_start, room};

/// The matrix B (depth × columns) cut into panels of as many columns as a tile has; within a panel, row after row.
/// The last panel is filled up with zeros.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Panels {
    depth: usize,
    columns: usize,
    /// Columns of a panel on this processor.
    width: usize,
    data: Vec<f32>,
    start: usize,
}

impl Panels {
    /// Packs the matrix whose element (k, column) is `element(k, column)`.
    pub(in crate::ops) fn new(depth: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Self {
        let width = panel_width();
        let len = columns.div_ceil(width) * depth * width;
        let mut data = vec![0.0; room(len)];
        let start = line_start(&data);
        for (panel, to) in data[start..start + len].chunks_exact_mut((depth * width).max(1)).enumerate() {
            for (k, row) in to.chunks_exact_mut(width).enumerate() {
                for (j, value) in row.iter_mut().enumerate().take(columns - panel * width) {
                    *value = element(k, panel * width + j);
                }
            }
        }
        Self { depth, columns, width, data, start }
    }

    /// The number of rows of B.
    pub(in crate::ops) fn depth(&self) -> usize {
        self.depth
    }

    /// The number of columns of B.
    pub(in crate::ops) fn columns(&self) -> usize {
        self.columns
    }

    /// The number of columns of a panel.
    pub(in crate::ops) fn width(&self) -> usize {
        self.width
    }

    /// The number of panels.
    pub(in crate::ops) fn count(&self) -> usize {
        self.columns.div_ceil(self.width)
    }

    /// The bytes of a panel.
    pub(in crate::ops) fn bytes(&self) -> usize {
        self.depth * self.width * size_of::<f32>()
    }

    /// Panel `i`, depth × width.
    pub(in crate::ops) fn panel(&self, i: usize) -> &[f32] {
        &self.data[self.start + i * self.depth * self.width..][..self.depth * self.width]
    }

    /// Element (k, column) of B.
    pub(in crate::ops) fn get(&self, k: usize, column: usize) -> f32 {
        self.panel(column / self.width)[k * self.width + column % self.width]
    }
}

/// The columns of a panel: the width of a register tile on this processor.
fn panel_width() -> usize {
    struct Width;
    impl WithSimd for Width {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            VECTORS * S::F32_LANES
        }
    }
    Arch::new().dispatch(Width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_again() {
        let panels = Panels::new(3, 37, |k, j| (100 * k + j) as f32 + 1.0);
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
