//! Batch normalisation in training on a GPU of rows of channels (…, C), with a residual and ReLU in the same pass. The
//! statistics stay on the device.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, InplaceOp2, Layout, Result, Shape, Storage, Tensor, bail};

use super::{Fused, NormEpilogue};
use crate::channel_sums::{Sums, extents};
use crate::cuda::{
    self, Argument, Made, by_any_type, by_type, elements, elements_mut, launch, made, parameters, sizes,
    threads_by_channel,
};
use crate::kernel::{Apply, Gradients, Kernel};
use crate::{Activation, relu_gradient};

/// Returns y of x (…, C), and the batch's mean and biased variance, each (C) in f64. `affine` are γ and β (C). The caller
/// applies any activation other than ReLU.
pub(super) fn fused<'a>(
    x: &Tensor,
    affine: [&Tensor; 2],
    epilogue: NormEpilogue<'a>,
    eps: f64,
) -> Result<Fused<'a>> {
    let NormEpilogue { residual, activation, slope } = epilogue;
    let relu = activation == Activation::Relu && slope.is_none();
    let rest = if relu { NormEpilogue::default() } else { NormEpilogue { residual: None, ..epilogue } };
    let x = x.contiguous()?;
    let stats = Sums { eps }.run([&x])?;
    let op = Normalise { stats: stats.clone(), relu, eps };
    let affine = Pair.apply(affine)?;
    let y = match residual {
        Some(residual) => op.apply([&x, &affine, residual])?,
        None => op.apply([&x, &affine])?,
    };
    Ok(((y, stats.get(0)?, stats.get(1)?), rest))
}

/// Moves a running statistic in place towards `factor` times the batch's statistic, which is in f64.
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
        let (batch, device, len) =
            (elements::<f64>((batch, lb))?, running.device().clone(), lr.shape().elem_count());
        by_type!((&*running, lr), "batch-norm", T => {
            let mut running = elements_mut::<T>(running, lr)?;
            launch!(device, BATCH_NORM::"norm_move", T, len; &mut running, &batch, &self.momentum, &self.factor);
            Ok(())
        })
    }
}

/// Kernel that joins γ and β, each (C), to one tensor (2, C), because candle's operations take three tensors at most.
struct Pair;

impl Kernel<2> for Pair {
    const NAME: &'static str = "batch-norm";

    fn shape(&self, [weight, _]: [&Shape; 2]) -> Result<Shape> {
        Ok(Shape::from((2, weight.elem_count())))
    }

    fn cuda(&self, [weight, bias]: [Argument<'_>; 2]) -> Made {
        let (device, channels) = (cuda::device(weight), cuda::len(weight));
        let [c] = sizes([channels])?;
        by_type!(weight, "batch-norm", T => {
            let (weight, bias) = (elements::<T>(weight)?, elements::<T>(bias)?);
            made!(device, BATCH_NORM::"norm_pair", T, 2 * channels => 2 * channels; &weight, &bias; &c)
        })
    }

    fn gradients(&self, _: [&Tensor; 2], _: &Tensor, g: &Tensor) -> Gradients<2> {
        Ok([Some(g.get(0)?), Some(g.get(1)?)])
    }
}

/// Kernel y = γ (x − mean)/√(variance + ε) + β, plus the residual, if any, with ReLU if `relu`.
struct Normalise {
    /// Means and biased variances, (2, C) in f64.
    stats: Tensor,
    relu: bool,
    eps: f64,
}

impl<const N: usize> Kernel<N> for Normalise {
    const NAME: &'static str = "batch-norm";

    fn cuda(&self, arguments: [Argument<'_>; N]) -> Made {
        let (x, affine, residual) = (arguments[0], arguments[1], arguments.get(2).copied());
        let ([_, channels], len, device) = (extents(x.1.shape()), cuda::len(x), cuda::device(x));
        let stats = self.stats.storage_and_layout();
        let Storage::Cuda(storage) = &*stats.0 else {
            bail!("batch-norm: all tensors must be on one device")
        };
        let stats = elements::<f64>((storage, stats.1))?;
        let (has_residual, relu) = (i32::from(residual.is_some()), i32::from(self.relu));
        let [c, n] = sizes([channels, len])?;
        by_any_type!(x, "batch-norm", T => {
            let residual = elements::<T>(residual.unwrap_or(x))?;
            let (x, affine) = (elements::<T>(x)?, parameters::<T>(affine)?);
            made!(device, BATCH_NORM::"norm_forward", T, threads_by_channel(len, channels) => len;
                &x, &affine, &residual, &stats; &has_residual, &relu, &c, &n, &self.eps)
        })
    }

    /// Returns the gradients in x, in (γ, β) and in a residual.
    fn gradients(&self, arguments: [&Tensor; N], y: &Tensor, g: &Tensor) -> Gradients<N> {
        let (x, affine) = (arguments[0], arguments[1]);
        let g = if self.relu { relu_gradient(g, y)? } else { g.contiguous()? };
        let sums = Sums { eps: self.eps }.run([x, &g, &self.stats])?;
        let mut gradients = std::array::from_fn(|i| arguments[i].track_op().then(|| g.clone()));
        if x.track_op() {
            let op = InputGradient { eps: self.eps };
            gradients[0] = Some(op.run([x, &g, affine, &self.stats, &sums])?);
        }
        // The gradient in γ is Σ g·x̂, and in β Σ g.
        gradients[1] = affine.track_op().then(|| sums.to_dtype(affine.dtype())).transpose()?;
        Ok(gradients)
    }
}

/// Kernel `(x, g, (γ, β), statistics, sums) -> dx`.
struct InputGradient {
    eps: f64,
}

impl Kernel<5> for InputGradient {
    const NAME: &'static str = "batch-norm";

    fn cuda(&self, [x, g, affine, stats, sums]: [Argument<'_>; 5]) -> Made {
        let ([rows, channels], len, device) = (extents(x.1.shape()), cuda::len(x), cuda::device(x));
        let (stats, sums, total) = (elements::<f64>(stats)?, elements::<f64>(sums)?, rows as f64);
        let [c, n] = sizes([channels, len])?;
        by_any_type!(x, "batch-norm", T => {
            let (x, g, affine) = (elements::<T>(x)?, elements::<T>(g)?, parameters::<T>(affine)?);
            made!(device, BATCH_NORM::"norm_backward", T, threads_by_channel(len, channels) => len;
                &x, &g, &affine, &stats, &sums; &c, &n, &total, &self.eps)
        })
    }
}
