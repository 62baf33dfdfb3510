//! Normalisation by the batch's statistics as tensor operations, for devices without a kernel, and the
//! kernels' oracle.

use candle_core::{D, Result, Tensor};

/// y, and the batch's mean and biased variance, each (C), of x (…, C), as
/// [`rows::fused`](super::rows::fused). On any device, by autograd.
pub(super) fn composed(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    residual: Option<&Tensor>,
    relu: bool,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let rows = x.reshape(((), x.dim(D::Minus1)?))?;
    let mean = rows.mean_keepdim(0)?;
    let centered = rows.broadcast_sub(&mean)?;
    let var = centered.sqr()?.mean_keepdim(0)?;
    let scale = weight.broadcast_div(&(&var + eps)?.sqrt()?)?;
    let mut y = centered.broadcast_mul(&scale)?.broadcast_add(bias)?.reshape(x.shape())?;
    if let Some(residual) = residual {
        y = (y + residual)?;
    }
    if relu {
        y = crate::ops::relu(&y).map_err(candle_core::Error::wrap)?;
    }
    Ok((y, mean.detach().flatten_all()?, var.detach().flatten_all()?))
}
