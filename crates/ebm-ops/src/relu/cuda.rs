//! ReLU and ReLU6 on a GPU, as min(max(·, 0), most).

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result, WithDType};

use crate::cuda::{Argument, Element, by_any_type, count, elements, launch, unwritten};

/// Of x.
pub(super) fn relu(x: Argument<'_>, most: f64) -> Result<CudaStorage> {
    fn run<T: Element>((x, l): Argument<'_>, most: f64) -> Result<CudaStorage> {
        let (device, len) = (x.device(), l.shape().elem_count());
        let x = elements::<T>(x, l)?;
        let (mut y, most) = (unwritten::<T>(device, len)?, T::Wide::from_f64(most));
        launch!(device, RELU::"relu", T, len; &x, &mut y, &most);
        Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
    }
    by_any_type!(x.0, "relu", run(x, most))
}

/// Of a + b.
pub(super) fn add_relu(a: Argument<'_>, b: Argument<'_>, most: f64) -> Result<CudaStorage> {
    fn run<T: Element>((a, la): Argument<'_>, (b, lb): Argument<'_>, most: f64) -> Result<CudaStorage> {
        let (device, len) = (a.device(), la.shape().elem_count());
        let (a, b) = (elements::<T>(a, la)?, elements::<T>(b, lb)?);
        let (mut y, most) = (unwritten::<T>(device, len)?, T::Wide::from_f64(most));
        launch!(device, RELU::"add_relu", T, len; &a, &b, &mut y, &most);
        Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
    }
    by_any_type!(a.0, "add_relu", run(a, b, most))
}

/// g where y was between 0 and `most`, else 0.
pub(super) fn mask(g: Argument<'_>, y: Argument<'_>, most: f64) -> Result<CudaStorage> {
    fn run<T: Element>((g, lg): Argument<'_>, (y, ly): Argument<'_>, most: f64) -> Result<CudaStorage> {
        let (device, len) = (g.device(), lg.shape().elem_count());
        let (g, y) = (elements::<T>(g, lg)?, elements::<T>(y, ly)?);
        let (mut d, most, all) = (unwritten::<T>(device, len)?, T::Wide::from_f64(most), count(len)?);
        launch!(device, RELU::"relu_mask", T, len.div_ceil(4); &g, &y, &mut d, &most, &all);
        Ok(CudaStorage::wrap_cuda_slice(d, device.clone()))
    }
    by_any_type!(g.0, "relu", run(g, y, most))
}
