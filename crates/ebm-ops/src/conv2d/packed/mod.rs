//! Convolution with packed weights, channels innermost, f32, on the CPU.
//!
//! | file | contents |
//! |---|---|
//! | `winograd` | 3 × 3 kernels of stride 1 with a quarter of the multiplications, or four ninths |
//! | `input_gradient` | convolutions of the output's gradient with mirrored kernels |
//! | `weight_gradient` | a product summed over the pixels |
//! | `stored` | result and gradients for small maps of many channels, whose weights are not packed |
//! | `weights`, `filters` | packed orders, and the choice between `winograd` and a product over an image with a border of zeros |
//!
//! [`crate::packed`] has the products themselves.

mod border;
mod filters;
mod input_gradient;
mod stored;
mod weight_gradient;
mod weights;
mod winograd;

use candle_core::{Result as CandleResult, Tensor};

use self::filters::Filters;
pub(super) use self::input_gradient::input_gradient;
pub(super) use self::weight_gradient::weight_gradient;
use self::weights::Weights;
use super::geometry::Geometry;
use crate::kernel::computed;
use crate::packed::{Epilogue, Workspace};
use crate::relu::Activation;
use crate::storage::{bias_numbers, numbers, unwritten};
use crate::{Error, Result};

/// Returns y (N, oh, ow, O) of x (N, H, W, C).
pub(super) fn forward(x: &[f32], w: &[f32], bias: Option<&[f32]>, g: &Geometry) -> CandleResult<Vec<f32>> {
    let mut y = unwritten(g.batch * g.pixels() * g.filters);
    let bias = bias.unwrap_or_default();
    if stored::suits(g) {
        stored::forward(x, w, bias, g, &mut y)?;
    } else {
        let epilogue = Epilogue { bias, ..Epilogue::default() };
        Filters::once(weights(w, g).forward()).convolve(x, g, epilogue, &mut y)?;
    }
    Ok(y)
}

fn weights<'a>(data: &'a [f32], g: &Geometry) -> Weights<'a> {
    Weights { data, filters: g.filters, channels: g.channels, kernel: g.kernel }
}

/// Convolution with weights in the order in which the processor reads them: `y = activation(conv(x, w) + bias + residual)`.
///
/// Maps have the channels innermost. It is for inference and has no gradient. Results have the same bits for every number of
/// threads.
#[derive(Clone, Debug)]
pub struct PackedConv2d {
    /// Shape (O, C, kh, kw) of the weight.
    weight: [usize; 4],
    stride: usize,
    padding: usize,
    packed: Filters,
    bias: Vec<f32>,
}

impl PackedConv2d {
    /// Packs `weight` (O, C, kh, kw) and `bias` (O).
    ///
    /// # Errors
    /// [`Error::Argument`] if a rank or size does not fit, or an extent or the stride is zero.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Result<Self> {
        let &[filters, channels, kernel_h, kernel_w] = weight.dims() else {
            return refuse(format!("expected a weight (O, C, kh, kw), got {:?}", weight.dims()));
        };
        if weight.elem_count() == 0 || stride == 0 {
            let shape = weight.dims();
            return refuse(format!(
                "the extents of the weight {shape:?} and the stride {stride} must be positive"
            ));
        }
        let bias = bias_numbers("PackedConv2d", bias, filters)?;
        let (data, kernel) = (numbers(weight)?, [kernel_h, kernel_w]);
        let panels = Weights { data: &data, filters, channels, kernel }.forward();
        let weight = [filters, channels, kernel_h, kernel_w];
        Ok(Self { weight, stride, padding, packed: Filters::kept(panels), bias })
    }

    /// Computes x (N, H, W, C) -> (N, ⌊(H + 2·padding − kh) / stride⌋ + 1, …, O). `residual` has the shape of the result.
    ///
    /// # Errors
    /// [`Error::Argument`] if x has another number of channels, no pixels or fewer than the kernel, or if `residual` has
    /// another shape than the result.
    pub fn forward(&self, x: &Tensor, residual: Option<&Tensor>, activation: Activation) -> Result<Tensor> {
        let geometry = self.geometry(x)?;
        let [height, width] = geometry.output();
        let shape = [geometry.batch, height, width, geometry.filters];
        let run = |x: &[f32], residual: Option<&[f32]>| -> CandleResult<Vec<f32>> {
            let epilogue = Epilogue { bias: &self.bias, residual, activation };
            let mut y = Workspace::shared().take(shape.iter().product());
            self.packed.convolve(x, &geometry, epilogue, &mut y)?;
            Ok(y)
        };
        match residual {
            Some(residual) if residual.dims() != shape => {
                refuse(format!("the result is {shape:?}, the residual {:?}", residual.dims()))
            }
            Some(residual) => {
                Ok(computed([x, residual], &shape[..], |[x, residual]| run(x, Some(residual)))?)
            }
            None => Ok(computed([x], &shape[..], |[x]| run(x, None))?),
        }
    }

    fn geometry(&self, x: &Tensor) -> Result<Geometry> {
        let &[batch, height, width, channels] = x.dims() else {
            return refuse(format!("expected x (N, H, W, C), got {:?}", x.dims()));
        };
        let maps = [batch, height, width, channels];
        Geometry::new(maps, self.weight, self.stride, self.padding).or_else(refuse)
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "PackedConv2d", reason })
}
