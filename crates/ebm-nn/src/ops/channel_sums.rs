//! Sums over the channels of a map on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{CudaStorage, DType, Result, Shape, Storage, Tensor, bail};

use crate::cuda::{Argument, Element, by_any_type, elements, launch, sizes, tensor};

/// Threads of a block of `moments.cu`.
const THREADS: usize = 256;
/// Numbers of a channel that a block adds up at least.
const SHARE: usize = 1 << 13;
/// Most shares of a channel.
const SHARES: usize = 64;

/// Σ g of each channel of g (N, C, …), in one order: (C) in f64.
pub(in crate::ops) fn channel_sums(g: &Tensor) -> Result<Tensor> {
    let [_, channels, _] = extents(g.shape());
    let stats = Tensor::zeros((2, channels), DType::F64, g.device())?;
    sums(g, Some((g, &stats)), 1.0)?.get(0)
}

/// The sizes of (N, C, …): images, channels, numbers of a plane.
pub(crate) fn extents(shape: &Shape) -> [usize; 3] {
    let dims = shape.dims();
    [dims[0], dims[1], dims[2..].iter().product()]
}

/// (mean, biased variance) of each channel, or with a gradient and these as `stats`, (Σ g, Σ g·x̂): (2, C) in f64.
pub(crate) fn sums(x: &Tensor, with: Option<(&Tensor, &Tensor)>, eps: f64) -> Result<Tensor> {
    fn run<T: Element>(
        x: Argument<'_>,
        grad: Option<Argument<'_>>,
        stats: Option<Argument<'_>>,
        eps: f64,
    ) -> Result<CudaStorage> {
        let [images, channels, plane] = extents(x.1.shape());
        let total = images * plane;
        let num_shares = total.div_ceil(SHARE).clamp(1, SHARES);
        let device = x.0.device();
        let mut shares = device.alloc_zeros::<f64>(2 * num_shares * channels)?;
        let mut sums = device.alloc_zeros::<f64>(2 * channels)?;
        let none: CudaSlice<f64> = device.alloc_zeros::<f64>(1)?;
        let stats = match stats {
            Some((s, l)) => elements::<f64>(s, l)?,
            None => none.slice(..),
        };
        let (numbers, has_grad) = (elements::<T>(x.0, x.1)?, i32::from(grad.is_some()));
        let grad = match grad {
            Some((s, l)) => elements::<T>(s, l)?,
            None => elements::<T>(x.0, x.1)?,
        };
        let [n, c, p, k] = sizes([images, channels, plane, num_shares])?;
        launch!(device, MOMENTS::"norm_partial", T, num_shares * channels * THREADS;
            &numbers, &grad, &stats, &mut shares, &has_grad, &n, &c, &p, &k);
        let (moments, total) = (1 - has_grad, total as f64);
        launch!(device, BATCH_NORM::"norm_gather", f64, channels;
            &shares, &stats, &mut sums, &moments, &c, &k, &total, &eps);
        Ok(CudaStorage::wrap_cuda_slice(sums, device.clone()))
    }
    let [_, channels, _] = extents(x.shape());
    let (x, grad, stats) = (
        x.storage_and_layout(),
        with.map(|(g, _)| g.storage_and_layout()),
        with.map(|(_, s)| s.storage_and_layout()),
    );
    let found = {
        let x = (on_gpu(&x.0)?, x.1);
        let grad = grad.as_ref().map(|g| Ok::<_, candle_core::Error>((on_gpu(&g.0)?, g.1))).transpose()?;
        let stats = stats.as_ref().map(|s| Ok::<_, candle_core::Error>((on_gpu(&s.0)?, s.1))).transpose()?;
        by_any_type!(x.0, "batch-norm", run(x, grad, stats, eps))?
    };
    Ok(tensor(found, (2, channels)))
}

/// The storage of a tensor on a GPU.
pub(crate) fn on_gpu(storage: &Storage) -> Result<&CudaStorage> {
    match storage {
        Storage::Cuda(storage) => Ok(storage),
        _ => bail!("batch-norm: all tensors must be on one device"),
    }
}
