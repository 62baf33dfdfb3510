//! The gradient of a convolution in its weights:
//! `dw[o, c, u, v] = Σ_pixels dy[pixel, o] · x[pixel at tap (u, v), c]`.
//!
//! This is a product summed over the pixels. For a row u of the kernel, the kw · C numbers that a pixel reads lie end to end.
//! So the rows of the result are runs of x's own memory, and only dy is copied, into panels.

use std::ops::Range;

use candle_core::Result;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::border::{Frame, framed};
use super::stored;
use super::weights::Weights;
use crate::gemm::even_ranges;
use crate::packed::{Panels, Segment, Strided, Workspace, accumulate, tile, tiles};
use crate::simd::arch;

/// Number of tasks to aim for.
const TASKS: usize = 8;
/// Pixels that are summed at a time. Their part of a panel and of x stays in the first-level cache.
const PIXELS: usize = 128;

/// Returns dw (O, C, kh, kw) from x (N, H, W, C) and dy (N, oh, ow, O).
pub(in crate::conv2d) fn weight_gradient(x: &[f32], dy: &[f32], g: &Geometry) -> Result<Vec<f32>> {
    if stored::suits(g) {
        return stored::weight_gradient(x, dy, g);
    }
    let frame = Frame::of(g);
    let image = framed(x, &frame);
    let dy = in_panels(dy, g);
    let chunks = chunks(g, &frame);
    let run = g.kernel[1] * g.channels;
    let mut result = Panels::zeros(g.kernel[0] * run, g.filters);
    let (width, parts) = (result.width(), TASKS.div_ceil(result.count()));
    let arch = arch();
    let mut tasks = Vec::with_capacity(parts * result.count());
    for (panel, mut rest) in result.panels_mut_in_order().enumerate() {
        for rows in even_ranges(g.kernel[0] * run, parts, 1) {
            let (to, after) = rest.split_at_mut(rows.len() * width);
            rest = after;
            tasks.push(Task { image: &image, dy: dy.panel(panel), chunks: &chunks, g, frame, rows, to });
        }
    }
    tasks.into_par_iter().for_each(|task| arch.dispatch(task));
    Workspace::shared().give_owned(image);
    Ok(Weights::unpack(&result, g.channels, g.taps()))
}

/// Returns dy's columns in panels, with a row for each pixel.
fn in_panels(dy: &[f32], g: &Geometry) -> Panels {
    let mut panels = Panels::zeros(g.batch * g.pixels(), g.filters);
    let width = panels.width();
    panels.panels_mut().enumerate().for_each(|(panel, to)| {
        let columns = panel * width..g.filters.min((panel + 1) * width);
        for (to, from) in to.chunks_exact_mut(width).zip(dy.chunks_exact(g.filters)) {
            to[..columns.len()].copy_from_slice(&from[columns.clone()]);
        }
    });
    panels
}

/// Returns the output pixels in order, at most [`PIXELS`] to a chunk. Within a chunk, pixels at equal distances form a
/// segment.
fn chunks(g: &Geometry, frame: &Frame) -> Vec<Vec<Segment>> {
    let ([height, width], step) = (g.output(), g.stride * g.channels);
    let (mut chunks, mut chunk, mut count) = (Vec::new(), Vec::<Segment>::new(), 0);
    for row in 0..g.batch * height {
        let mut at =
            Segment { a: frame.offset(row / height, row % height * g.stride, 0), b: row * width, len: width };
        while at.len > 0 {
            let len = at.len.min(PIXELS - count);
            match chunk.last_mut() {
                Some(last) if last.a + last.len * step == at.a => last.len += len,
                _ => chunk.push(Segment { len, ..at }),
            }
            at = Segment { a: at.a + len * step, b: at.b + len, len: at.len - len };
            count += len;
            if count == PIXELS {
                chunks.push(std::mem::take(&mut chunk));
                count = 0;
            }
        }
    }
    chunks.push(chunk);
    chunks
}

/// Some rows of a panel of the result.
struct Task<'a> {
    image: &'a [f32],
    dy: &'a [f32],
    chunks: &'a [Vec<Segment>],
    g: &'a Geometry,
    frame: Frame,
    rows: Range<usize>,
    to: &'a mut [f32],
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let run = self.g.kernel[1] * self.g.channels;
        let width = self.to.len() / self.rows.len().max(1);
        // A tile does not cross from one row of the kernel to the next.
        let (first, last) = (self.rows.start / run, self.rows.end.div_ceil(run));
        let mut places = Vec::new();
        for u in first..last {
            let here = self.rows.start.max(u * run)..self.rows.end.min((u + 1) * run);
            for part in 0..tiles::<S>(here.len()) {
                let tile = tile::<S>(here.len(), part);
                let start = here.start + tile.start;
                places.push((
                    self.frame.offset(0, u, 0) + start - u * run,
                    start - self.rows.start,
                    tile.len(),
                ));
            }
        }
        let stride = self.g.stride * self.g.channels;
        for chunk in self.chunks {
            for &(offset, row, count) in &places {
                let to = &mut self.to[row * width..(row + count) * width];
                accumulate(simd, Strided { data: &self.image[offset..], stride }, chunk, self.dy, to);
            }
        }
    }
}
