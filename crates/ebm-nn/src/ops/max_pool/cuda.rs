//! Maximum pooling on a GPU, in either order of a map's numbers.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Layout, Result};

use super::Pool;
use crate::ops::cuda::{Element, by_any_type, elements, launch, sizes};

impl Pool {
    fn parameters(&self, inner: usize) -> Result<[i32; 8]> {
        let ([height, width], [out_h, out_w]) = (self.input, self.output());
        sizes([height, width, out_h, out_w, self.kernel, self.stride, self.padding, inner])
    }

    /// The maxima of x; `inner` is 1 for (N, C, H, W), and C for (N, H, W, C).
    pub(in crate::ops) fn cuda_forward(
        &self,
        s: &CudaStorage,
        l: &Layout,
        inner: usize,
    ) -> Result<CudaStorage> {
        fn run<T: Element>(pool: &Pool, s: &CudaStorage, l: &Layout, inner: usize) -> Result<CudaStorage> {
            let [h, w, oh, ow, kernel, stride, padding, inner] = pool.parameters(inner)?;
            let device = s.device();
            let x = elements::<T>(s, l)?;
            let len = pool.planes.iter().chain(&pool.output()).product();
            let mut y = device.alloc_zeros::<T>(len)?;
            launch!(device, MAX_POOL::"max_pool_forward", T, len;
                &x, &mut y, &h, &w, &oh, &ow, &kernel, &stride, &padding, &inner);
            Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
        }
        by_any_type!(s, "max_pool2d", run(self, s, l, inner))
    }

    /// The gradient of x, from x and that of y.
    pub(in crate::ops) fn cuda_backward(
        &self,
        (s, l): (&CudaStorage, &Layout),
        (grad, grad_layout): (&CudaStorage, &Layout),
        inner: usize,
    ) -> Result<CudaStorage> {
        fn run<T: Element>(
            pool: &Pool,
            (s, l): (&CudaStorage, &Layout),
            (grad, grad_layout): (&CudaStorage, &Layout),
            inner: usize,
        ) -> Result<CudaStorage> {
            let [h, w, oh, ow, kernel, stride, padding, inner] = pool.parameters(inner)?;
            let device = s.device();
            let (x, dy) = (elements::<T>(s, l)?, elements::<T>(grad, grad_layout)?);
            let len = l.shape().elem_count();
            let mut dx = device.alloc_zeros::<T>(len)?;
            launch!(device, MAX_POOL::"max_pool_backward", T, len;
                &x, &dy, &mut dx, &h, &w, &oh, &ow, &kernel, &stride, &padding, &inner);
            Ok(CudaStorage::wrap_cuda_slice(dx, device.clone()))
        }
        by_any_type!(s, "max_pool2d", run(self, (s, l), (grad, grad_layout), inner))
    }
}
