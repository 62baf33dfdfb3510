//! Sums of each channel over rows of channels (…, C) on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, DType, Result, Shape, Storage, Tensor, bail};

use crate::cuda::{Argument, Element, by_any_type, elements, launch, sizes, tensor, unwritten};

/// Threads of a block of `moments.cu`, and the channels that it adds up.
const THREADS: usize = 256;
const ACROSS: usize = 32;
/// Rows that a block adds up at least, unless there are fewer.
const ROWS: usize = 1 << 8;
/// Most shares of the rows.
const SHARES: usize = 1 << 8;

/// Σ g of each channel of g (…, C), in one order: (C) in f64.
pub(crate) fn channel_sums(g: &Tensor) -> Result<Tensor> {
    let [_, channels] = extents(g.shape());
    let stats = Tensor::zeros((2, channels), DType::F64, g.device())?;
    sums(g, Some((g, &stats)), 1.0)?.get(1)
}

/// The sizes of (…, C): rows, and channels.
pub(crate) fn extents(shape: &Shape) -> [usize; 2] {
    let channels = shape.dims().last().copied().unwrap_or(1);
    [shape.elem_count() / channels.max(1), channels]
}

/// (mean, biased variance) of each channel, or with a gradient and these as `stats`, (Σ g·x̂, Σ g): (2, C) in
/// f64.
pub(crate) fn sums(x: &Tensor, with: Option<(&Tensor, &Tensor)>, eps: f64) -> Result<Tensor> {
    fn run<T: Element>(
        x: Argument<'_>,
        grad: Option<Argument<'_>>,
        stats: Option<Argument<'_>>,
        eps: f64,
    ) -> Result<CudaStorage> {
        let [rows, channels] = extents(x.1.shape());
        let num_shares = rows.div_ceil(ROWS).clamp(1, SHARES);
        let device = x.0.device();
        let mut shares = unwritten::<f64>(device, 2 * num_shares * channels)?;
        let mut sums = unwritten::<f64>(device, 2 * channels)?;
        let none = unwritten::<f64>(device, 1)?;
        let stats = match stats {
            Some((s, l)) => elements::<f64>(s, l)?,
            None => none.slice(..),
        };
        let (numbers, has_grad) = (elements::<T>(x.0, x.1)?, i32::from(grad.is_some()));
        let grad = match grad {
            Some((s, l)) => elements::<T>(s, l)?,
            None => elements::<T>(x.0, x.1)?,
        };
        let ([n, c, k], groups) = (sizes([rows, channels, num_shares])?, channels.div_ceil(ACROSS));
        launch!(device, MOMENTS::"norm_partial", T, num_shares * groups * THREADS;
            &numbers, &grad, &stats, &mut shares, &has_grad, &n, &c, &k);
        let (moments, total) = (1 - has_grad, rows as f64);
        launch!(device, MOMENTS::"norm_gather", f64, groups * THREADS;
            &shares, &stats, &mut sums, &moments, &c, &k, &total, &eps);
        Ok(CudaStorage::wrap_cuda_slice(sums, device.clone()))
    }
    let [_, channels] = extents(x.shape());
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
