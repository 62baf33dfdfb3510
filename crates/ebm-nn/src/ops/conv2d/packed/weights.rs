//! The orders in which the products read a convolution's weights.

use rayon::prelude::*;

use crate::ops::packed::Panels;

/// Rows of a panel that are written together, while they are in the first-level cache.
const ROWS: usize = 16;

/// Weights (O, C, kh, kw).
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) data: &'a [f32],
    pub(super) filters: usize,
    pub(super) channels: usize,
    pub(super) kernel: [usize; 2],
}

impl Weights<'_> {
    /// What the output is computed with: row (u · kw + v) · C + c, column o.
    pub(super) fn forward(self) -> Panels {
        let all = self.kernel.map(|size| (0..size).collect::<Vec<_>>());
        let (filter, channel) = (self.channels * self.taps(), self.taps());
        self.pack([&all[0], &all[1]], (self.channels, channel), (self.filters, filter))
    }

    /// What the input's gradient is computed with, for some rows u and columns v of the kernel: row
    /// (i · |v| + j) · O + o, column c is w\[o, c, u\[i\], v\[j\]\].
    pub(super) fn backward(self, taps: [&[usize]; 2]) -> Panels {
        let (filter, channel) = (self.channels * self.taps(), self.taps());
        self.pack(taps, (self.filters, filter), (self.channels, channel))
    }

    fn taps(self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Panels with a row for each tap and row index and a column for each column index, of which the distances in
    /// the weights are given beside their numbers.
    fn pack(
        self,
        [us, vs]: [&[usize]; 2],
        (rows, row_step): (usize, usize),
        (columns, column_step): (usize, usize),
    ) -> Panels {
        let taps: Vec<usize> =
            us.iter().flat_map(|u| vs.iter().map(move |v| u * self.kernel[1] + v)).collect();
        let mut panels = Panels::zeros(taps.len() * rows, columns);
        let width = panels.width();
        panels.panels_mut().enumerate().for_each(|(panel, to)| {
            let columns = panel * width..columns.min((panel + 1) * width);
            for first in (0..rows).step_by(ROWS) {
                for (j, column) in columns.clone().enumerate() {
                    for row in first..rows.min(first + ROWS) {
                        let from = &self.data[row * row_step + column * column_step..];
                        for (t, tap) in taps.iter().enumerate() {
                            to[(t * rows + row) * width + j] = from[*tap];
                        }
                    }
                }
            }
        });
        panels
    }

    /// The inverse of [`forward`](Self::forward): numbers (O, C, kh, kw) from panels of that order.
    pub(super) fn unpack(panels: &Panels, channels: usize, taps: usize) -> Vec<f32> {
        let width = panels.width();
        let mut data = vec![0.0; panels.columns() * channels * taps];
        data.par_chunks_mut(width * channels * taps).enumerate().for_each(|(panel, to)| {
            let from = panels.panel(panel);
            let columns = to.len() / (channels * taps);
            for first in (0..channels).step_by(ROWS) {
                for j in 0..columns {
                    for c in first..channels.min(first + ROWS) {
                        for t in 0..taps {
                            to[(j * channels + c) * taps + t] = from[(t * channels + c) * width + j];
                        }
                    }
                }
            }
        });
        data
    }
}
