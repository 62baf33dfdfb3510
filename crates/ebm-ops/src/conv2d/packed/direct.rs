//! Convolution as a product without columns: implicit GEMM.
//!
//! With the channels innermost, the kw · C numbers that a row of the kernel meets lie end to end. The row of
//! A that belongs to an output pixel is kh such runs. Only a border of zeros has to be put around the image.

use std::ops::Range;

use candle_core::Result;

use super::super::geometry::Geometry;
use super::border::{Frame, framed};
use crate::packed::{Epilogue, Panels, Rows, Workspace, product};

/// `y ← epilogue(conv(x, w))`, x (N, H, W, C), y (N, oh, ow, O), the weights in panels of depth kh · kw · C.
pub(super) fn convolve(
    x: &[f32],
    g: &Geometry,
    panels: &Panels,
    epilogue: Epilogue<'_>,
    y: &mut [f32],
    workspace: &Workspace,
) -> Result<()> {
    let frame = Frame::of(g);
    let image = framed(x, &frame, workspace);
    let (starts, runs) = (starts(g, &frame), runs(g, &frame));
    let result = product(Rows { data: &image, starts: &starts, runs: &runs }, panels, epilogue, y);
    image.recycle(workspace);
    result
}

/// Where in a framed image the numbers that each output needs start.
pub(super) fn starts(g: &Geometry, frame: &Frame) -> Vec<usize> {
    let [height, width] = g.output();
    let mut starts = Vec::with_capacity(g.batch * height * width);
    for n in 0..g.batch {
        for i in 0..height {
            let first = frame.offset(n, i * g.stride, 0);
            starts.extend((0..width).map(|j| first + j * g.stride * g.channels));
        }
    }
    starts
}

/// The numbers that an output needs, from its start: for each row of the kernel, kw · C.
pub(super) fn runs(g: &Geometry, frame: &Frame) -> Vec<Range<usize>> {
    (0..g.kernel[0]).map(|u| frame.offset(0, u, 0)).map(|at| at..at + g.kernel[1] * g.channels).collect()
}
