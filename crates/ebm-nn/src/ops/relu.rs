//! ReLU with torch's derivative at 0, which is 0 (candle's is 1), alone and after a sum.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{CpuStorage, DType, Shape, Tensor, WithDType};
use rayon::prelude::*;

use super::kernel::{Apply, Argument, Kernel, by_type};
use crate::Result;

/// max(x, 0), of any shape; the derivative at 0 is 0.
///
/// # Errors
/// When a tensor operation fails.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    if !has_kernel(x) {
        return masked(x);
    }
    Ok(Relu.apply([x])?)
}

/// [`relu`] of a + b, which have the same shape: the end of a residual block, in one pass.
///
/// # Errors
/// When the shapes differ.
pub fn add_relu(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.shape() != b.shape() {
        return Err(candle_core::Error::ShapeMismatchBinaryOp {
            lhs: a.shape().clone(),
            rhs: b.shape().clone(),
            op: "add_relu",
        }
        .into());
    }
    if !has_kernel(a) {
        return masked(&(a + b)?);
    }
    Ok(Relu.apply([a, b])?)
}

/// The gradient of [`relu`] from that of its result y: g where y is positive, else 0. Outside any graph; f32,
/// f64 or on a GPU bf16.
///
/// # Errors
/// When the types differ.
pub fn relu_gradient(g: &Tensor, y: &Tensor) -> candle_core::Result<Tensor> {
    Mask.run([g, y])
}

/// Whether the operations below serve this tensor.
fn has_kernel(x: &Tensor) -> bool {
    x.device().is_cuda() || (x.device().is_cpu() && x.dtype() != DType::BF16)
}

/// The form for other devices: the product's gradient with respect to x is the mask.
fn masked(x: &Tensor) -> Result<Tensor> {
    Ok((x * x.detach().gt(0f64)?.to_dtype(x.dtype())?)?)
}

/// Of one tensor, or of the sum of two.
struct Relu;

impl<const N: usize> Kernel<N> for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn shape(&self, arguments: [&Shape; N]) -> candle_core::Result<Shape> {
        Ok(arguments[0].clone())
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> candle_core::Result<CpuStorage> {
        by_type!("relu", arguments, |all| match all.get(1) {
            Some(b) => map(all[0], b, |a, b| positive(a + b)),
            None => map(all[0], all[0], |x, _| positive(x)),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        arguments: [crate::cuda::Argument<'_>; N],
    ) -> candle_core::Result<candle_core::CudaStorage> {
        match arguments.get(1) {
            Some(b) => cuda::add_relu(arguments[0], *b),
            None => cuda::relu(arguments[0]),
        }
    }

    fn gradients(&self, _: [&Tensor; N], y: &Tensor, g: &Tensor) -> candle_core::Result<[Option<Tensor>; N]> {
        let g = relu_gradient(g, y)?;
        Ok(std::array::from_fn(|_| Some(g.clone())))
    }
}

/// The gradient where the result was positive, else 0.
struct Mask;

impl Kernel<2> for Mask {
    fn name(&self) -> &'static str {
        "relu-grad"
    }

    fn shape(&self, [g, _]: [&Shape; 2]) -> candle_core::Result<Shape> {
        Ok(g.clone())
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> candle_core::Result<CpuStorage> {
        by_type!("relu-grad", arguments, |[g, y]| map(g, y, |g, y| if y > 0. { g } else { 0. }))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [g, y]: [crate::cuda::Argument<'_>; 2]) -> candle_core::Result<candle_core::CudaStorage> {
        cuda::mask(g, y)
    }
}

/// NaN stays NaN.
fn positive<T: WithDType>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

fn map<T: WithDType>(a: &[T], b: &[T], f: impl Fn(T, T) -> T + Sync) -> Vec<T> {
    const CHUNK: usize = 1 << 14;
    let mut y = vec![T::zero(); a.len()];
    y.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK)).for_each(|((y, a), b)| {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = f(a, b);
        }
    });
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::devices;
    use candle_core::Var;

    #[test]
    fn values_and_derivatives_are_torchs() {
        let data = [-1.5, 0., 2., f64::NAN];
        let forms = [relu as fn(&Tensor) -> Result<Tensor>, masked];
        for (device, f) in devices().into_iter().flat_map(|device| forms.map(|f| (device.clone(), f))) {
            let x = Var::new(&data[..3], &device).unwrap();
            let y = f(&x).unwrap();
            assert_eq!(y.to_vec1::<f64>().unwrap(), [0., 0., 2.]);
            let grads = (y * 3.).unwrap().sum_all().unwrap().backward().unwrap();
            assert_eq!(grads.get(&x).unwrap().to_vec1::<f64>().unwrap(), [0., 0., 3.]);
        }
        for device in devices() {
            let y = relu(&Tensor::new(&data, &device).unwrap()).unwrap().to_vec1::<f64>().unwrap();
            assert!(y[3].is_nan());
        }
    }

    #[test]
    fn a_sum_passes_its_gradient_to_both() {
        for device in devices() {
            let a = Var::new(&[[1f32, -2.], [3., 1.]], &device).unwrap();
            let b = Var::new(&[[1f32, 5.], [-4., -1.]], &device).unwrap();
            let y = add_relu(&a.t().unwrap(), &b.t().unwrap()).unwrap();
            assert_eq!(y.to_vec2::<f32>().unwrap(), [[2., 0.], [3., 0.]]);
            let grads = y.sum_all().unwrap().backward().unwrap();
            for var in [&a, &b] {
                assert_eq!(grads.get(var).unwrap().to_vec2::<f32>().unwrap(), [[1., 1.], [0., 0.]]);
            }
            assert!(add_relu(&a, &b.get(0).unwrap()).is_err());
        }
    }
}
