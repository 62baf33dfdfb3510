//! Nearest-neighbour resizing on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Layout, Result};

use super::Nearest;
use crate::cuda::{Element, by_any_type, elements, launch, sizes, unwritten};

impl Nearest {
    /// The resized maps, or the gradient of x from that of y.
    pub(super) fn on_gpu(&self, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
        fn run<T: Element>(op: &Nearest, s: &CudaStorage, l: &Layout) -> Result<CudaStorage> {
            let ([h, w], [out_h, out_w]) = (sizes(op.small)?, sizes(op.large)?);
            let [inner] = sizes([op.pixels().1])?;
            let device = s.device();
            let (from, adjoint) = (elements::<T>(s, l)?, op.adjoint);
            let len = op.planes.iter().chain(if adjoint { &op.small } else { &op.large }).product();
            let mut to = unwritten::<T>(device, len)?;
            if adjoint {
                launch!(device, UPSAMPLE::"upsample_backward", T, len; &from, &mut to, &h, &w, &out_h, &out_w, &inner);
            } else {
                launch!(device, UPSAMPLE::"upsample_forward", T, len; &from, &mut to, &h, &w, &out_h, &out_w, &inner);
            }
            Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
        }
        by_any_type!(s, "upsample_nearest2d", run(self, s, l))
    }
}
