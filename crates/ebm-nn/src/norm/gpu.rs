//! Batch norm in training on a GPU: (N, C, …), with a residual and ReLU in the same pass. The statistics stay on the device.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, CustomOp3, DType, InplaceOp2, Layout, Result, Shape, Storage, Tensor,
    bail,
};

use crate::ops::cuda::{Element, by_any_type, by_type, elements, elements_mut, launch, sizes, tensor};
use crate::resnet::relu_gradient;

type Argument<'a> = (&'a CudaStorage, &'a Layout);

/// Threads of a block of `moments.cu`.
const THREADS: usize = 256;
/// Numbers of a channel that a block adds up at least.
const SHARE: usize = 1 << 13;
/// Most shares of a channel.
const SHARES: usize = 64;

/// y of x (N, C, …), and the batch's mean and biased variance, each (C) in f64; `affine` are γ and β (C), `residual` is of x's shape.
pub(super) fn fused(
    x: &Tensor,
    affine: [&Tensor; 2],
    residual: Option<&Tensor>,
    relu: bool,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = x.contiguous()?;
    let stats = sums(&x.detach(), None, eps)?;
    let op = Normalise { stats: stats.clone(), relu, eps };
    let affine = Tensor::stack(&affine, 0)?.contiguous()?;
    let y = match residual {
        Some(residual) => x.apply_op3(&affine, &residual.contiguous()?, op)?,
        None => x.apply_op2(&affine, op)?,
    };
    Ok((y, stats.get(0)?, stats.get(1)?))
}

/// Σ g of each channel of g (N, C, …), in one order: (C) in f64.
pub(crate) fn channel_sums(g: &Tensor) -> Result<Tensor> {
    let [_, channels, _] = extents(g.shape());
    let stats = Tensor::zeros((2, channels), DType::F64, g.device())?;
    sums(g, Some((g, &stats)), 1.0)?.get(0)
}

/// The sizes of (N, C, …): images, channels, numbers of a plane.
fn extents(shape: &Shape) -> [usize; 3] {
    let dims = shape.dims();
    [dims[0], dims[1], dims[2..].iter().product()]
}

/// (mean, biased variance) of each channel, or with a gradient and these as `stats`, (Σ g, Σ g·x̂): (2, C) in f64.
fn sums(x: &Tensor, with: Option<(&Tensor, &Tensor)>, eps: f64) -> Result<Tensor> {
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

/// Moves a running statistic in place towards `factor` times the batch's, which is in f64.
pub(super) struct Move {
    pub momentum: f64,
    pub factor: f64,
}

impl InplaceOp2 for Move {
    fn name(&self) -> &'static str {
        "batch-norm-move"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<()> {
        bail!("this form of batch norm runs on a GPU only")
    }

    fn cuda_fwd(
        &self,
        running: &mut CudaStorage,
        lr: &Layout,
        batch: &CudaStorage,
        lb: &Layout,
    ) -> Result<()> {
        fn run<T: Element>(
            op: &Move,
            running: &mut CudaStorage,
            layout: &Layout,
            batch: Argument<'_>,
        ) -> Result<()> {
            let (batch, device) = (elements::<f64>(batch.0, batch.1)?, running.device().clone());
            let len = layout.shape().elem_count();
            let mut running = elements_mut::<T>(running, layout)?;
            launch!(device, BATCH_NORM::"norm_move", T, len; &mut running, &batch, &op.momentum, &op.factor);
            Ok(())
        }
        by_type!(running, "batch-norm", run(self, running, lr, (batch, lb)))
    }
}

fn on_gpu(storage: &Storage) -> Result<&CudaStorage> {
    match storage {
        Storage::Cuda(storage) => Ok(storage),
        _ => bail!("batch-norm: all tensors must be on one device"),
    }
}

/// y = γ (x − mean)/√(variance + ε) + β, plus the residual, if any, cut off at 0 with `relu`.
struct Normalise {
    /// (2, C): means and biased variances, in f64.
    stats: Tensor,
    relu: bool,
    eps: f64,
}

impl Normalise {
    fn forward(
        &self,
        x: Argument<'_>,
        affine: Argument<'_>,
        residual: Option<Argument<'_>>,
    ) -> Result<(CudaStorage, Shape)> {
        fn run<T: Element>(
            op: &Normalise,
            x: Argument<'_>,
            affine: Argument<'_>,
            residual: Option<Argument<'_>>,
        ) -> Result<CudaStorage> {
            let [_, channels, plane] = extents(x.1.shape());
            let stats = op.stats.storage_and_layout();
            let stats = elements::<f64>(on_gpu(&stats.0)?, stats.1)?;
            let (device, len) = (x.0.device(), x.1.shape().elem_count());
            let (has_residual, relu) = (i32::from(residual.is_some()), i32::from(op.relu));
            let (residual, residual_layout) = residual.unwrap_or(x);
            let residual = elements::<T>(residual, residual_layout)?;
            let (x, affine) = (elements::<T>(x.0, x.1)?, elements::<T::Wide>(affine.0, affine.1)?);
            let [c, p] = sizes([channels, plane])?;
            let mut y = device.alloc_zeros::<T>(len)?;
            launch!(device, BATCH_NORM::"norm_forward", T, len;
                &x, &affine, &residual, &stats, &mut y, &has_residual, &relu, &c, &p, &op.eps);
            Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
        }
        Ok((by_any_type!(x.0, "batch-norm", run(self, x, affine, residual))?, x.1.shape().clone()))
    }

    /// The gradients in x, in (γ, β) and in a residual, from that of y.
    fn backward(&self, x: &Tensor, affine: &Tensor, y: &Tensor, g: &Tensor) -> Result<[Option<Tensor>; 3]> {
        let g = g.contiguous()?;
        let g = if self.relu { relu_gradient(&g, y)? } else { g };
        let sums = sums(&x.detach(), Some((&g, &self.stats)), self.eps)?;
        let dx = x.track_op().then(|| self.input_gradient(x, affine, &sums, &g)).transpose()?;
        // γ meets Σ g·x̂, and β Σ g.
        let d_affine = || Tensor::stack(&[sums.get(1)?, sums.get(0)?], 0)?.to_dtype(affine.dtype());
        Ok([dx, affine.track_op().then(d_affine).transpose()?, Some(g)])
    }

    fn input_gradient(&self, x: &Tensor, affine: &Tensor, sums: &Tensor, g: &Tensor) -> Result<Tensor> {
        fn run<T: Element>(x: Argument<'_>, rest: [Argument<'_>; 4], eps: f64) -> Result<CudaStorage> {
            let [images, channels, plane] = extents(x.1.shape());
            let (device, len) = (x.0.device(), x.1.shape().elem_count());
            let [g, affine, stats, sums] = rest;
            let (x, g) = (elements::<T>(x.0, x.1)?, elements::<T>(g.0, g.1)?);
            let (affine, stats) =
                (elements::<T::Wide>(affine.0, affine.1)?, elements::<f64>(stats.0, stats.1)?);
            let (sums, total) = (elements::<f64>(sums.0, sums.1)?, (images * plane) as f64);
            let [c, p] = sizes([channels, plane])?;
            let mut dx = device.alloc_zeros::<T>(len)?;
            launch!(device, BATCH_NORM::"norm_backward", T, len;
                &x, &g, &affine, &stats, &sums, &mut dx, &c, &p, &total, &eps);
            Ok(CudaStorage::wrap_cuda_slice(dx, device.clone()))
        }
        let all = [x, g, affine, &self.stats, sums].map(Tensor::storage_and_layout);
        let [input, g, affine, stats, sums] = &all;
        let input = (on_gpu(&input.0)?, input.1);
        let rest = [
            (on_gpu(&g.0)?, g.1),
            (on_gpu(&affine.0)?, affine.1),
            (on_gpu(&stats.0)?, stats.1),
            (on_gpu(&sums.0)?, sums.1),
        ];
        let found = by_any_type!(input.0, "batch-norm", run(input, rest, self.eps))?;
        Ok(tensor(found, x.shape()))
    }
}

impl CustomOp2 for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("this form of batch norm runs on a GPU only")
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        lx: &Layout,
        affine: &CudaStorage,
        la: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.forward((x, lx), (affine, la), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [dx, d_affine, _] = self.backward(x, affine, y, g)?;
        Ok((dx, d_affine))
    }
}

impl CustomOp3 for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm-residual"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("this form of batch norm runs on a GPU only")
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        lx: &Layout,
        affine: &CudaStorage,
        la: &Layout,
        residual: &CudaStorage,
        lr: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.forward((x, lx), (affine, la), Some((residual, lr)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        residual: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dx, d_affine, d_residual] = self.backward(x, affine, y, g)?;
        Ok((dx, d_affine, d_residual.filter(|_| residual.track_op())))
    }
}
