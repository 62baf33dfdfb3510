//! The three products of a convolution on the CPU: `W · col(x)`, `colᵀ(Wᵀ · g)` and `g · col(x)ᵀ`.
//!
//! Work is cut by the sizes alone and every output element is summed by one task in a fixed order (the
//! weight's gradient in fixed partial sums), so that the number of threads changes the time and no bit of the
//! result.

use std::ops::Range;

use candle_core::Result;
use rayon::prelude::*;

use super::super::float::Float;
use super::super::gemm::{MatMut, MatRef, even_ranges, multiply};
use super::geometry::{Block, Geometry};
use super::im2col::{col2im, im2col};

/// Aim for at least this many tasks where the sizes allow, so that a machine's cores share the work evenly.
const TASKS: usize = 16;
/// Fewest filters (rows of a product) worth a task of their own: each such task repeats the im2col.
const FEWEST_FILTERS: usize = 64;
/// Elements that the partial sums of a weight gradient may take together.
const PARTIALS: usize = 1 << 20;
/// Filters that are transposed together: a cache line of f32.
const LINE: usize = 16;

/// A task's buffers, reused from task to task on one thread.
struct Scratch<T> {
    columns: Vec<T>,
    product: Vec<T>,
}

impl<T: Float> Scratch<T> {
    fn new() -> Self {
        Self { columns: Vec::new(), product: Vec::new() }
    }
}

/// The first `len` elements of `buffer`, grown where needed; what they hold is unspecified.
fn sized<T: Float>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::zero());
    }
    &mut buffer[..len]
}

/// A rectangle of the output: some filters of a block, one view per image of it.
struct Tile<'a, T> {
    block: Block,
    filters: Range<usize>,
    images: Vec<MatMut<'a, T>>,
}

/// Cuts `y`, `(N, O, pixels)`, by the blocks and, where these are few, by filters.
fn tiles<'a, T: Float>(y: &'a mut [T], g: &Geometry) -> Result<Vec<Tile<'a, T>>> {
    let blocks = g.blocks(g.depth());
    let parts = TASKS.div_ceil(blocks.len()).min(g.filters.div_ceil(FEWEST_FILTERS));
    let filters = even_ranges(g.filters, parts, 8);
    let mut tiles = Vec::with_capacity(blocks.len() * filters.len());
    let mut images = y.chunks_exact_mut(g.filters * g.pixels());
    let mut rest = None;
    for block in blocks {
        let mut views: Vec<Vec<MatMut<'a, T>>> = filters.iter().map(|_| Vec::new()).collect();
        for _ in block.images.clone() {
            // What the previous block left of its image, else the next image.
            let image = match rest.take() {
                Some(image) => image,
                None => MatMut::new(images.next().unwrap_or_default(), g.filters, g.pixels())?,
            };
            let (mut here, after) = image.split_cols(block.pixels.len());
            rest = (after.dims().1 > 0).then_some(after);
            for (range, views) in filters.iter().zip(&mut views) {
                let (part, below) = here.split_rows(range.len());
                views.push(part);
                here = below;
            }
        }
        for (range, images) in filters.iter().zip(views) {
            tiles.push(Tile { block: block.clone(), filters: range.clone(), images });
        }
    }
    Ok(tiles)
}

/// `y = W · col(x) + bias`, `(N, O, oh, ow)`.
pub(super) fn forward<T: Float>(x: &[T], w: &[T], bias: Option<&[T]>, g: &Geometry) -> Result<Vec<T>> {
    let mut y = vec![T::zero(); g.batch * g.filters * g.pixels()];
    tiles(&mut y, g)?
        .into_par_iter()
        .try_for_each_init(Scratch::new, |scratch, tile| forward_tile(x, w, bias, g, tile, scratch))?;
    Ok(y)
}

fn forward_tile<T: Float>(
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    g: &Geometry,
    mut tile: Tile<'_, T>,
    scratch: &mut Scratch<T>,
) -> Result<()> {
    let (depth, cols, filters) = (g.depth(), tile.block.cols(), tile.filters.len());
    let Scratch { columns, product } = scratch;
    let columns = columns_of(x, g, &(0..g.channels), &tile.block, columns)?;
    let weights = MatRef::new(&w[tile.filters.start * depth..], (filters, depth), (depth, 1))?;
    let set_bias = |out: &mut MatMut<'_, T>| {
        if let Some(bias) = bias {
            for (i, b) in bias[tile.filters.clone()].iter().enumerate() {
                out.row_mut(i).fill(*b);
            }
        }
    };
    if let [out] = tile.images.as_mut_slice() {
        set_bias(out);
        return multiply(out, bias.is_some(), weights, columns);
    }
    let product = sized(product, filters * cols);
    let mut out = MatMut::new(product, filters, cols)?;
    set_bias(&mut out);
    multiply(&mut out, bias.is_some(), weights, columns)?;
    let pixels = tile.block.pixels.len();
    for (n, image) in tile.images.iter_mut().enumerate() {
        for i in 0..filters {
            image.row_mut(i).copy_from_slice(&product[i * cols + n * pixels..][..pixels]);
        }
    }
    Ok(())
}

/// The block's columns for some channels, `(channels · taps, cols)`: the input itself where it already has
/// that form.
fn columns_of<'a, T: Float>(
    x: &'a [T],
    g: &Geometry,
    channels: &Range<usize>,
    block: &Block,
    buffer: &'a mut Vec<T>,
) -> Result<MatRef<'a, T>> {
    let (rows, cols) = (channels.len() * g.taps(), block.cols());
    if g.is_pointwise() && block.images.len() == 1 {
        let start = (block.images.start * g.channels + channels.start) * g.plane() + block.pixels.start;
        return MatRef::new(&x[start..], (rows, cols), (g.plane(), 1));
    }
    let columns = sized(buffer, rows * cols);
    im2col(x, g, channels, block, columns);
    MatRef::new(columns, (rows, cols), (cols, 1))
}

/// The gradient in `x`, `(N, C, H, W)`, from the output's gradient `grad`, `(N, O, oh, ow)`.
pub(super) fn input_gradient<T: Float>(w: &[T], grad: &[T], g: &Geometry) -> Result<Vec<T>> {
    match g.adjoint() {
        Some(adjoint) => forward(grad, &turned(w, g), None, &adjoint),
        None => scattered(w, grad, g),
    }
}

/// `(O, C, kh, kw)` as `(C, O, kh, kw)` with each kernel turned by 180 degrees.
fn turned<T: Float>(w: &[T], g: &Geometry) -> Vec<T> {
    let taps = g.taps();
    let mut out = vec![T::zero(); w.len()];
    for (o, filter) in w.chunks_exact(g.depth()).enumerate() {
        for (c, kernel) in filter.chunks_exact(taps).enumerate() {
            let target = &mut out[(c * g.filters + o) * taps..][..taps];
            target.iter_mut().zip(kernel.iter().rev()).for_each(|(t, v)| *t = *v);
        }
    }
    out
}

/// The input's gradient for any stride: `Wᵀ · g` block by block, each column added to where it was read from.
/// A task owns some channels of one image.
fn scattered<T: Float>(w: &[T], grad: &[T], g: &Geometry) -> Result<Vec<T>> {
    let (depth, pixels, plane) = (g.depth(), g.pixels(), g.plane());
    let group = g.channels.div_ceil(TASKS.div_ceil(g.batch)).next_multiple_of(8).min(g.channels);
    let mut dx = vec![T::zero(); g.batch * g.channels * plane];
    let tasks: Vec<(usize, usize, &mut [T])> = dx
        .chunks_exact_mut(g.channels * plane)
        .enumerate()
        .flat_map(|(n, image)| {
            image.chunks_mut(group * plane).enumerate().map(move |(i, planes)| (n, i * group, planes))
        })
        .collect();
    let per_image = Geometry { batch: 1, ..*g }.blocks(group * g.taps());
    tasks.into_par_iter().try_for_each_init(Scratch::new, |scratch, (n, channel, planes)| {
        let rows = planes.len() / plane * g.taps();
        let weights = MatRef::new(&w[channel * g.taps()..], (g.filters, rows), (depth, 1))?.t();
        for block in &per_image {
            let cols = block.pixels.len();
            let start = n * g.filters * pixels + block.pixels.start;
            let grad = MatRef::new(&grad[start..], (g.filters, cols), (pixels, 1))?;
            let columns = sized(&mut scratch.columns, rows * cols);
            multiply(&mut MatMut::new(columns, rows, cols)?, false, weights, grad)?;
            col2im(columns, g, &block.pixels, planes);
        }
        Ok::<(), candle_core::Error>(())
    })?;
    Ok(dx)
}

/// The gradient in `w`, `(O, C, kh, kw)`.
///
/// A task sums some blocks for some channels; the partial sums over blocks, whose number the sizes fix, are
/// added in order. Tasks hold the transpose, `(channels · taps, O)`, so that the product packs the narrower
/// of its operands.
pub(super) fn weight_gradient<T: Float>(x: &[T], grad: &[T], g: &Geometry) -> Result<Vec<T>> {
    let (filters, taps) = (g.filters, g.taps());
    let len = filters * g.depth();
    let parts = (PARTIALS / len).clamp(1, TASKS);
    let groups = even_ranges(g.channels, TASKS.div_ceil(parts).min(g.channels), 1);
    let widest = groups.iter().map(|r| r.len()).max().unwrap_or(1);
    let blocks = g.blocks(widest * taps);
    let chunks = even_ranges(blocks.len(), parts, 1);
    let mut partials = vec![T::zero(); chunks.len() * len];
    let mut tasks = Vec::new();
    for (chunk, partial) in chunks.iter().zip(partials.chunks_exact_mut(len)) {
        let mut rest = partial;
        for channels in &groups {
            let (here, after) = rest.split_at_mut(channels.len() * taps * filters);
            tasks.push((&blocks[chunk.clone()], channels, here));
            rest = after;
        }
    }
    tasks.into_par_iter().try_for_each_init(Scratch::new, |scratch, (blocks, channels, out)| {
        let mut out = MatMut::new(out, channels.len() * taps, filters)?;
        for (i, block) in blocks.iter().enumerate() {
            let columns = columns_of(x, g, channels, block, &mut scratch.columns)?;
            let grad = gradient_of(grad, g, block, &mut scratch.product)?;
            multiply(&mut out, i > 0, columns, grad.t())?;
        }
        Ok::<(), candle_core::Error>(())
    })?;
    let mut dw = vec![T::zero(); len];
    dw.par_chunks_mut(LINE * g.depth()).enumerate().for_each(|(i, lines)| {
        for partial in partials.chunks_exact(len) {
            for (k, row) in partial.chunks_exact(filters).enumerate() {
                let column = lines.iter_mut().skip(k).step_by(g.depth());
                column.zip(&row[i * LINE..]).for_each(|(d, v)| *d += *v);
            }
        }
    });
    Ok(dw)
}

/// The block's columns of the output's gradient, `(O, cols)`.
fn gradient_of<'a, T: Float>(
    grad: &'a [T],
    g: &Geometry,
    block: &Block,
    buffer: &'a mut Vec<T>,
) -> Result<MatRef<'a, T>> {
    let as_image = Geometry {
        channels: g.filters,
        height: 1,
        width: g.pixels(),
        kernel: [1, 1],
        stride: 1,
        padding: [0, 0],
        ..*g
    };
    columns_of(grad, &as_image, &(0..g.filters), block, buffer)
}
