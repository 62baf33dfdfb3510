//! A border of zeros around an image.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::super::geometry::Geometry;
use crate::packed::Workspace;

/// Rows of a framed image that one task copies.
const COPIED_ROWS: usize = 8;

/// Sizes of images (N, H, W, C) and of the framed images, which have a border of zeros around them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) batch: usize,
    pub(super) channels: usize,
    /// Height and width of the images.
    pub(super) inner: [usize; 2],
    /// Zeros above and to the left.
    pub(super) before: [usize; 2],
    /// Height and width with the border.
    pub(super) outer: [usize; 2],
}

impl Frame {
    /// Returns the frame for a convolution's padding.
    pub(super) fn of(g: &Geometry) -> Self {
        let [top, left] = g.padding;
        Self {
            batch: g.batch,
            channels: g.channels,
            inner: [g.height, g.width],
            before: g.padding,
            outer: [g.height + 2 * top, g.width + 2 * left],
        }
    }

    /// Returns the index of the first number of pixel (i, j) of framed image n.
    pub(super) fn offset(&self, n: usize, i: usize, j: usize) -> usize {
        ((n * self.outer[0] + i) * self.outer[1] + j) * self.channels
    }

    /// Returns the index of the first number of every `stride`th pixel from `corner` on, `counts` pixels down and across, for
    /// all images.
    pub(super) fn starts(&self, corner: [usize; 2], counts: [usize; 2], stride: usize) -> Vec<usize> {
        let mut starts = Vec::with_capacity(self.batch * counts[0] * counts[1]);
        for n in 0..self.batch {
            for i in 0..counts[0] {
                let first = self.offset(n, corner[0] + i * stride, corner[1]);
                starts.extend((0..counts[1]).map(|j| first + j * stride * self.channels));
            }
        }
        starts
    }

    /// Returns the numbers under a kernel of this height and width, relative to the first: a run for each row of the kernel.
    pub(super) fn runs(&self, [height, width]: [usize; 2]) -> Vec<Range<usize>> {
        (0..height).map(|u| self.offset(0, u, 0)).map(|at| at..at + width * self.channels).collect()
    }
}

/// Returns `x` with its border, or `x` itself if there is no border.
pub(super) fn framed<'a>(x: &'a [f32], frame: &Frame) -> Cow<'a, [f32]> {
    let &Frame { batch, channels, inner, before, outer } = frame;
    if inner == outer {
        return x.into();
    }
    let mut image = Workspace::shared().take(batch * outer[0] * outer[1] * channels);
    let (row, margin, len) = (outer[1] * channels, before[1] * channels, inner[1] * channels);
    image.par_chunks_mut(row).enumerate().with_min_len(COPIED_ROWS).for_each(|(i, to)| {
        let (n, i) = (i / outer[0], (i % outer[0]).wrapping_sub(before[0]));
        if i >= inner[0] {
            to.fill(0.0);
            return;
        }
        to[..margin].fill(0.0);
        to[margin..margin + len].copy_from_slice(&x[(n * inner[0] + i) * len..][..len]);
        to[margin + len..].fill(0.0);
    });
    image.into()
}
