//! PReLU (He et al., 2015), which has a slope for the negative numbers of each channel, with torch's derivatives.

use candle_core::{CpuStorage, DType, InplaceOp2, Layout, Result as CandleResult, Shape, Tensor};
use rayon::prelude::*;

use super::bf16::in_f32;
use super::float::Float;
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::relu::relu;
use super::rows::{ROWS, each, rows, sums};
use super::storage::{elements, window_mut};
use crate::nn::is_packable;
use crate::{Error, Result};

/// Name in errors.
const OP: &str = "prelu";

/// Returns `y[…, c] = x` where x is positive, else `slope[c] · x`.
///
/// x (…, C) and slope (C) are both f32 or both f64 on one device, or x is bf16 and the slope f32. y has the shape and the
/// type of x. Differentiable in both. At 0 the derivative in x is the slope on the CPU. On other devices PReLU is a
/// difference of two ReLUs, whose derivative at 0 is 0.
///
/// # Errors
/// [`Error::Argument`] if the slope does not have one number for each channel, or is of another type.
pub fn prelu(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    if x.dtype() == DType::BF16 {
        return in_f32(x, |x| prelu(x, slope));
    }
    check(x, slope)?;
    if !x.device().is_cpu() {
        return Ok((relu(x)? - relu(&x.neg()?)?.broadcast_mul(slope)?)?);
    }
    Ok(Prelu.apply([x, slope])?)
}

/// Computes [`prelu`] of a map in its place, if no graph is involved. The caller must hold the only handle to the map's
/// numbers.
///
/// # Errors
/// The errors of [`prelu`].
pub fn prelu_in_place(x: Tensor, slope: &Tensor) -> Result<Tensor> {
    if x.track_op() || slope.track_op() || !is_packable(&x) || !x.is_contiguous() {
        return prelu(&x, slope);
    }
    check(&x, slope)?;
    x.inplace_op2(&slope.contiguous()?, &Prelu)?;
    Ok(x)
}

fn check(x: &Tensor, slope: &Tensor) -> Result<()> {
    let reason = match (x.dims().last(), slope.dims()) {
        (Some(channels), &[slopes]) if *channels == slopes && slopes > 0 => {
            if x.dtype() == slope.dtype() {
                return Ok(());
            }
            format!("x is {:?}, the slope {:?}; they must have one type", x.dtype(), slope.dtype())
        }
        (_, found) => format!("x is {:?}, the slope {found:?}; one slope per channel is expected", x.dims()),
    };
    Err(Error::Argument { op: OP, reason })
}

/// Kernels (x, slope) -> y and (x, slope, g) -> dx: x or g times the factor of PReLU.
struct Prelu;

impl<const N: usize> Kernel<N> for Prelu {
    const NAME: &'static str = OP;

    fn host<T: Float>(&self, all: [&[T]; N]) -> CandleResult<Vec<T>> {
        let (x, slope, channels) = (all[0], all[1], all[1].len());
        let g = all.get(2).copied().unwrap_or(x);
        Ok(each(channels, x.len(), &|first, to: &mut [T]| {
            let rows = rows(x, first, channels).zip(rows(g, first, channels));
            for (to, (x, g)) in to.chunks_exact_mut(channels).zip(rows) {
                for (((to, &x), &g), &slope) in to.iter_mut().zip(x).zip(g).zip(slope) {
                    *to = where_positive(x, g, slope * g);
                }
            }
        }))
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, g: &Tensor) -> Gradients<N> {
        let (x, slope) = (arguments[0], arguments[1]);
        let mut gradients = [const { None }; N];
        gradients[0] = x.track_op().then(|| Prelu.run([x, slope, g])).transpose()?;
        let d_slope = || SlopeGradient.run([x, g])?.to_dtype(slope.dtype());
        gradients[1] = slope.track_op().then(d_slope).transpose()?;
        Ok(gradients)
    }
}

impl InplaceOp2 for Prelu {
    fn name(&self) -> &'static str {
        OP
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, l: &Layout, slope: &CpuStorage, sl: &Layout) -> CandleResult<()> {
        let CpuStorage::F32(x) = x else { return super::kernel::unsupported(OP, None) };
        let (x, slope) = (window_mut(x, l)?, elements::<f32>(slope, sl)?);
        x.par_chunks_mut(ROWS * slope.len()).for_each(|x| {
            for x in x.chunks_exact_mut(slope.len()) {
                for (x, &slope) in x.iter_mut().zip(slope) {
                    *x = where_positive(*x, *x, slope * *x);
                }
            }
        });
        Ok(())
    }
}

/// Kernel (x, g) -> gradient of the slope (C), in f64: Σ g · x over the numbers that are not positive.
struct SlopeGradient;

impl Kernel<2> for SlopeGradient {
    const NAME: &'static str = OP;

    fn shape(&self, [x, _]: [&Shape; 2]) -> CandleResult<Shape> {
        Ok(Shape::from(x.dims().last().copied().unwrap_or(1)))
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> CandleResult<CpuStorage> {
        let channels = arguments[0].1.dims().last().copied().unwrap_or(1);
        by_type!(OP, arguments, |[x, g]| slope_gradient(x, g, channels))
    }
}

fn slope_gradient<T: Float>(x: &[T], g: &[T], channels: usize) -> Vec<f64> {
    sums(channels, channels, x.len(), &|first, sums: &mut [T]| {
        for (x, g) in rows(x, first, channels).zip(rows(g, first, channels)) {
            for ((sum, &x), &g) in sums.iter_mut().zip(x).zip(g) {
                *sum += where_positive(x, T::zero(), g * x);
            }
        }
    })
}

/// Returns `yes` if x is positive, else `no`. Both are computed before, so that loops choose without a branch, because the
/// signs of a map cannot be predicted.
#[inline(always)]
pub(crate) fn where_positive<T: Float>(x: T, yes: T, no: T) -> T {
    std::hint::select_unpredictable(x > T::zero(), yes, no)
}
