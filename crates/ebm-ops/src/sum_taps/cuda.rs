//! The sum over taps on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Layout, Result};

use super::Taps;
use crate::cuda::{Element, by_type, elements, launch, sizes, unwritten};

impl Taps {
    /// The operation, or its adjoint.
    pub(super) fn on_gpu(&self, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
        fn run<T: Element>(op: &Taps, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
            let [_, height, width] = op.shape;
            let [h, w, kernel] = sizes([height, width, op.kernel])?;
            let device = s.device();
            let from = elements::<T>(s, l)?;
            let len = op.shape.iter().product::<usize>() * if op.spread { op.kernel * op.kernel } else { 1 };
            let mut to = unwritten::<T>(device, len)?;
            if op.spread {
                launch!(device, SUM_TAPS::"spread_taps", T, len; &from, &mut to, &h, &w, &kernel);
            } else {
                launch!(device, SUM_TAPS::"sum_taps", T, len; &from, &mut to, &h, &w, &kernel);
            }
            Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
        }
        by_type!(s, "sum_taps", run(self, s, l))
    }
}
