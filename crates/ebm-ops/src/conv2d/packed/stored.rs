//! Small maps of many channels: products with the weights as they are stored.
//!
//! If there are fewer pixels than filters, the weights are the largest operand. A training step would spend longer on packing
//! and unpacking them than on the products. So the image's columns are computed instead, a row of C · kh · kw numbers for
//! each output pixel. The weights are read in place, and their gradient is written in their order.

use std::borrow::Cow;

use candle_core::Result;
use rayon::prelude::*;

use super::super::geometry::Geometry;
use crate::packed::{Epilogue, Left, Output, Panels, Right, Sizes, Workspace, dense};
use crate::storage::{unwritten, zeros};

/// Returns `true` if this method is used for a convolution.
pub(super) fn suits(g: &Geometry) -> bool {
    pixels(g) <= g.filters
}

/// Returns the number of output pixels of all images.
fn pixels(g: &Geometry) -> usize {
    g.batch * g.pixels()
}

/// Computes `y ← conv(x, w) + bias` for x (N, H, W, C), w (O, C, kh, kw) and y (N, oh, ow, O). An empty bias is none.
pub(super) fn forward(x: &[f32], w: &[f32], bias: &[f32], g: &Geometry, y: &mut [f32]) -> Result<()> {
    let columns = columns(x, g);
    let panels = Panels::transposed(&columns, g.depth(), 1);
    let sizes = Sizes { rows: g.filters, depth: g.depth(), columns: pixels(g) };
    dense(Left::Rows(w), Right::Panels(&panels), sizes, Output::Columns(y))?;
    Workspace::shared().give_owned(columns);
    if !bias.is_empty() {
        for pixel in y.chunks_exact_mut(g.filters) {
            pixel.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
    }
    Ok(())
}

/// Returns dx (N, H, W, C) from dy (N, oh, ow, O).
pub(super) fn input_gradient(dy: &[f32], w: &[f32], g: &Geometry) -> Result<Vec<f32>> {
    let len = g.batch * g.plane() * g.channels;
    let sizes = Sizes { rows: pixels(g), depth: g.filters, columns: g.depth() };
    let product =
        |to: &mut [f32]| dense(Left::Rows(dy), Right::Rows(w), sizes, Output::Rows(to, Epilogue::default()));
    if g.is_pointwise() {
        let mut dx = unwritten(len);
        product(&mut dx)?;
        return Ok(dx);
    }
    let mut dx = zeros(len);
    let mut columns = Workspace::shared().take(pixels(g) * g.depth());
    product(&mut columns)?;
    fold(&columns, g, &mut dx);
    Workspace::shared().give(columns);
    Ok(dx)
}

/// Returns dw (O, C, kh, kw) from x (N, H, W, C) and dy (N, oh, ow, O).
pub(super) fn weight_gradient(x: &[f32], dy: &[f32], g: &Geometry) -> Result<Vec<f32>> {
    let columns = columns(x, g);
    let mut dw = unwritten(g.filters * g.depth());
    let sizes = Sizes { rows: g.filters, depth: pixels(g), columns: g.depth() };
    let output = Output::Rows(&mut dw, Epilogue::default());
    dense(Left::Columns(dy), Right::Rows(&columns), sizes, output)?;
    Workspace::shared().give_owned(columns);
    Ok(dw)
}

/// Returns the numbers that each output pixel reads, in the order of the weights: row n · oh · ow + i · ow + j, column (c ·
/// kh + u) · kw + v.
fn columns<'a>(x: &'a [f32], g: &Geometry) -> Cow<'a, [f32]> {
    if g.is_pointwise() {
        return Cow::Borrowed(x);
    }
    let mut columns = Workspace::shared().take(pixels(g) * g.depth());
    let [height, width] = g.output();
    columns.par_chunks_mut(g.depth()).enumerate().for_each(|(pixel, to)| {
        let (n, i, j) = (pixel / (height * width), pixel / width % height, pixel % width);
        for (t, (u, v)) in taps(g).enumerate() {
            let [row, column] = [(i, u, 0), (j, v, 1)]
                .map(|(at, tap, axis)| (at * g.stride + tap).wrapping_sub(g.padding[axis]));
            let to = to[t..].iter_mut().step_by(g.taps());
            if row < g.height && column < g.width {
                let from = &x[((n * g.height + row) * g.width + column) * g.channels..][..g.channels];
                to.zip(from).for_each(|(to, x)| *to = *x);
            } else {
                to.for_each(|to| *to = 0.0);
            }
        }
    });
    Cow::Owned(columns)
}

/// Computes the adjoint of [`columns`]: adds each number to its input.
fn fold(columns: &[f32], g: &Geometry, dx: &mut [f32]) {
    let [height, width] = g.output();
    dx.par_chunks_mut(g.channels).enumerate().for_each(|(pixel, to)| {
        let (n, row, column) = (pixel / g.plane(), pixel / g.width % g.height, pixel % g.width);
        for (t, (u, v)) in taps(g).enumerate() {
            // The output that reads this input by the tap, if there is one.
            let at = |input: usize, tap: usize, axis: usize, size: usize| {
                let reach = (input + g.padding[axis]).checked_sub(tap)?;
                (reach.is_multiple_of(g.stride) && reach / g.stride < size).then_some(reach / g.stride)
            };
            let (Some(i), Some(j)) = (at(row, u, 0, height), at(column, v, 1, width)) else { continue };
            let from = columns[((n * height + i) * width + j) * g.depth()..][..g.depth()].iter();
            to.iter_mut().zip(from.skip(t).step_by(g.taps())).for_each(|(to, x)| *to += *x);
        }
    });
}

/// Returns the rows and columns of the kernel.
fn taps(g: &Geometry) -> impl Iterator<Item = (usize, usize)> {
    let [rows, columns] = g.kernel;
    (0..rows).flat_map(move |u| (0..columns).map(move |v| (u, v)))
}
