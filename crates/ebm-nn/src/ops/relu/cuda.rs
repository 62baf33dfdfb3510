//! ReLU on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result};

use crate::cuda::{Argument, Element, by_any_type, elements, launch, unwritten};

/// max(x, 0).
pub(super) fn relu(x: Argument<'_>) -> Result<CudaStorage> {
    fn run<T: Element>((x, l): Argument<'_>) -> Result<CudaStorage> {
        let (device, len) = (x.device(), l.shape().elem_count());
        let x = elements::<T>(x, l)?;
        let mut y = unwritten::<T>(device, len)?;
        launch!(device, RELU::"relu", T, len; &x, &mut y);
        Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
    }
    by_any_type!(x.0, "relu", run(x))
}

/// max(a + b, 0).
pub(super) fn add_relu(a: Argument<'_>, b: Argument<'_>) -> Result<CudaStorage> {
    fn run<T: Element>((a, la): Argument<'_>, (b, lb): Argument<'_>) -> Result<CudaStorage> {
        let (device, len) = (a.device(), la.shape().elem_count());
        let (a, b) = (elements::<T>(a, la)?, elements::<T>(b, lb)?);
        let mut y = unwritten::<T>(device, len)?;
        launch!(device, RELU::"add_relu", T, len; &a, &b, &mut y);
        Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
    }
    by_any_type!(a.0, "add_relu", run(a, b))
}

/// g where y was positive, else 0.
pub(super) fn mask(g: Argument<'_>, y: Argument<'_>) -> Result<CudaStorage> {
    fn run<T: Element>((g, lg): Argument<'_>, (y, ly): Argument<'_>) -> Result<CudaStorage> {
        let (device, len) = (g.device(), lg.shape().elem_count());
        let (g, y) = (elements::<T>(g, lg)?, elements::<T>(y, ly)?);
        let mut d = unwritten::<T>(device, len)?;
        launch!(device, RELU::"relu_mask", T, len; &g, &y, &mut d);
        Ok(CudaStorage::wrap_cuda_slice(d, device.clone()))
    }
    by_any_type!(g.0, "relu", run(g, y))
}
