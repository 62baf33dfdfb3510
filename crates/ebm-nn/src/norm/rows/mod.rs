//! Normalisation by the batch's statistics of maps with the channels innermost, with what follows it in a residual
//! network in the same pass: y = γ (x − μ)·inv_std + β [+ residual], then ReLU where wanted. CPU only.

#[cfg(test)]
mod tests;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use crate::ops::elements;
use crate::ops::storage::{Float, zeros};

/// Rows of channels that one task takes, and whose sums are made in the element type before they go on in f64.
const ROWS: usize = 64;

/// y, and the batch's mean and biased variance, each (C) in f64, of x (…, C); `residual` is like x.
pub(super) fn fused(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    residual: Option<&Tensor>,
    relu: bool,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = x.contiguous()?;
    let moments = x.apply_op1_no_bwd(&Moments)?;
    let (mean, var) = (moments.get(0)?, moments.get(1)?);
    let op = Normalise { mean: mean.to_vec1()?, inv_std: (&var + eps)?.sqrt()?.recip()?.to_vec1()?, relu };
    let affine = Tensor::stack(&[weight, bias], 0)?;
    let y = match residual {
        Some(residual) => x.apply_op3(&affine, &residual.contiguous()?, op)?,
        None => x.apply_op2(&affine, op)?,
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

/// A contiguous tensor on the CPU.
type Argument<'a> = (&'a CpuStorage, &'a Layout);

/// `f` of every block of rows, added up channel by channel.
fn sums<T: Float>(channels: usize, len: usize, f: impl Fn(usize, &mut [T]) + Sync) -> Vec<f64> {
    let blocks: Vec<Vec<T>> = (0..len.div_ceil(ROWS * channels))
        .into_par_iter()
        .map(|block| {
            let mut sums = vec![T::zero(); channels];
            f(block * ROWS * channels, &mut sums);
            sums
        })
        .collect();
    let mut total = vec![0.0; channels];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum.to_f64());
    }
    total
}

/// The rows of the block of `values` that starts at `first`.
fn rows<T>(values: &[T], first: usize, channels: usize) -> std::slice::ChunksExact<'_, T> {
    values[first..values.len().min(first + ROWS * channels)].chunks_exact(channels)
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

impl CustomOp1 for Moments {
    fn name(&self) -> &'static str {
        "batch-norm-moments"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let channels = channels(layout);
        let values = match x {
            CpuStorage::F64(_) => moments(elements::<f64>(x, layout)?, channels),
            _ => moments(elements::<f32>(x, layout)?, channels),
        };
        Ok((CpuStorage::F64(values), Shape::from((2, channels))))
    }
}

fn channels(layout: &Layout) -> usize {
    layout.dims().last().copied().unwrap_or(1)
}

impl Normalise {
    fn forward<T: Float>(
        &self,
        x: Argument<'_>,
        affine: Argument<'_>,
        residual: Option<Argument<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        let (channels, shape) = (channels(x.1), x.1.shape().clone());
        let (x, affine) = (elements::<T>(x.0, x.1)?, elements::<T>(affine.0, affine.1)?);
        let residual = residual.map(|(s, l)| elements::<T>(s, l)).transpose()?;
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
        Ok((T::to_cpu_storage_owned(y), shape))
    }

    fn any_forward(
        &self,
        x: Argument<'_>,
        affine: Argument<'_>,
        residual: Option<Argument<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        match x.0 {
            CpuStorage::F64(_) => self.forward::<f64>(x, affine, residual),
            _ => self.forward::<f32>(x, affine, residual),
        }
    }

    /// With h the gradient g where y is positive (all of g without a ReLU), x̂ = (x − μ)·inv_std and m values per
    /// channel: ∂β = Σh, ∂γ = Σ h·x̂, ∂residual = h, ∂x = γ·inv_std·(h − ∂β/m − x̂·∂γ/m).
    fn backward(
        &self,
        x: &Tensor,
        affine: &Tensor,
        residual: bool,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        // One pass less in what follows where there is nothing to cut off.
        let h = g.contiguous()?;
        let h = if self.relu { h.apply_op2_no_bwd(y, &Masked)? } else { h };
        let sums = x.apply_op2_no_bwd(&h, &GradSums(self))?;
        let d_x = if x.track_op() {
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
            Some(x.apply_op2_no_bwd(&h, &Combine(coefficients))?)
        } else {
            None
        };
        let d_affine = affine.track_op().then(|| sums.to_dtype(affine.dtype())).transpose()?;
        Ok((d_x, d_affine, residual.then_some(h)))
    }
}

/// `value`, or `floor` where that is larger; NaN stays NaN.
#[inline(always)]
fn at_least<T: Float>(floor: T, value: T) -> T {
    if value < floor { floor } else { value }
}

impl CustomOp2 for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.any_forward((s1, l1), (s2, l2), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (d_x, d_affine, _) = self.backward(x, affine, false, y, g)?;
        Ok((d_x, d_affine))
    }
}

impl CustomOp3 for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm-residual"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.any_forward((s1, l1), (s2, l2), Some((s3, l3)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        residual: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        self.backward(x, affine, residual.track_op(), y, g)
    }
}

/// For two tensors alike, `f` of their numbers.
fn combine<T: Float>(
    a: Argument<'_>,
    b: Argument<'_>,
    f: impl Fn(usize, T, T) -> T + Sync,
) -> Result<(CpuStorage, Shape)> {
    let (channels, shape) = (channels(a.1), a.1.shape().clone());
    let (a, b) = (elements::<T>(a.0, a.1)?, elements::<T>(b.0, b.1)?);
    let mut y = zeros(a.len());
    y.par_chunks_mut(ROWS * channels).enumerate().for_each(|(block, y)| {
        let first = block * ROWS * channels;
        let inputs = rows(a, first, channels).zip(rows(b, first, channels));
        for (y, (a, b)) in y.chunks_exact_mut(channels).zip(inputs) {
            for (c, ((y, a), b)) in y.iter_mut().zip(a).zip(b).enumerate() {
                *y = f(c, *a, *b);
            }
        }
    });
    Ok((T::to_cpu_storage_owned(y), shape))
}

/// (g, y) -> g where y is positive, else 0.
struct Masked;

/// (x, h) -> (Σ h·x̂, Σ h) of each channel, (2, C) in f64.
struct GradSums<'a>(&'a Normalise);

/// (x, h) -> p·h + q·x + r with (p, q, r) of each channel.
struct Combine(Vec<[f64; 3]>);

impl CustomOp2 for Masked {
    fn name(&self) -> &'static str {
        "relu-grad"
    }

    fn cpu_fwd(
        &self,
        g: &CpuStorage,
        lg: &Layout,
        y: &CpuStorage,
        ly: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        match g {
            CpuStorage::F64(_) => combine::<f64>((g, lg), (y, ly), |_, g, y| if y > 0.0 { g } else { 0.0 }),
            _ => combine::<f32>((g, lg), (y, ly), |_, g, y| if y > 0.0 { g } else { 0.0 }),
        }
    }
}

impl GradSums<'_> {
    fn run<T: Float>(&self, x: Argument<'_>, h: Argument<'_>) -> Result<Vec<f64>> {
        let channels = channels(x.1);
        let (x, h) = (elements::<T>(x.0, x.1)?, elements::<T>(h.0, h.1)?);
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
        Ok(products.into_iter().zip(&self.0.inv_std).map(|(sum, s)| sum * s).chain(plain).collect())
    }
}

impl CustomOp2 for GradSums<'_> {
    fn name(&self) -> &'static str {
        "batch-norm-grad-sums"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        h: &CpuStorage,
        lh: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let values = match x {
            CpuStorage::F64(_) => self.run::<f64>((x, lx), (h, lh))?,
            _ => self.run::<f32>((x, lx), (h, lh))?,
        };
        Ok((CpuStorage::F64(values), Shape::from((2, channels(lx)))))
    }
}

impl CustomOp2 for Combine {
    fn name(&self) -> &'static str {
        "batch-norm-grad"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        h: &CpuStorage,
        lh: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        match x {
            CpuStorage::F64(_) => combine::<f64>((x, lx), (h, lh), |c, x, h| {
                let [p, q, r] = self.0[c];
                p * h + q * x + r
            }),
            _ => {
                let coefficients: Vec<[f32; 3]> = self.0.iter().map(|all| all.map(|v| v as f32)).collect();
                combine::<f32>((x, lx), (h, lh), |c, x, h| {
                    let [p, q, r] = coefficients[c];
                    p * h + q * x + r
                })
            }
        }
    }
}
