//! Operations in one pass over memory for tensors on the CPU: the sum of exponentials of Eq. 4 with its gradient,
//! and a step of Langevin dynamics. Composed of tensor operations they would need many passes, which take most of
//! the time of small networks.

use candle_core::{
    CpuStorage, CustomOp1, D, DType, Device, Layout, Result, Shape, Storage, Tensor, WithDType, bail,
};

use crate::log_sum::LogSum;

/// Operation `log Σ exp x` over the last dimension, which is removed, of a contiguous `f32` or `f64` tensor on
/// the CPU.
pub(crate) struct LogSumExp;

/// Returns whether [`LogSumExp`] supports the device and type of `x`.
pub(crate) fn is_supported(x: &Tensor) -> bool {
    x.device().is_cpu() && matches!(x.dtype(), DType::F32 | DType::F64) && x.elem_count() > 0
}

/// Functions that `f32` and `f64` share by name only.
pub(crate) trait Real: WithDType {
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn is_finite(self) -> bool;
}

macro_rules! real {
    ($($float:ident),*) => {$(
        impl Real for $float {
            fn exp(self) -> Self {
                $float::exp(self)
            }
            fn ln(self) -> Self {
                $float::ln(self)
            }
            fn max(self, other: Self) -> Self {
                $float::max(self, other)
            }
            fn is_finite(self) -> bool {
                $float::is_finite(self)
            }
        }
    )*};
}

real!(f32, f64);

fn elements<'a, T: Real>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<T>()?[start..end]),
        None => bail!("log_sum_exp needs a contiguous tensor"),
    }
}

/// Returns the size of the last dimension, and the shape without that dimension.
fn split(layout: &Layout) -> (usize, Shape) {
    match layout.dims().split_last() {
        Some((&columns, rest)) => (columns, Shape::from(rest)),
        None => (1, Shape::from(())),
    }
}

fn forward<T: Real>(storage: &CpuStorage, layout: &Layout, columns: usize) -> Result<CpuStorage> {
    let rows = elements::<T>(storage, layout)?.chunks_exact(columns);
    Ok(T::to_cpu_storage_owned(rows.map(LogSum::of).collect()))
}

impl CustomOp1 for LogSumExp {
    fn name(&self) -> &'static str {
        "log-sum-exp"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (columns, shape) = split(layout);
        let sums = match storage {
            CpuStorage::F64(_) => forward::<f64>(storage, layout, columns)?,
            _ => forward::<f32>(storage, layout, columns)?,
        };
        Ok((sums, shape))
    }

    /// Returns the gradient `g exp(x − log Σ exp x)`.
    fn bwd(&self, x: &Tensor, sums: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let columns = x.dim(D::Minus1)?;
        match x.dtype() {
            DType::F64 => map_three(x, sums, grad, |x, sums, grad| softmax::<f64>(x, sums, grad, columns)),
            _ => map_three(x, sums, grad, |x, sums, grad| softmax::<f32>(x, sums, grad, columns)),
        }
        .map(Some)
    }
}

fn softmax<T: Real>(x: &[T], sums: &[T], grad: &[T], columns: usize) -> Vec<T> {
    let mut result = Vec::with_capacity(x.len());
    for ((row, &sum), &g) in x.chunks_exact(columns).zip(sums).zip(grad) {
        result.extend(row.iter().map(|&x| g * (x - sum).exp()));
    }
    result
}

/// Applies `op` to the elements of three tensors on the CPU. The result has the shape of `a` and no graph.
fn map_three<T: Real>(
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    op: impl FnOnce(&[T], &[T], &[T]) -> Vec<T>,
) -> Result<Tensor> {
    let (a, b, c) = (a.contiguous()?, b.contiguous()?, c.contiguous()?);
    let (sa, la) = a.storage_and_layout();
    let (sb, lb) = b.storage_and_layout();
    let (sc, lc) = c.storage_and_layout();
    let (Storage::Cpu(sa), Storage::Cpu(sb), Storage::Cpu(sc)) = (&*sa, &*sb, &*sc) else {
        bail!("log_sum_exp and a step of Langevin dynamics are fused for the CPU alone")
    };
    Tensor::from_vec(op(elements(sa, la)?, elements(sb, lb)?, elements(sc, lc)?), a.shape(), &Device::Cpu)
}

/// Returns whether all elements are known to be finite: `false` also if an answer would need a copy from a device
/// or a conversion.
pub(crate) fn are_all_finite(x: &Tensor) -> Result<bool> {
    let (storage, layout) = x.storage_and_layout();
    let (Storage::Cpu(storage), true) = (&*storage, layout.is_contiguous()) else { return Ok(false) };
    Ok(match storage {
        CpuStorage::F32(_) => elements::<f32>(storage, layout)?.iter().all(|x| x.is_finite()),
        CpuStorage::F64(_) => elements::<f64>(storage, layout)?.iter().all(|x| x.is_finite()),
        _ => false,
    })
}

/// Returns `y + (λ²/2) gradient + λ noise` if all of it is finite and on the CPU, else `None`.
pub(crate) fn langevin_step(
    y: &Tensor,
    gradient: &Tensor,
    noise: &Tensor,
    lambda: f64,
) -> Result<Option<Tensor>> {
    if !is_supported(y) {
        return Ok(None);
    }
    let moved = match y.dtype() {
        DType::F64 => map_three(y, gradient, noise, |y, g, noise| moved::<f64>(y, g, noise, lambda)),
        _ => map_three(y, gradient, noise, |y, g, noise| moved::<f32>(y, g, noise, lambda)),
    }?;
    Ok(are_all_finite(&moved)?.then_some(moved))
}

fn moved<T: Real>(y: &[T], gradient: &[T], noise: &[T], lambda: f64) -> Vec<T> {
    let (drift, lambda) = (T::from_f64(0.5 * lambda * lambda), T::from_f64(lambda));
    let terms = y.iter().zip(gradient).zip(noise);
    terms.map(|((&y, &g), &noise)| y + drift * g + noise * lambda).collect()
}
