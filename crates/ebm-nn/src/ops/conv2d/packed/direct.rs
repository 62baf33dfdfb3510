//! Convolution as a product without columns: implicit GEMM.
//!
//! With the channels innermost, the kw · C numbers that a row of the kernel meets lie end to end. The row of A that
//! belongs to an output pixel is kh such runs, and the next pixel's starts stride · C further on. Only a border of
//! zeros has to be put around the image.

use candle_core::Result;
use rayon::prelude::*;

use super::super::geometry::Geometry;
use crate::ops::packed::{Block, Epilogue, Panels, Rows, Workspace, product, push_blocks};

/// Rows of a bordered image that one task copies.
const COPIED_ROWS: usize = 8;

/// `y ← epilogue(conv(x, w))`, x (N, H, W, C), y (N, oh, ow, O), the weights in panels of depth kh · kw · C.
pub(super) fn convolve(
    x: &[f32],
    g: &Geometry,
    panels: &Panels,
    epilogue: Epilogue<'_>,
    y: &mut [f32],
    workspace: &Workspace,
) -> Result<()> {
    if g.padding == [0; 2] {
        return on_bordered(x, g, panels, epilogue, y);
    }
    let [height, width] = bordered(g);
    let mut image = workspace.take(g.batch * height * width * g.channels);
    add_border(x, g, &mut image);
    let result = on_bordered(&image, g, panels, epilogue, y);
    workspace.give(image);
    result
}

/// The input's height and width with its border.
fn bordered(g: &Geometry) -> [usize; 2] {
    [g.height + 2 * g.padding[0], g.width + 2 * g.padding[1]]
}

fn on_bordered(
    image: &[f32],
    g: &Geometry,
    panels: &Panels,
    epilogue: Epilogue<'_>,
    y: &mut [f32],
) -> Result<()> {
    let [height, width] = bordered(g);
    let ([out_height, out_width], stride) = (g.output(), g.stride * g.channels);
    let mut blocks: Vec<Block> = Vec::new();
    if g.taps() == 1 && g.stride == 1 {
        // Every pixel is as far from the next, across rows and images.
        push_blocks(&mut blocks, (0, stride), 0, g.batch * height * width);
    } else {
        for row in 0..g.batch * out_height {
            let (n, i) = (row / out_height, row % out_height);
            let input = (n * height + i * g.stride) * width * g.channels;
            push_blocks(&mut blocks, (input, stride), row * out_width, out_width);
        }
    }
    let (step, len) = (width * g.channels, g.kernel[1] * g.channels);
    let runs: Vec<_> = (0..g.kernel[0]).map(|u| u * step..u * step + len).collect();
    product(Rows { data: image, stride, runs: &runs }, &blocks, panels, epilogue, y)
}

/// Copies x into the middle of a map of zeros.
fn add_border(x: &[f32], g: &Geometry, image: &mut [f32]) {
    let ([height, width], [top, left]) = (bordered(g), g.padding);
    let (row, margin, inner) = (width * g.channels, left * g.channels, g.width * g.channels);
    image.par_chunks_mut(row).enumerate().with_min_len(COPIED_ROWS).for_each(|(i, to)| {
        let (n, i) = (i / height, (i % height).wrapping_sub(top));
        if i >= g.height {
            to.fill(0.0);
            return;
        }
        to[..margin].fill(0.0);
        to[margin..margin + inner].copy_from_slice(&x[(n * g.height + i) * inner..][..inner]);
        to[margin + inner..].fill(0.0);
    });
}
