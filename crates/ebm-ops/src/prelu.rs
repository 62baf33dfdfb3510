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
pub(crate) fn prelu_in_place(x: Tensor, slope: &Tensor) -> Result<Tensor> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{check_devices, check_gradients, distance, noise_tensor};
    use candle_core::{Device, Var};

    fn wrapped(t: &[Tensor]) -> CandleResult<Tensor> {
        prelu(&t[0], &t[1]).map_err(candle_core::Error::wrap)
    }

    #[test]
    fn values_and_derivatives_are_torchs() {
        // torch.nn.functional.prelu: the derivative in x at 0 is the slope, and the derivative in the slope at 0 is 0.
        let x = Var::new(&[[-2., 3.], [0., -1.], [f64::NAN, 1.]], &Device::Cpu).unwrap();
        let slope = Var::new(&[0.5, -2.], &Device::Cpu).unwrap();
        let y = prelu(&x, &slope).unwrap();
        let found = y.to_vec2::<f64>().unwrap();
        assert_eq!(found[..2], [[-1., 3.], [0., 2.]]);
        assert!(found[2][0].is_nan());
        let y = y.narrow(0, 0, 2).unwrap();
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().to_vec2::<f64>().unwrap()[..2], [[0.5, 1.], [0.5, -2.]]);
        let x = x.narrow(0, 0, 2).unwrap().detach();
        let grads = prelu(&x, &slope).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&slope).unwrap().to_vec1::<f64>().unwrap(), [-2., -1.]);
    }

    #[test]
    fn gradients_are_those_of_differences() {
        // More rows than a block has.
        for shape in [&[2, 3, 5, 4][..], &[7, 17], &[70, 1], &[3]] {
            let x = noise_tensor(shape, 1).unwrap();
            let slope = noise_tensor(&shape[shape.len() - 1..], 2).unwrap();
            check_gradients(wrapped, &[x, slope], 1e-6, 1e-8).unwrap();
        }
    }

    #[test]
    fn in_its_place_and_in_single_precision_it_is_the_same() {
        let (x, slope) = (noise_tensor(&[3, 50, 24], 1).unwrap(), noise_tensor(&[24], 2).unwrap());
        let expected = prelu(&x, &slope).unwrap();
        let [x, slope] = [x, slope].map(|t| t.to_dtype(DType::F32).unwrap());
        check_devices(wrapped, &[x.clone(), slope.clone()], 1e-6).unwrap();
        let copy = x.copy().unwrap();
        assert!(distance(&prelu_in_place(copy, &slope).unwrap(), &expected).unwrap() < 1e-6);
        let strided = x.transpose(0, 1).unwrap();
        let found = prelu_in_place(strided, &slope).unwrap().transpose(0, 1).unwrap();
        assert!(distance(&found, &expected).unwrap() < 1e-6);
        let narrow = prelu(&x.to_dtype(DType::BF16).unwrap(), &slope).unwrap();
        assert_eq!(narrow.dtype(), DType::BF16);
        assert!(distance(&narrow, &expected).unwrap() < 1e-2);
        let of_variable = prelu_in_place(Var::from_tensor(&x).unwrap().as_tensor().clone(), &slope).unwrap();
        assert!(of_variable.track_op() && distance(&of_variable, &expected).unwrap() < 1e-6);
    }

    #[test]
    fn slopes_of_other_channels_or_types_are_refused() {
        let t = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &Device::Cpu).unwrap();
        let x = t(&[2, 3], DType::F32);
        for slope in [t(&[2], DType::F32), t(&[1, 3], DType::F32), t(&[3], DType::F64)] {
            assert!(matches!(prelu(&x, &slope), Err(Error::Argument { op: OP, .. })));
            assert!(prelu_in_place(x.copy().unwrap(), &slope).is_err());
        }
        assert!(prelu(&t(&[], DType::F32), &t(&[1], DType::F32)).is_err());
        let whole = t(&[2, 3], DType::U8);
        assert!(prelu(&whole, &t(&[3], DType::U8)).unwrap_err().to_string().contains("f32 or all f64"));
    }
}
