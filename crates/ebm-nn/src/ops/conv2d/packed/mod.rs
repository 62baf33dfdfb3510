//! Convolution with packed weights, channels innermost, f32, on the CPU.
//!
//! | file | what |
//! |---|---|
//! | `direct` | a convolution as a matrix product over an image with a border of zeros |
//! | `winograd` | 3 × 3 kernels of stride 1 with a quarter of the multiplications |
//! | `input_gradient` | convolutions of the output's gradient with mirrored kernels |
//! | `weight_gradient` | a product summed over the pixels |
//! | `weights`, `filters` | the packed orders, and the choice of the method |
//!
//! The products themselves are [`crate::ops::packed`].

mod border;
mod direct;
mod filters;
mod input_gradient;
#[cfg(test)]
mod tests;
mod weight_gradient;
mod weights;
mod winograd;

use candle_core::{DType, Result as CandleResult, Tensor};

use self::filters::Filters;
use self::weights::Weights;
use super::geometry::Geometry;
use crate::ops::packed::{Epilogue, Workspace};
use crate::ops::roi::ChannelsLast;
use crate::ops::storage::zeros;
use crate::{Error, Result};

/// y (N, oh, ow, O) of x (N, H, W, C).
pub(super) fn forward(x: &[f32], w: &[f32], bias: Option<&[f32]>, g: &Geometry) -> CandleResult<Vec<f32>> {
    let mut y = zeros(g.batch * g.pixels() * g.filters);
    let epilogue = Epilogue { bias: bias.unwrap_or_default(), ..Epilogue::default() };
    Filters::new(weights(w, g).forward()).convolve(x, g, epilogue, &mut y, &Workspace::new())?;
    Ok(y)
}

/// dx (N, H, W, C) from dy (N, oh, ow, O).
pub(super) fn input_gradient(w: &[f32], dy: &[f32], g: &Geometry) -> CandleResult<Vec<f32>> {
    input_gradient::input_gradient(dy, weights(w, g), g, &Workspace::new())
}

/// dw (O, C, kh, kw) from x (N, H, W, C) and dy (N, oh, ow, O).
pub(super) fn weight_gradient(x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
    weight_gradient::weight_gradient(x, dy, g, &Workspace::new())
}

fn weights<'a>(data: &'a [f32], g: &Geometry) -> Weights<'a> {
    Weights { data, filters: g.filters, channels: g.channels, kernel: g.kernel }
}

/// A convolution whose weights are kept in the order in which the processor reads them:
/// `y = activation(conv(x, w) + bias + residual)`.
///
/// Maps are stored with the channels innermost ([`ChannelsLast`]), so that a network's layers follow each other
/// without a copy. For inference: no gradient. Results have the same bits for every number of threads.
#[derive(Clone, Debug)]
pub struct PackedConv2d {
    filters: usize,
    channels: usize,
    kernel: [usize; 2],
    stride: usize,
    padding: usize,
    packed: Filters,
    bias: Vec<f32>,
}

impl PackedConv2d {
    /// Packs `weight` (O, C, kh, kw) and `bias` (O).
    ///
    /// # Errors
    /// [`Error::Argument`] where a rank or size does not fit, an extent or the stride is zero.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Result<Self> {
        Self::pack(weight, None, bias, stride, padding)
    }

    /// Packs a convolution without bias and the affine map of each of its outputs that follows it, `scale` (O) and
    /// `shift` (O): `scale · conv(x, w) + shift`. A normalisation with fixed statistics is such a map, see
    /// [`BatchNorm::affine`](crate::norm::BatchNorm::affine).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn folded(
        weight: &Tensor,
        scale: &Tensor,
        shift: &Tensor,
        stride: usize,
        padding: usize,
    ) -> Result<Self> {
        Self::pack(weight, Some(scale), Some(shift), stride, padding)
    }

    fn pack(
        weight: &Tensor,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        stride: usize,
        padding: usize,
    ) -> Result<Self> {
        let &[filters, channels, kernel_h, kernel_w] = weight.dims() else {
            return refuse(format!("expected a weight (O, C, kh, kw), got {:?}", weight.dims()));
        };
        if weight.elem_count() == 0 || stride == 0 {
            let shape = weight.dims();
            return refuse(format!(
                "the extents of the weight {shape:?} and the stride {stride} must be positive"
            ));
        }
        let per_filter = |name: &str, values: Option<&Tensor>| match values {
            None => Ok(None),
            Some(values) if values.dims() == [filters] => numbers(values).map(Some),
            Some(values) => refuse(format!("expected a {name} ({filters}), got {:?}", values.dims())),
        };
        let scale = per_filter("scale", scale)?.unwrap_or_else(|| vec![1.0; filters]);
        let bias = per_filter("bias", bias)?.unwrap_or_else(|| vec![0.0; filters]);
        let mut weight = numbers(weight)?;
        let kernel = [kernel_h, kernel_w];
        for (filter, scale) in weight.chunks_exact_mut(channels * kernel_h * kernel_w).zip(scale) {
            filter.iter_mut().for_each(|value| *value *= scale);
        }
        let panels = Weights { data: &weight, filters, channels, kernel }.forward();
        Ok(Self { filters, channels, kernel, stride, padding, packed: Filters::new(panels), bias })
    }

    /// x (N, C, H, W), `residual` like the result and ReLU where `relu` give
    /// (N, O, ⌊(H + 2·padding − kh) / stride⌋ + 1, …).
    ///
    /// # Errors
    /// [`Error::Argument`] where x has another number of channels, no pixels or fewer than the kernel, or where
    /// `residual` has another shape than the result.
    pub fn forward(
        &self,
        x: &ChannelsLast<'_, f32>,
        residual: Option<&ChannelsLast<'_, f32>>,
        relu: bool,
        workspace: &Workspace,
    ) -> Result<ChannelsLast<'static, f32>> {
        let g = self.geometry(x)?;
        let [height, width] = g.output();
        let shape = (g.batch, g.filters, height, width);
        if let Some(residual) = residual
            && residual.shape() != shape
        {
            return refuse(format!("the result is {shape:?}, the residual {:?}", residual.shape()));
        }
        let epilogue = Epilogue { bias: &self.bias, residual: residual.map(ChannelsLast::data), relu };
        let mut y = workspace.take(g.batch * g.pixels() * g.filters);
        self.packed.convolve(x.data(), &g, epilogue, &mut y, workspace)?;
        ChannelsLast::new(y, shape)
    }

    fn geometry(&self, x: &ChannelsLast<'_, f32>) -> Result<Geometry> {
        let (batch, channels, height, width) = x.shape();
        let &Self { filters, kernel, stride, padding, .. } = self;
        if channels != self.channels {
            return refuse(format!("x has {channels} channels, the weight expects {}", self.channels));
        }
        let fits = |size: usize, kernel: usize| {
            padding.checked_mul(2).and_then(|p| p.checked_add(size)).is_some_and(|size| size >= kernel)
        };
        if x.data().is_empty() || !fits(height, kernel[0]) || !fits(width, kernel[1]) {
            return refuse(format!(
                "a kernel {kernel:?} with padding {padding} does not fit {batch} maps of {height} x {width}"
            ));
        }
        Ok(Geometry { batch, channels, height, width, filters, kernel, stride, padding: [padding; 2] })
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "PackedConv2d", reason })
}

/// The numbers of a tensor in its order, as f32.
fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}
