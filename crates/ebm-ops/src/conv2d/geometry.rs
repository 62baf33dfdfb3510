//! The sizes of a convolution and its columns.

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
}
