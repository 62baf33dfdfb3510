//! Columns of image patches and their adjoint.

use std::ops::Range;

use super::super::float::Float;
use super::geometry::{Block, Geometry};

/// Of the output columns `0..ow`, those whose input column `ox * stride + tap - padding` exists.
fn valid(size: usize, out: usize, tap: usize, stride: usize, padding: usize) -> Range<usize> {
    let start = padding.saturating_sub(tap).div_ceil(stride).min(out);
    let end = if size + padding > tap { (size + padding - tap - 1) / stride + 1 } else { 0 };
    start..end.clamp(start, out)
}

/// Calls `run(output pixel, input element, length)` for every run of a tap's output pixels within `pixels`
/// that reads inside the image: pixel `q + i` reads element `e + i * stride`. Runs come in ascending order,
/// one per output row.
fn runs(g: &Geometry, tap: [usize; 2], pixels: &Range<usize>, mut run: impl FnMut(usize, usize, usize)) {
    let [out_h, out_w] = g.output();
    let rows = valid(g.height, out_h, tap[0], g.stride, g.padding[0]);
    let cols = valid(g.width, out_w, tap[1], g.stride, g.padding[1]);
    for oy in rows.start.max(pixels.start / out_w)..rows.end.min(pixels.end.div_ceil(out_w)) {
        let row = oy * out_w;
        let start = cols.start.max(pixels.start.saturating_sub(row));
        let end = cols.end.min(pixels.end - row);
        if start < end {
            let y = oy * g.stride + tap[0] - g.padding[0];
            let x = start * g.stride + tap[1] - g.padding[1];
            run(row + start, y * g.width + x, end - start);
        }
    }
}

/// Writes the block's columns for the channels `channels`: row `(c, ky, kx)`, column `(image, pixel)`, rows
/// end to end. `x` is the whole input `(N, C, H, W)`.
pub(super) fn im2col<T: Float>(
    x: &[T],
    g: &Geometry,
    channels: &Range<usize>,
    block: &Block,
    columns: &mut [T],
) {
    let same_grid = g.stride == 1 && g.output() == [g.height, g.width];
    let mut rows = columns.chunks_exact_mut(block.cols());
    for c in channels.clone() {
        for ky in 0..g.kernel[0] {
            for kx in 0..g.kernel[1] {
                let Some(row) = rows.next() else { return };
                for (n, out) in block.images.clone().zip(row.chunks_exact_mut(block.pixels.len())) {
                    let plane = &x[(n * g.channels + c) * g.plane()..][..g.plane()];
                    if same_grid {
                        shifted(plane, g, [ky, kx], &block.pixels, out);
                    } else {
                        gathered(plane, g, [ky, kx], &block.pixels, out);
                    }
                }
            }
        }
    }
}

/// One tap's pixels, output row by output row.
fn gathered<T: Float>(plane: &[T], g: &Geometry, tap: [usize; 2], pixels: &Range<usize>, out: &mut [T]) {
    let mut done = 0;
    runs(g, tap, pixels, |pixel, element, len| {
        let at = pixel - pixels.start;
        out[done..at].fill(T::zero());
        done = at + len;
        let source = plane[element..].iter().step_by(g.stride);
        out[at..done].iter_mut().zip(source).for_each(|(o, v)| *o = *v);
    });
    out[done..].fill(T::zero());
}

/// One tap's pixels where output and input have one grid: the plane itself, shifted in one copy, less what
/// the shift carries across the edges.
fn shifted<T: Float>(plane: &[T], g: &Geometry, tap: [usize; 2], pixels: &Range<usize>, out: &mut [T]) {
    // Pixel q reads element q + ahead - behind.
    let (ahead, behind) = (tap[0] * g.width + tap[1], g.padding[0] * g.width + g.padding[1]);
    let start = behind.saturating_sub(ahead).clamp(pixels.start, pixels.end);
    let end = (plane.len() + behind).saturating_sub(ahead).clamp(start, pixels.end);
    let (head, rest) = out.split_at_mut(start - pixels.start);
    let (body, tail) = rest.split_at_mut(end - start);
    head.fill(T::zero());
    tail.fill(T::zero());
    if !body.is_empty() {
        body.copy_from_slice(&plane[start + ahead - behind..end + ahead - behind]);
    }
    let cols = valid(g.width, g.width, tap[1], 1, g.padding[1]);
    for col in (0..cols.start).chain(cols.end..g.width) {
        let first = (col + g.width - pixels.start % g.width) % g.width;
        out.iter_mut().skip(first).step_by(g.width).for_each(|v| *v = T::zero());
    }
}

/// The adjoint of [`im2col`] for one image: adds each column element to the input element it was read from.
/// `planes` are the image's planes of the channels in question, `columns` their rows.
pub(super) fn col2im<T: Float>(columns: &[T], g: &Geometry, pixels: &Range<usize>, planes: &mut [T]) {
    let mut rows = columns.chunks_exact(pixels.len());
    for plane in planes.chunks_exact_mut(g.plane()) {
        for ky in 0..g.kernel[0] {
            for kx in 0..g.kernel[1] {
                let Some(row) = rows.next() else { return };
                runs(g, [ky, kx], pixels, |pixel, element, len| {
                    let source = &row[pixel - pixels.start..][..len];
                    let target = plane[element..].iter_mut().step_by(g.stride);
                    target.zip(source).for_each(|(t, v)| *t += *v);
                });
            }
        }
    }
}
