//! A band of rows of an inverted residual: expanded into a frame of zeros, then filtered channel by channel.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{Layer, PackedInverted};
use crate::packed::{
    MOST_ROWS, Rows, Sums, VECTORS, Workspace, finish, line_start, multiply, room, tile, tiles,
};

/// Neighbouring pixels of a row that are summed at a time, so that a weight is read once for all of them.
const PIXELS: usize = 6;

/// Rows of the result of the depthwise convolution, for the channels of one panel.
pub(super) struct Band<'a> {
    pub(super) layer: &'a Layer<'a>,
    /// Image (H, W, I).
    pub(super) x: &'a [f32],
    pub(super) panel: usize,
    /// Number of the first row.
    pub(super) first: usize,
    pub(super) to: &'a mut [f32],
}

impl WithSimd for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Layer { parameters, input: [height, columns], before: [top, left], output, .. } = *self.layer;
        let PackedInverted { kernel, stride, .. } = *parameters;
        let (width, framed) = (VECTORS * S::F32_LANES, self.layer.framed());
        let rows = self.to.len() / (output[1] * width);
        let (reach, begin) = ((rows - 1) * stride + kernel, self.first * stride);
        // Rows of the image that the band reads. The frame is zero above and below them.
        let there = begin.saturating_sub(top).min(height)..(begin + reach).saturating_sub(top).min(height);
        let columns_met = columns.min(framed.saturating_sub(left));
        let workspace = Workspace::shared();
        let mut buffer = workspace.take(room(reach * framed * width));
        let start = line_start(&buffer);
        let frame = &mut buffer[start..][..reach * framed * width];
        for (i, row) in frame.chunks_exact_mut(framed * width).enumerate() {
            if there.contains(&(begin + i).wrapping_sub(top)) {
                row[..left * width].fill(0.0);
                row[(left + columns_met) * width..].fill(0.0);
            } else {
                row.fill(0.0);
            }
        }
        // Returns the place of a pixel in the frame, or `None` if no output reads it.
        let place = |pixel: usize| {
            let (row, column) = (pixel / columns, pixel % columns);
            (column < columns_met).then(|| ((row + top - begin) * framed + left + column) * width)
        };
        self.expand(simd, there.start * columns..there.end * columns, place, frame);
        match (kernel, stride) {
            (3, 1) => self.depthwise::<S, 3, 1>(simd, frame),
            (3, 2) => self.depthwise::<S, 3, 2>(simd, frame),
            (5, 1) => self.depthwise::<S, 5, 1>(simd, frame),
            _ => self.depthwise::<S, 5, 2>(simd, frame),
        }
        workspace.give(buffer);
    }
}

impl Band<'_> {
    /// Computes the panel's channels of these pixels, and writes them to the places that `place` returns.
    #[inline(always)]
    fn expand<S: Simd>(
        &self,
        simd: S,
        pixels: Range<usize>,
        place: impl Fn(usize) -> Option<usize>,
        frame: &mut [f32],
    ) {
        let PackedInverted { expand, inputs, activation, .. } = self.layer.parameters;
        let (width, inputs) = (VECTORS * S::F32_LANES, *inputs);
        let Some((panels, bias)) = expand else {
            let own = self.panel * width..inputs.min((self.panel + 1) * width);
            for (pixel, place) in pixels.filter_map(|pixel| Some((pixel, place(pixel)?))) {
                let to = &mut frame[place..][..width];
                to[..own.len()].copy_from_slice(&self.x[pixel * inputs..][own.clone()]);
                to[own.len()..].fill(0.0);
            }
            return;
        };
        let panel = panels.panel(self.panel);
        // The last panel's bias is padded here, because its columns are padded with zeros.
        let own = &bias[self.panel * width..bias.len().min((self.panel + 1) * width)];
        let mut filled = [0.0; VECTORS * MOST_LANES];
        filled[..own.len()].copy_from_slice(own);
        let (bias, run, mut sums) = (&filled[..width], 0..inputs, Sums::new());
        for part in 0..tiles::<S>(pixels.len()) {
            let range = tile::<S>(pixels.len(), part);
            let mut starts = [0; MOST_ROWS];
            let first = pixels.start + range.start;
            starts.iter_mut().zip(first..).for_each(|(start, pixel)| *start = pixel * inputs);
            let starts = &starts[..range.len()];
            let rows = Rows { data: self.x, starts, runs: std::slice::from_ref(&run) };
            multiply(simd, rows, panel, [], sums.overwrite());
            for i in 0..range.len() {
                if let Some(place) = place(first + i) {
                    let to = &mut frame[place..][..width];
                    finish(simd, sums.row(i, width), bias, &[], *activation, to);
                }
            }
        }
    }

    #[inline(always)]
    fn depthwise<S: Simd, const K: usize, const STRIDE: usize>(self, simd: S, frame: &[f32]) {
        let PackedInverted { taps, bias, activation, .. } = self.layer.parameters;
        let (framed, columns) = (self.layer.framed(), self.layer.output[1]);
        let all = |numbers| S::as_simd_f32s(numbers).0.as_chunks::<VECTORS>().0;
        let (frame, bias) = (all(frame), all(bias)[self.panel]);
        let taps = &all(taps)[self.panel * K * K..][..K * K];
        let bounds = activation.bounds().map(|bound| simd.splat_f32s(bound as f32));
        let to = S::as_mut_simd_f32s(self.to).0.as_chunks_mut::<VECTORS>().0;
        for (i, to) in to.chunks_exact_mut(columns).enumerate() {
            let row = Row { frame: &frame[i * STRIDE * framed..], framed, taps, bias, bounds };
            let mut at = 0;
            while at < columns {
                // The last pixels are computed twice instead of one by one.
                let first = at.min(columns.saturating_sub(PIXELS));
                if columns < PIXELS {
                    row.pixels::<S, K, STRIDE, 1>(simd, at, to);
                    at += 1;
                } else {
                    row.pixels::<S, K, STRIDE, PIXELS>(simd, first, to);
                    at = first + PIXELS;
                }
            }
        }
    }
}

/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// Arguments of a row of outputs: the rows of the frame from the first that it reads, the weights and the bias.
#[derive(Clone, Copy)]
struct Row<'a, V> {
    frame: &'a [[V; VECTORS]],
    framed: usize,
    taps: &'a [[V; VECTORS]],
    bias: [V; VECTORS],
    bounds: [V; 2],
}

impl<V: Copy> Row<'_, V> {
    /// Computes the P pixels from `first` on.
    #[inline(always)]
    fn pixels<S: Simd<f32s = V>, const K: usize, const STRIDE: usize, const P: usize>(
        self,
        simd: S,
        first: usize,
        to: &mut [[V; VECTORS]],
    ) {
        let mut sums = [self.bias; P];
        for u in 0..K {
            let window = &self.frame[u * self.framed + first * STRIDE..][..(P - 1) * STRIDE + K];
            let taps = &self.taps[u * K..][..K];
            for v in 0..K {
                for p in 0..P {
                    for i in 0..VECTORS {
                        sums[p][i] = simd.mul_add_e_f32s(window[p * STRIDE + v][i], taps[v][i], sums[p][i]);
                    }
                }
            }
        }
        let [least, most] = self.bounds;
        for (to, sums) in to[first..][..P].iter_mut().zip(sums) {
            for (to, sum) in to.iter_mut().zip(sums) {
                // If `sum` is NaN, minimum and maximum return it.
                *to = simd.min_f32s(most, simd.max_f32s(least, sum));
            }
        }
    }
}
