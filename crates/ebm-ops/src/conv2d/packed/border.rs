//! A border of zeros around an image.

use std::borrow::Cow;
use std::ops::Deref;

use rayon::prelude::*;

use super::super::geometry::Geometry;
use crate::packed::Workspace;

/// Rows of a framed image that one task copies.
const COPIED_ROWS: usize = 8;

/// Images (N, H, W, C) and the larger ones, of zeros around them, that they are put into.
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
    /// A convolution's padding.
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

    /// Where the numbers of pixel (i, j) of framed image n start.
    pub(super) fn offset(&self, n: usize, i: usize, j: usize) -> usize {
        ((n * self.outer[0] + i) * self.outer[1] + j) * self.channels
    }
}

/// Images with a border, or as they were where there is none.
pub(super) struct Framed<'a>(Cow<'a, [f32]>);

impl Deref for Framed<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl Framed<'_> {
    /// Hands the buffer back, if there is one.
    pub(super) fn recycle(self, workspace: &Workspace) {
        if let Cow::Owned(buffer) = self.0 {
            workspace.give(buffer);
        }
    }
}

/// `x` with its border.
pub(super) fn framed<'a>(x: &'a [f32], frame: &Frame, workspace: &Workspace) -> Framed<'a> {
    let &Frame { batch, channels, inner, before, outer } = frame;
    if inner == outer {
        return Framed(Cow::Borrowed(x));
    }
    let mut image = workspace.take(batch * outer[0] * outer[1] * channels);
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
    Framed(Cow::Owned(image))
}
