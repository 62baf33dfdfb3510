//! Sizes of a convolution and its columns.

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
    /// Returns the sizes for maps (N, H, W, C) and filters (O, C, kh, kw). The error says why they do not fit.
    pub(super) fn new(
        [batch, height, width, channels]: [usize; 4],
        [filters, expected, kernel_h, kernel_w]: [usize; 4],
        stride: usize,
        padding: usize,
    ) -> Result<Self, String> {
        if channels != expected {
            return Err(format!("x has {channels} channels, w expects {expected}"));
        }
        if [batch, height, width, channels, filters, kernel_h, kernel_w].contains(&0) {
            return Err(format!(
                "{batch} maps of {height} x {width} x {channels} and {filters} filters of {kernel_h} x {kernel_w} must \
                 have no zero extent"
            ));
        }
        if stride == 0 {
            return Err("the stride must be positive".to_owned());
        }
        let fits = |size: usize, kernel: usize| {
            padding.checked_mul(2).and_then(|p| p.checked_add(size)).is_some_and(|size| size >= kernel)
        };
        if !fits(height, kernel_h) || !fits(width, kernel_w) {
            return Err(format!(
                "a kernel of {kernel_h} x {kernel_w} does not fit {height} x {width} with padding {padding}"
            ));
        }
        let kernel = [kernel_h, kernel_w];
        Ok(Self { batch, channels, height, width, filters, kernel, stride, padding: [padding; 2] })
    }

    /// Returns output height and width, `floor((size + 2 padding - kernel) / stride) + 1`.
    pub(super) fn output(&self) -> [usize; 2] {
        let side = |size: usize, i: usize| (size + 2 * self.padding[i] - self.kernel[i]) / self.stride + 1;
        [side(self.height, 0), side(self.width, 1)]
    }

    /// Returns the number of output pixels per image.
    pub(super) fn pixels(&self) -> usize {
        let [h, w] = self.output();
        h * w
    }

    /// Returns the number of input elements per channel of an image.
    pub(super) fn plane(&self) -> usize {
        self.height * self.width
    }

    /// Returns the number of kernel elements per channel.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of rows of the im2col matrix.
    pub(super) fn depth(&self) -> usize {
        self.channels * self.taps()
    }

    /// Returns `true` if the im2col matrix of an image is the image itself.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1] && self.stride == 1 && self.padding == [0, 0]
    }
}
