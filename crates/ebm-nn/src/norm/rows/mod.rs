//! Normalisation by the batch's statistics of maps with the channels innermost, with what follows it in a
//! residual network in the same pass: y = γ (x − μ)·inv_std + β [+ residual], then ReLU where wanted. CPU
//! only.

#[cfg(test)]
mod tests;

use candle_core::{CpuStorage, DType, Result, Shape, Tensor};
use rayon::prelude::*;

use crate::ops::Float;
use crate::ops::kernel::{Apply, Argument, Kernel, by_type};
use crate::ops::relu_gradient;
use crate::ops::rows::{ROWS, rows, sums};
use crate::ops::storage::zeros;

/// y, and the batch's mean and biased variance, each (C) in f64, of x (…, C); `residual` is like x.
pub(super) fn fused(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    residual: Option<&Tensor>,
    relu: bool,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = x.contiguous()?;
    let moments = Moments.run([&x])?;
    let (mean, var) = (moments.get(0)?, moments.get(1)?);
    let op = Normalise { mean: mean.to_vec1()?, inv_std: (&var + eps)?.sqrt()?.recip()?.to_vec1()?, relu };
    let affine = Tensor::stack(&[weight, bias], 0)?;
    let y = match residual {
        Some(residual) => op.apply([&x, &affine, residual])?,
        None => op.apply([&x, &affine])?,
    };
    Ok((y, mean, var))
}

/// The mean and the biased variance of each channel: (…, C) -> (2, C) in f64.
struct Moments;

struct Normalise {
    mean: Vec<f64>,
    inv_std: Vec<f64>,
    relu: bool,
}

fn moments<T: Float>(x: &[T], channels: usize) -> Vec<f64> {
    let count = (x.len() / channels) as f64;
    let mean: Vec<f64> = sums(channels, x.len(), |first, sums: &mut [T]| {
        for row in rows(x, first, channels) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
        }
    })
    .into_iter()
    .map(|sum| sum / count)
    .collect();
    let centre: Vec<T> = mean.iter().map(|mean| T::from_f64(*mean)).collect();
    let squares = sums(channels, x.len(), |first, sums: &mut [T]| {
        for row in rows(x, first, channels) {
            for ((sum, x), centre) in sums.iter_mut().zip(row).zip(&centre) {
                *sum += (*x - *centre) * (*x - *centre);
            }
        }
    });
    // Around a rounded mean the squares are too large by its error's square.
    let variance = squares.into_iter().zip(mean.iter().zip(&centre)).map(|(sum, (mean, centre))| {
        let error = mean - centre.to_f64();
        sum / count - error * error
    });
    let variance: Vec<f64> = variance.collect();
    mean.iter().copied().chain(variance).collect()
}

impl Kernel<1> for Moments {
    fn name(&self) -> &'static str {
        "batch-norm-moments"
    }

    fn shape(&self, [x]: [&Shape; 1]) -> Result<Shape> {
        Ok(Shape::from((2, channels(x))))
    }

    fn cpu(&self, arguments: [Argument<'_>; 1]) -> Result<CpuStorage> {
        let channels = channels(arguments[0].1.shape());
        by_type!("batch-norm", arguments, |[x]| moments(x, channels))
    }
}

fn channels(shape: &Shape) -> usize {
    shape.dims().last().copied().unwrap_or(1)
}

impl Normalise {
    fn forward<T: Float>(&self, x: &[T], affine: &[T], residual: Option<&[T]>) -> Vec<T> {
        let channels = self.mean.len();
        let (weight, bias) = affine.split_at(channels);
        let map: Vec<[T; 2]> = (0..channels)
            .map(|c| {
                let scale = weight[c].to_f64() * self.inv_std[c];
                [scale, bias[c].to_f64() - self.mean[c] * scale].map(T::from_f64)
            })
            .collect();
        // Below every number where nothing is cut off.
        let floor = if self.relu { T::zero() } else { T::from_f64(f64::NEG_INFINITY) };
        let mut y = zeros(x.len());
        y.par_chunks_mut(ROWS * channels).enumerate().for_each(|(block, y)| {
            let first = block * ROWS * channels;
            for (i, (y, x)) in y.chunks_exact_mut(channels).zip(rows(x, first, channels)).enumerate() {
                let all = y.iter_mut().zip(x).zip(&map);
                match residual {
                    Some(residual) => {
                        let residual = &residual[first + i * channels..][..channels];
                        for (((y, x), [scale, shift]), residual) in all.zip(residual) {
                            *y = at_least(floor, *x * *scale + *shift + *residual);
                        }
                    }
                    None => {
                        for ((y, x), [scale, shift]) in all {
                            *y = at_least(floor, *x * *scale + *shift);
                        }
                    }
                }
            }
        });
        y
    }
}

/// `value`, or `floor` where that is larger; NaN stays NaN.
#[inline(always)]
fn at_least<T: Float>(floor: T, value: T) -> T {
    if value < floor { floor } else { value }
}

impl<const N: usize> Kernel<N> for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn shape(&self, arguments: [&Shape; N]) -> Result<Shape> {
        Ok(arguments[0].clone())
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> Result<CpuStorage> {
        by_type!("batch-norm", arguments, |all| self.forward(all[0], all[1], all.get(2).copied()))
    }

    /// With h the gradient g where y is positive (all of g without a ReLU), x̂ = (x − μ)·inv_std and m values
    /// per channel: ∂β = Σh, ∂γ = Σ h·x̂, ∂residual = h, ∂x = γ·inv_std·(h − ∂β/m − x̂·∂γ/m).
    fn gradients(&self, arguments: [&Tensor; N], y: &Tensor, g: &Tensor) -> Result<[Option<Tensor>; N]> {
        let (x, affine) = (arguments[0], arguments[1]);
        // One pass less in what follows where there is nothing to cut off.
        let h = if self.relu { relu_gradient(g, y)? } else { g.contiguous()? };
        let sums = GradSums(self).run([x, &h])?;
        let mut gradients = std::array::from_fn(|i| arguments[i].track_op().then(|| h.clone()));
        if x.track_op() {
            let count = (x.elem_count() / self.mean.len()) as f64;
            let gamma = affine.get(0)?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            let sums = sums.to_vec2::<f64>()?;
            let (d_weight, d_bias) = (&sums[0], &sums[1]);
            let coefficients = (0..gamma.len())
                .map(|c| {
                    let p = gamma[c] * self.inv_std[c];
                    let q = -p * self.inv_std[c] * d_weight[c] / count;
                    [p, q, -p * d_bias[c] / count - q * self.mean[c]]
                })
                .collect();
            gradients[0] = Some(Combine(coefficients).run([x, &h])?);
        }
        gradients[1] = affine.track_op().then(|| sums.to_dtype(affine.dtype())).transpose()?;
        Ok(gradients)
    }
}

/// (x, h) -> (Σ h·x̂, Σ h) of each channel, (2, C) in f64.
struct GradSums<'a>(&'a Normalise);

impl GradSums<'_> {
    fn sums<T: Float>(&self, x: &[T], h: &[T]) -> Vec<f64> {
        let channels = self.0.mean.len();
        let mean: Vec<T> = self.0.mean.iter().map(|mean| T::from_f64(*mean)).collect();
        let products = sums(channels, x.len(), |first, sums: &mut [T]| {
            for (x, h) in rows(x, first, channels).zip(rows(h, first, channels)) {
                for (((sum, x), h), mean) in sums.iter_mut().zip(x).zip(h).zip(&mean) {
                    *sum += *h * (*x - *mean);
                }
            }
        });
        let plain = sums(channels, x.len(), |first, sums: &mut [T]| {
            for h in rows(h, first, channels) {
                sums.iter_mut().zip(h).for_each(|(sum, h)| *sum += *h);
            }
        });
        products.into_iter().zip(&self.0.inv_std).map(|(sum, s)| sum * s).chain(plain).collect()
    }
}

impl Kernel<2> for GradSums<'_> {
    fn name(&self) -> &'static str {
        "batch-norm-grad-sums"
    }

    fn shape(&self, [x, _]: [&Shape; 2]) -> Result<Shape> {
        Ok(Shape::from((2, channels(x))))
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> Result<CpuStorage> {
        by_type!("batch-norm", arguments, |[x, h]| self.sums(x, h))
    }
}

/// (x, h) -> p·h + q·x + r with (p, q, r) of each channel.
struct Combine(Vec<[f64; 3]>);

impl Combine {
    fn combined<T: Float>(&self, x: &[T], h: &[T]) -> Vec<T> {
        let channels = self.0.len();
        let coefficients: Vec<[T; 3]> = self.0.iter().map(|all| all.map(T::from_f64)).collect();
        let mut y = zeros(x.len());
        y.par_chunks_mut(ROWS * channels).enumerate().for_each(|(block, y)| {
            let first = block * ROWS * channels;
            let inputs = rows(x, first, channels).zip(rows(h, first, channels));
            for (y, (x, h)) in y.chunks_exact_mut(channels).zip(inputs) {
                for (((y, x), h), [p, q, r]) in y.iter_mut().zip(x).zip(h).zip(&coefficients) {
                    *y = *p * *h + *q * *x + *r;
                }
            }
        });
        y
    }
}

impl Kernel<2> for Combine {
    fn name(&self) -> &'static str {
        "batch-norm-grad"
    }

    fn shape(&self, [x, _]: [&Shape; 2]) -> Result<Shape> {
        Ok(x.clone())
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> Result<CpuStorage> {
        by_type!("batch-norm", arguments, |[x, h]| self.combined(x, h))
    }
}
