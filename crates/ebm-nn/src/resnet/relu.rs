//! ReLU with torch's derivative at 0, which is 0 (candle's is 1), alone and after a sum.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, DType, Error, Layout, Shape, Tensor, WithDType};
use rayon::prelude::*;

use crate::Result;
use crate::ops::storage::window;

/// max(x, 0), of any shape; the derivative at 0 is 0.
///
/// # Errors
/// When a tensor operation fails.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    if !has_kernel(x) {
        return masked(x);
    }
    match channels_second(x)? {
        Some(stored) => Ok(stored.apply_op1(Relu)?.permute(CHANNELS_LAST)?),
        None => Ok(x.contiguous()?.apply_op1(Relu)?),
    }
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
    match channels_second(a)? {
        Some(a) => {
            let b = b.permute(CHANNELS_SECOND)?.contiguous()?;
            Ok(a.apply_op2(&b, AddRelu)?.permute(CHANNELS_LAST)?)
        }
        None => Ok(a.contiguous()?.apply_op2(&b.contiguous()?, AddRelu)?),
    }
}

/// The gradient of [`relu`] from that of its result y: g where y is positive, else 0. Outside any graph; both contiguous, f32, f64 or
/// on a GPU bf16.
///
/// # Errors
/// When the types differ.
pub fn relu_gradient(g: &Tensor, y: &Tensor) -> candle_core::Result<Tensor> {
    g.apply_op2_no_bwd(y, &Mask)
}

/// Of (N, H, W, C), to (N, C, H, W) and back.
const CHANNELS_SECOND: (usize, usize, usize, usize) = (0, 3, 1, 2);
const CHANNELS_LAST: (usize, usize, usize, usize) = (0, 2, 3, 1);

/// A map on a GPU (N, H, W, C) that is stored as (N, C, H, W), as convolutions leave it there: in that order, so that nothing is moved.
fn channels_second(x: &Tensor) -> Result<Option<Tensor>> {
    if x.device().is_cpu() || x.rank() != 4 || x.is_contiguous() {
        return Ok(None);
    }
    let stored = x.permute(CHANNELS_SECOND)?;
    Ok(stored.is_contiguous().then_some(stored))
}

/// Whether the operations below serve this tensor.
fn has_kernel(x: &Tensor) -> bool {
    x.device().is_cuda() || (x.device().is_cpu() && x.dtype() != DType::BF16)
}

/// The form for other devices: the product's gradient with respect to x is the mask.
fn masked(x: &Tensor) -> Result<Tensor> {
    Ok((x * x.detach().gt(0f64)?.to_dtype(x.dtype())?)?)
}

struct Relu;

struct AddRelu;

/// The gradient where the result was positive, else 0.
struct Mask;

impl CustomOp1 for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let y = match x {
            CpuStorage::F32(x) => CpuStorage::F32(map(window(x, l)?, window(x, l)?, |x, _| x, positive)),
            CpuStorage::F64(x) => CpuStorage::F64(map(window(x, l)?, window(x, l)?, |x, _| x, positive)),
            _ => return Err(unsupported()),
        };
        Ok((y, l.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        l: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        Ok((cuda::relu((x, l))?, l.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, y: &Tensor, g: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(g.contiguous()?.apply_op2_no_bwd(y, &Mask)?))
    }
}

impl CustomOp2 for AddRelu {
    fn name(&self) -> &'static str {
        "add-relu"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        la: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let y = match (a, b) {
            (CpuStorage::F32(a), CpuStorage::F32(b)) => {
                CpuStorage::F32(map(window(a, la)?, window(b, lb)?, |a, b| a + b, positive))
            }
            (CpuStorage::F64(a), CpuStorage::F64(b)) => {
                CpuStorage::F64(map(window(a, la)?, window(b, lb)?, |a, b| a + b, positive))
            }
            _ => return Err(unsupported()),
        };
        Ok((y, la.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        a: &candle_core::CudaStorage,
        la: &Layout,
        b: &candle_core::CudaStorage,
        lb: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        Ok((cuda::add_relu((a, la), (b, lb))?, la.shape().clone()))
    }

    fn bwd(
        &self,
        _a: &Tensor,
        _b: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let g = g.contiguous()?.apply_op2_no_bwd(y, &Mask)?;
        Ok((Some(g.clone()), Some(g)))
    }
}

impl CustomOp2 for Mask {
    fn name(&self) -> &'static str {
        "relu-grad"
    }

    fn cpu_fwd(
        &self,
        g: &CpuStorage,
        lg: &Layout,
        y: &CpuStorage,
        ly: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        fn pick<T: WithDType>(g: T, y: T) -> T {
            let zero = T::from_f64(0.);
            if y > zero { g } else { zero }
        }
        let d = match (g, y) {
            (CpuStorage::F32(g), CpuStorage::F32(y)) => {
                CpuStorage::F32(map(window(g, lg)?, window(y, ly)?, pick, |d| d))
            }
            (CpuStorage::F64(g), CpuStorage::F64(y)) => {
                CpuStorage::F64(map(window(g, lg)?, window(y, ly)?, pick, |d| d))
            }
            _ => return Err(unsupported()),
        };
        Ok((d, lg.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        g: &candle_core::CudaStorage,
        lg: &Layout,
        y: &candle_core::CudaStorage,
        ly: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        Ok((cuda::mask((g, lg), (y, ly))?, lg.shape().clone()))
    }
}

/// NaN stays NaN.
fn positive<T: WithDType>(x: T) -> T {
    let zero = T::from_f64(0.);
    if x < zero { zero } else { x }
}

fn map<T: WithDType>(a: &[T], b: &[T], f: impl Fn(T, T) -> T + Sync, last: impl Fn(T) -> T + Sync) -> Vec<T> {
    const CHUNK: usize = 1 << 14;
    let mut y = vec![T::from_f64(0.); a.len()];
    y.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK)).for_each(|((y, a), b)| {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = last(f(a, b));
        }
    });
    y
}

fn unsupported() -> Error {
    Error::Msg("relu: the tensors must all be f32 or all be f64".to_owned())
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
