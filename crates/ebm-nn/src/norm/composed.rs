//! Normalisation by the batch's statistics as tensor operations, for devices without a kernel, and the kernels' oracle.

use candle_core::{Result, Tensor};

/// y, and the batch's mean and biased variance, each (C). On any device, by autograd.
pub(super) fn composed(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (n, c) = (x.dim(0)?, x.dim(1)?);
    let flat = x.reshape((n, c, ()))?;
    let column = |v: &Tensor| v.reshape((1, c, 1));
    let mean = flat.mean_keepdim((0, 2))?;
    let centered = flat.broadcast_sub(&mean)?;
    let var = centered.sqr()?.mean_keepdim((0, 2))?;
    let scale = (column(weight)? / (&var + eps)?.sqrt()?)?;
    let y = centered.broadcast_mul(&scale)?.broadcast_add(&column(bias)?)?;
    Ok((y.reshape(x.shape())?, mean.detach().flatten_all()?, var.detach().flatten_all()?))
}
