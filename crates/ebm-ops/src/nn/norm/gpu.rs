//! Batch norm in training on a GPU of rows of channels (…, C), with a residual and ReLU in the same pass. The
//! statistics stay on the device.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, InplaceOp2, Layout, Result, Shape, Tensor, bail};

use super::{Following, Fused};
use crate::channel_sums::{extents, on_gpu, sums};
use crate::cuda::{
    Argument, Element, by_any_type, by_type, elements, elements_mut, launch, sizes, threads_by_channel,
    unwritten,
};
use crate::kernel::{Apply, Kernel};
use crate::{Activation, relu_gradient};

/// y of x (…, C), and the batch's mean and biased variance, each (C) in f64; `affine` are γ and β (C). All but
/// ReLU is left.
pub(super) fn fused<'a>(
    x: &Tensor,
    affine: [&Tensor; 2],
    following: Following<'a>,
    eps: f64,
) -> Result<Fused<'a>> {
    let Following { residual, activation, slope } = following;
    let relu = activation == Activation::Relu && slope.is_none();
    let rest = if relu { Following::default() } else { Following { residual: None, ..following } };
    let x = x.contiguous()?;
    let stats = sums(&x.detach(), None, eps)?;
    let op = Normalise { stats: stats.clone(), relu, eps };
    let affine = Pair.apply(affine)?;
    let y = match residual {
        Some(residual) => op.apply([&x, &affine, residual])?,
        None => op.apply([&x, &affine])?,
    };
    Ok(((y, stats.get(0)?, stats.get(1)?), rest))
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

/// (γ, β), each (C), as one tensor (2, C): candle's operations take three at most.
struct Pair;

impl Kernel<2> for Pair {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn shape(&self, [weight, _]: [&Shape; 2]) -> Result<Shape> {
        Ok(Shape::from((2, weight.elem_count())))
    }

    fn cuda(&self, [weight, bias]: [Argument<'_>; 2]) -> Result<CudaStorage> {
        fn run<T: Element>(weight: Argument<'_>, bias: Argument<'_>) -> Result<CudaStorage> {
            let (device, channels) = (weight.0.device(), weight.1.shape().elem_count());
            let (weight, bias) = (elements::<T>(weight.0, weight.1)?, elements::<T>(bias.0, bias.1)?);
            let ([c], mut affine) = (sizes([channels])?, unwritten::<T>(device, 2 * channels)?);
            launch!(device, BATCH_NORM::"norm_pair", T, 2 * channels; &weight, &bias, &mut affine, &c);
            Ok(CudaStorage::wrap_cuda_slice(affine, device.clone()))
        }
        by_type!(weight.0, "batch-norm", run(weight, bias))
    }

    fn gradients(&self, _: [&Tensor; 2], _: &Tensor, g: &Tensor) -> Result<[Option<Tensor>; 2]> {
        Ok([Some(g.get(0)?), Some(g.get(1)?)])
    }
}

/// y = γ (x − mean)/√(variance + ε) + β, plus the residual, if any, cut off at 0 with `relu`.
struct Normalise {
    /// (2, C): means and biased variances, in f64.
    stats: Tensor,
    relu: bool,
    eps: f64,
}

impl<const N: usize> Kernel<N> for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn shape(&self, arguments: [&Shape; N]) -> Result<Shape> {
        Ok(arguments[0].clone())
    }

    fn cuda(&self, arguments: [Argument<'_>; N]) -> Result<CudaStorage> {
        fn run<T: Element>(
            op: &Normalise,
            x: Argument<'_>,
            affine: Argument<'_>,
            residual: Option<Argument<'_>>,
        ) -> Result<CudaStorage> {
            let [_, channels] = extents(x.1.shape());
            let stats = op.stats.storage_and_layout();
            let stats = elements::<f64>(on_gpu(&stats.0)?, stats.1)?;
            let (device, len) = (x.0.device(), x.1.shape().elem_count());
            let (has_residual, relu) = (i32::from(residual.is_some()), i32::from(op.relu));
            let (residual, residual_layout) = residual.unwrap_or(x);
            let residual = elements::<T>(residual, residual_layout)?;
            let (x, affine) = (elements::<T>(x.0, x.1)?, elements::<T::Wide>(affine.0, affine.1)?);
            let [c, n] = sizes([channels, len])?;
            let mut y = unwritten::<T>(device, len)?;
            launch!(device, BATCH_NORM::"norm_forward", T, threads_by_channel(len, channels);
                &x, &affine, &residual, &stats, &mut y, &has_residual, &relu, &c, &n, &op.eps);
            Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
        }
        let (x, affine, residual) = (arguments[0], arguments[1], arguments.get(2).copied());
        by_any_type!(x.0, "batch-norm", run(self, x, affine, residual))
    }

    /// Those in x, in (γ, β) and in a residual.
    fn gradients(&self, arguments: [&Tensor; N], y: &Tensor, g: &Tensor) -> Result<[Option<Tensor>; N]> {
        let (x, affine) = (arguments[0], arguments[1]);
        let g = if self.relu { relu_gradient(g, y)? } else { g.contiguous()? };
        let sums = sums(&x.detach(), Some((&g, &self.stats)), self.eps)?;
        let mut gradients = std::array::from_fn(|i| arguments[i].track_op().then(|| g.clone()));
        if x.track_op() {
            let op = InputGradient { eps: self.eps };
            gradients[0] = Some(op.run([x, &g, affine, &self.stats, &sums])?);
        }
        // γ meets Σ g·x̂, and β Σ g.
        gradients[1] = affine.track_op().then(|| sums.to_dtype(affine.dtype())).transpose()?;
        Ok(gradients)
    }
}

/// `(x, g, (γ, β), statistics, sums) -> dx`.
struct InputGradient {
    eps: f64,
}

impl Kernel<5> for InputGradient {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn shape(&self, arguments: [&Shape; 5]) -> Result<Shape> {
        Ok(arguments[0].clone())
    }

    fn cuda(&self, arguments: [Argument<'_>; 5]) -> Result<CudaStorage> {
        fn run<T: Element>([x, g, affine, stats, sums]: [Argument<'_>; 5], eps: f64) -> Result<CudaStorage> {
            let [rows, channels] = extents(x.1.shape());
            let (device, len) = (x.0.device(), x.1.shape().elem_count());
            let (x, g) = (elements::<T>(x.0, x.1)?, elements::<T>(g.0, g.1)?);
            let (affine, stats) =
                (elements::<T::Wide>(affine.0, affine.1)?, elements::<f64>(stats.0, stats.1)?);
            let (sums, total) = (elements::<f64>(sums.0, sums.1)?, rows as f64);
            let [c, n] = sizes([channels, len])?;
            let mut dx = unwritten::<T>(device, len)?;
            launch!(device, BATCH_NORM::"norm_backward", T, threads_by_channel(len, channels);
                &x, &g, &affine, &stats, &sums, &mut dx, &c, &n, &total, &eps);
            Ok(CudaStorage::wrap_cuda_slice(dx, device.clone()))
        }
        by_any_type!(arguments[0].0, "batch-norm", run(arguments, self.eps))
    }
}
