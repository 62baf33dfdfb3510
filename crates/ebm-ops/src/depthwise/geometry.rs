//! Sizes of a depthwise convolution.

use candle_core::Tensor;

use super::refuse;
use crate::Result;

/// Zeros around a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// This number of zeros on each side, as in torch.
    Each(usize),
    /// The fewest zeros that give `⌈size / stride⌉` outputs, half of them before the map and an odd one after it, as
    /// TensorFlow's `SAME`.
    Same,
}

impl Padding {
    /// Returns the zeros before an axis and the number of outputs along it, or `None` if the kernel does not fit.
    pub(crate) fn along(self, size: usize, kernel: usize, stride: usize) -> Option<(usize, usize)> {
        match self {
            Self::Each(zeros) => {
                let room = zeros.checked_mul(2)?.checked_add(size)?.checked_sub(kernel)?;
                Some((zeros, room / stride + 1))
            }
            Self::Same => {
                let output = size.div_ceil(stride);
                let zeros = (output.checked_sub(1)? * stride + kernel).saturating_sub(size);
                Some((zeros / 2, output))
            }
        }
    }
}

/// Sizes of `(N, H, W, C) * (C, 1, kh, kw) -> (N, oh, ow, C)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) channels: usize,
    /// Height and width of the input.
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: usize,
    /// Zeros above and left of a map.
    pub(super) before: [usize; 2],
}

/// Tap of an axis and the pixel that it reads there.
pub(super) type TapPixel = (usize, usize);

impl Geometry {
    pub(super) fn new(
        x: &Tensor,
        channels: usize,
        kernel: [usize; 2],
        stride: usize,
        padding: Padding,
    ) -> Result<Self> {
        let &[batch, height, width, found] = x.dims() else {
            return refuse(format!("expected x (N, H, W, C), got {:?}", x.dims()));
        };
        if found != channels {
            return refuse(format!("x has {found} channels, w expects {channels}"));
        }
        if x.elem_count() == 0 || kernel.contains(&0) {
            return refuse(format!("x {:?} and the kernel {kernel:?} must have no zero extent", x.dims()));
        }
        if stride == 0 {
            return refuse("the stride must be positive".into());
        }
        let axes = [(height, kernel[0]), (width, kernel[1])];
        let [Some(down), Some(across)] = axes.map(|(size, kernel)| padding.along(size, kernel, stride))
        else {
            return refuse(format!("a kernel {kernel:?} does not fit {height} x {width} with {padding:?}"));
        };
        let (input, before, output) = ([height, width], [down.0, across.0], [down.1, across.1]);
        Ok(Self { batch, channels, input, output, kernel, stride, before })
    }

    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Returns, for each output of an axis, its taps and the inputs that they read.
    pub(super) fn reads(&self, axis: usize) -> Vec<Vec<TapPixel>> {
        let read = |output: usize| {
            let taps = 0..self.kernel[axis];
            let input = |tap: usize| (output * self.stride + tap).checked_sub(self.before[axis]);
            taps.filter_map(|tap| Some((tap, input(tap).filter(|input| *input < self.input[axis])?)))
                .collect()
        };
        (0..self.output[axis]).map(read).collect()
    }

    /// Returns, for each input of an axis, the taps that read it and their outputs.
    pub(super) fn readers(&self, axis: usize) -> Vec<Vec<TapPixel>> {
        let mut readers = vec![Vec::new(); self.input[axis]];
        for (output, read) in self.reads(axis).into_iter().enumerate() {
            for (tap, input) in read {
                readers[input].push((tap, output));
            }
        }
        readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_is_tensorflows() {
        // tf.nn.depthwise_conv2d: a kernel of 3 and stride 2 reads from the first pixel of an even size on.
        for (size, kernel, stride, expected) in [
            (224, 3, 2, (0, 112)),
            (224, 5, 2, (1, 112)),
            (7, 3, 2, (1, 4)),
            (7, 5, 2, (2, 4)),
            (7, 3, 1, (1, 7)),
            (8, 5, 1, (2, 8)),
            (5, 1, 2, (0, 3)),
        ] {
            assert_eq!(Padding::Same.along(size, kernel, stride), Some(expected), "{size} {kernel} {stride}");
        }
        assert_eq!(Padding::Each(1).along(7, 3, 2), Some((1, 4)));
        assert_eq!(Padding::Each(0).along(2, 3, 1), None);
    }
}
