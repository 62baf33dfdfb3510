//! The sizes of a convolution and its columns.

use std::ops::Range;

use super::super::gemm::even_ranges;

/// Sizes of `(N, C, H, W) * (O, C, kh, kw) -> (N, O, oh, ow)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) filters: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: usize,
    pub(super) padding: [usize; 2],
}

/// A run of columns of the im2col matrix: the same output pixels of several images, image after image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) images: Range<usize>,
    pub(super) pixels: Range<usize>,
}

impl Block {
    /// Number of columns.
    pub(super) fn cols(&self) -> usize {
        self.images.len() * self.pixels.len()
    }
}

/// im2col scratch of one task in elements: about the second-level cache of one core.
const SCRATCH: usize = 1 << 18;

impl Geometry {
    /// Output height and width, `floor((size + 2 padding - kernel) / stride) + 1`.
    pub(super) fn output(&self) -> [usize; 2] {
        let side = |size: usize, i: usize| (size + 2 * self.padding[i] - self.kernel[i]) / self.stride + 1;
        [side(self.height, 0), side(self.width, 1)]
    }

    /// Output pixels per image.
    pub(super) fn pixels(&self) -> usize {
        let [h, w] = self.output();
        h * w
    }

    /// Input elements per channel of an image.
    pub(super) fn plane(&self) -> usize {
        self.height * self.width
    }

    /// Kernel elements per channel.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Rows of the im2col matrix.
    pub(super) fn depth(&self) -> usize {
        self.channels * self.taps()
    }

    /// Whether the im2col matrix of an image is the image itself.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1] && self.stride == 1 && self.padding == [0, 0]
    }

    /// The columns in blocks whose im2col of `rows` rows stays near [`SCRATCH`]; small images are taken
    /// together. Depends on the sizes only, never on the number of threads, so that results do not either.
    pub(super) fn blocks(&self, rows: usize) -> Vec<Block> {
        let most = (SCRATCH / rows).clamp(64, 512) / 16 * 16;
        let pixels = self.pixels();
        if pixels >= most {
            let ranges = even_ranges(pixels, pixels.div_ceil(most), 16);
            let of_image =
                |n: usize| ranges.iter().map(move |r| Block { images: n..n + 1, pixels: r.clone() });
            return (0..self.batch).flat_map(of_image).collect();
        }
        even_ranges(self.batch, self.batch.div_ceil((most / pixels).max(1)), 1)
            .into_iter()
            .map(|images| Block { images, pixels: 0..pixels })
            .collect()
    }

    /// The stride-1 convolution of the output's gradient that gives the input's gradient: channels and
    /// filters change places and the kernel is turned by 180 degrees. `None` where there is none (a stride,
    /// or padding beyond the kernel).
    pub(super) fn adjoint(&self) -> Option<Self> {
        if self.stride != 1 {
            return None;
        }
        let [height, width] = self.output();
        let padding = [
            (self.kernel[0] - 1).checked_sub(self.padding[0])?,
            (self.kernel[1] - 1).checked_sub(self.padding[1])?,
        ];
        Some(Self { channels: self.filters, filters: self.channels, height, width, padding, ..*self })
    }
}
