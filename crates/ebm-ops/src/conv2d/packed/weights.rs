//! The orders in which the products read a convolution's weights.
//!
//! For small maps these copies take a training step as long as the products, so they are made in blocks.

use rayon::prelude::*;

use crate::packed::Panels;
use crate::storage::zeros;

/// Channels of a block that is transposed at once: a cache line of f32.
const SIDE: usize = 16;

/// Weights (O, C, kh, kw).
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) data: &'a [f32],
    pub(super) filters: usize,
    pub(super) channels: usize,
    pub(super) kernel: [usize; 2],
}

impl Weights<'_> {
    /// Packs the weights for the output: row (u · kw + v) · C + c, column o. The numbers of a filter become a column.
    pub(super) fn forward(self) -> Panels {
        Panels::transposed(self.data, self.channels, self.taps())
    }

    /// Inverts [`forward`](Self::forward): returns numbers (O, C, kh, kw) from panels of that order.
    pub(super) fn unpack(panels: &Panels, channels: usize, taps: usize) -> Vec<f32> {
        let (width, len) = (panels.width(), channels * taps);
        let mut data = zeros(panels.columns() * len);
        data.par_chunks_mut(width * len).enumerate().for_each(|(panel, to)| {
            let from = panels.panel(panel);
            for first in (0..channels).step_by(SIDE) {
                let block = first * taps..channels.min(first + SIDE) * taps;
                for (j, filter) in to.chunks_exact_mut(len).enumerate() {
                    for (c, numbers) in (first..).zip(filter[block.clone()].chunks_exact_mut(taps)) {
                        for (t, number) in numbers.iter_mut().enumerate() {
                            *number = from[(t * channels + c) * width + j];
                        }
                    }
                }
            }
        });
        data
    }

    /// Packs the weights for the input's gradient, for some rows u and columns v of the kernel: row (i · |v| + j) · O + o,
    /// column c is w\[o, c, u\[i\], v\[j\]\].
    pub(super) fn backward(self, [us, vs]: [&[usize]; 2]) -> Panels {
        let (filters, taps) = (self.filters, self.taps());
        let wanted: Vec<usize> =
            us.iter().flat_map(|u| vs.iter().map(move |v| u * self.kernel[1] + v)).collect();
        let mut panels = Panels::zeros(wanted.len() * filters, self.channels);
        let width = panels.width();
        panels.panels_mut().enumerate().for_each(|(panel, to)| {
            let columns = panel * width..self.channels.min((panel + 1) * width);
            for (o, filter) in self.data.chunks_exact(self.channels * taps).enumerate() {
                let from = &filter[columns.start * taps..columns.end * taps];
                for (t, tap) in wanted.iter().enumerate() {
                    let row = &mut to[(t * filters + o) * width..][..columns.len()];
                    if taps == 1 {
                        row.copy_from_slice(from);
                    } else {
                        row.iter_mut().zip(from[*tap..].iter().step_by(taps)).for_each(|(to, w)| *to = *w);
                    }
                }
            }
        });
        panels
    }

    fn taps(self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
}
