//! Maximum pooling on a GPU, in either order of a map's numbers.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result};

use super::{MaxPool, Window};
use crate::cuda::{Argument, Element, by_any_type, elements, launch, sizes, unwritten};

impl MaxPool {
    fn parameters(&self) -> Result<[i32; 8]> {
        let ([height, width], [out_h, out_w], (_, inner)) = (self.input, self.output(), self.images());
        let Window { kernel, stride, padding } = self.window;
        sizes([height, width, out_h, out_w, kernel, stride, padding, inner])
    }

    /// The maxima of x.
    pub(super) fn cuda_forward(&self, x: Argument<'_>) -> Result<CudaStorage> {
        fn run<T: Element>(pool: &MaxPool, (x, layout): Argument<'_>) -> Result<CudaStorage> {
            let [h, w, oh, ow, kernel, stride, padding, inner] = pool.parameters()?;
            let device = x.device();
            let x = elements::<T>(x, layout)?;
            let len = pool.batch * pool.channels * pool.output().iter().product::<usize>();
            let mut y = unwritten::<T>(device, len)?;
            launch!(device, MAX_POOL::"max_pool_forward", T, len;
                &x, &mut y, &h, &w, &oh, &ow, &kernel, &stride, &padding, &inner);
            Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
        }
        by_any_type!(x.0, "max_pool2d", run(self, x))
    }

    /// The gradient of x, from x and that of y.
    pub(super) fn cuda_backward(&self, x: Argument<'_>, dy: Argument<'_>) -> Result<CudaStorage> {
        fn run<T: Element>(
            pool: &MaxPool,
            (x, layout): Argument<'_>,
            (dy, dy_layout): Argument<'_>,
        ) -> Result<CudaStorage> {
            let [h, w, oh, ow, kernel, stride, padding, inner] = pool.parameters()?;
            let (device, len) = (x.device(), layout.shape().elem_count());
            let (x, dy) = (elements::<T>(x, layout)?, elements::<T>(dy, dy_layout)?);
            let mut dx = unwritten::<T>(device, len)?;
            launch!(device, MAX_POOL::"max_pool_backward", T, len;
                &x, &dy, &mut dx, &h, &w, &oh, &ow, &kernel, &stride, &padding, &inner);
            Ok(CudaStorage::wrap_cuda_slice(dx, device.clone()))
        }
        by_any_type!(x.0, "max_pool2d", run(self, x, dy))
    }
}
