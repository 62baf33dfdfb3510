//! Maps in bf16, which take half the memory of f32. Only GPUs compute with them. The CPU converts them to f32 and rounds the
//! result.

use candle_core::{DType, Tensor};

/// Returns `true` if x is in bf16 and its device has no kernels for bf16.
pub(crate) fn lacks_bf16_kernel(x: &Tensor) -> bool {
    x.dtype() == DType::BF16 && !x.device().is_cuda()
}

/// Returns `f` of x as f32, rounded to x's type.
pub(crate) fn in_f32<E: From<candle_core::Error>>(
    x: &Tensor,
    f: impl FnOnce(&Tensor) -> Result<Tensor, E>,
) -> Result<Tensor, E> {
    Ok(f(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype())?)
}
