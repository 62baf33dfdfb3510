//! What the operations on the CPU need of candle's storage.

use candle_core::{CpuStorage, Layout, Result, WithDType, bail};

/// The element types that the CPU kernels are written for, f32 and f64. Not to be implemented for others: the
/// matrix product relies on `gemm` knowing the type.
pub(super) trait Float: WithDType {}
impl Float for f32 {}
impl Float for f64 {}

/// The elements of a contiguous tensor; an error for a strided one or one of another type.
pub(super) fn elements<'a, T: Float>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<T>()?[start..end]),
        None => {
            bail!("expected a contiguous tensor, got strides {:?} for {:?}", layout.stride(), layout.shape())
        }
    }
}
