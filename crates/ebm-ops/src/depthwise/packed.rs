//! A depthwise convolution of constant parameters with bias and activation in one pass, f32, on the CPU.

use candle_core::Tensor;

use super::cpu::{Epilogue, forward_to};
use super::geometry::{Geometry, Padding};
use super::{OP, refuse};
use crate::Result;
use crate::kernel::computed;
use crate::packed::Workspace;
use crate::relu::Activation;
use crate::storage::{bias_numbers, numbers};

/// Layer `y = activation(depthwise(x, w) + bias)`, with w in the order in which the loops read it. It is for inference and
/// has no gradient.
#[derive(Clone, Debug)]
pub(crate) struct PackedDepthwise {
    /// Weights (kh·kw, C).
    taps: Vec<f32>,
    bias: Vec<f32>,
    kernel: [usize; 2],
    stride: usize,
    padding: Padding,
}

impl PackedDepthwise {
    /// Packs `weight` (C, 1, kh, kw) and `bias` (C), both f32.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if a shape does not fit.
    pub(crate) fn new(
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: usize,
        padding: Padding,
    ) -> Result<Self> {
        let &[channels, 1, kernel_h, kernel_w] = weight.dims() else {
            return refuse(format!("expected a weight (C, 1, kh, kw), got {:?}", weight.dims()));
        };
        let taps = numbers(&weight.reshape((channels, ()))?.t()?)?;
        let bias = bias_numbers(OP, bias, channels)?;
        Ok(Self { taps, bias, kernel: [kernel_h, kernel_w], stride, padding })
    }

    /// Computes x (N, H, W, C) -> (N, oh, ow, C).
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if x has another number of channels, or is smaller than the kernel.
    pub(crate) fn forward(&self, x: &Tensor, activation: Activation) -> Result<Tensor> {
        let geometry = Geometry::new(x, self.bias.len(), self.kernel, self.stride, self.padding)?;
        let [height, width] = geometry.output;
        let y = computed([x], (geometry.batch, height, width, geometry.channels), |[x]| {
            let mut y = Workspace::shared().take(geometry.batch * height * width * geometry.channels);
            forward_to(x, &self.taps, &geometry, Epilogue { bias: &self.bias, activation }, &mut y);
            Ok(y)
        });
        Ok(y?)
    }
}
