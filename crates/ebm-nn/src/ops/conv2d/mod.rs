//! Two-dimensional convolution with gradients for every size.

mod cpu;
mod geometry;
mod im2col;
mod packed;
#[cfg(test)]
mod tests;

use candle_core::{
    CpuStorage, CustomOp2, CustomOp3, DType, Layout, Result as CandleResult, Shape, Tensor, WithDType,
};

use super::storage::{Float, elements};
use crate::{Error, Result};
use geometry::Geometry;
pub use packed::PackedConv2d;

/// Convolution `y[n, o, i, j] = bias[o] + Σ_{c, u, v} w[o, c, u, v] · x[n, c, i·stride + u - padding,
/// j·stride + v - padding]`, where x is zero outside the image.
///
/// x `(N, C, H, W)`, w `(O, C, kh, kw)`, bias `(O)` give y `(N, O, ⌊(H + 2·padding - kh) / stride⌋ + 1, …)`,
/// all f32 or all f64 on one device. Differentiable in x, w and bias; arguments that depend on no variable
/// cost nothing in the backward pass. On the CPU the result has the same bits for every number of threads.
/// Elsewhere it is candle's convolution, whose gradient fails where a strided map's height and width leave
/// different remainders.
///
/// # Errors
/// [`Error::Argument`] where a rank or size does not fit, an extent (the batch included) is zero, the stride
/// is zero, or the kernel exceeds the padded image.
pub fn conv2d(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: usize,
) -> Result<Tensor> {
    let geometry = check(x, w, bias, stride, padding)?;
    if !x.device().is_cpu() {
        let y = x.conv2d(w, padding, stride, 1, 1)?;
        return Ok(match bias {
            Some(bias) => y.broadcast_add(&bias.reshape((1, geometry.filters, 1, 1))?)?,
            None => y,
        });
    }
    let (x, w, op) = (x.contiguous()?, w.contiguous()?, Conv2d(geometry));
    Ok(match bias {
        Some(bias) => x.apply_op3(&w, &bias.contiguous()?, op)?,
        None => x.apply_op2(&w, op)?,
    })
}

fn check(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Result<Geometry> {
    let refuse = |reason: String| Err(Error::Argument { op: "conv2d", reason });
    let (&[batch, channels, height, width], &[filters, w_channels, kernel_h, kernel_w]) =
        (x.dims(), w.dims())
    else {
        return refuse(format!(
            "expected x (N, C, H, W) and w (O, C, kh, kw), got {:?} and {:?}",
            x.dims(),
            w.dims()
        ));
    };
    if channels != w_channels {
        return refuse(format!("x has {channels} channels, w expects {w_channels}"));
    }
    if let Some(bias) = bias
        && bias.dims() != [filters]
    {
        return refuse(format!("expected a bias ({filters}), got {:?}", bias.dims()));
    }
    if x.elem_count() == 0 || w.elem_count() == 0 {
        return refuse(format!("x {:?} and w {:?} must have no zero extent", x.dims(), w.dims()));
    }
    if stride == 0 {
        return refuse("the stride must be positive".into());
    }
    let room = |size: usize, kernel: usize| {
        padding.checked_mul(2).and_then(|p| p.checked_add(size)).is_some_and(|size| size >= kernel)
    };
    if !room(height, kernel_h) || !room(width, kernel_w) {
        return refuse(format!(
            "a kernel of {kernel_h} x {kernel_w} does not fit {height} x {width} with padding {padding}"
        ));
    }
    for (name, other) in [("w", Some(w)), ("bias", bias)] {
        let Some(other) = other else { continue };
        if other.dtype() != x.dtype() || !other.device().same_device(x.device()) {
            return refuse(format!(
                "x is {:?} on {:?}, {name} is {:?} on {:?}",
                x.dtype(),
                x.device().location(),
                other.dtype(),
                other.device().location()
            ));
        }
    }
    if x.device().is_cpu() && !matches!(x.dtype(), DType::F32 | DType::F64) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    let kernel = [kernel_h, kernel_w];
    Ok(Geometry { batch, channels, height, width, filters, kernel, stride, padding: [padding; 2] })
}

/// The convolution of x and w, and with a third argument, the bias.
struct Conv2d(Geometry);

impl Conv2d {
    fn cpu<T: Float>(
        &self,
        x: (&CpuStorage, &Layout),
        w: (&CpuStorage, &Layout),
        bias: Option<(&CpuStorage, &Layout)>,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let g = &self.0;
        let bias = bias.map(|(s, l)| elements::<T>(s, l)).transpose()?;
        let y = cpu::forward(elements::<T>(x.0, x.1)?, elements::<T>(w.0, w.1)?, bias, g)?;
        let [height, width] = g.output();
        Ok((T::to_cpu_storage_owned(y), Shape::from((g.batch, g.filters, height, width))))
    }

    fn gradients(
        &self,
        x: &Tensor,
        w: &Tensor,
        grad: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>)> {
        let dx = x.track_op().then(|| w.apply_op2_no_bwd(grad, &InputGradient(self.0))).transpose()?;
        let dw = w.track_op().then(|| x.apply_op2_no_bwd(grad, &WeightGradient(self.0))).transpose()?;
        Ok((dx, dw))
    }
}

impl CustomOp2 for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        match s1 {
            CpuStorage::F64(_) => self.cpu::<f64>((s1, l1), (s2, l2), None),
            _ => self.cpu::<f32>((s1, l1), (s2, l2), None),
        }
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>)> {
        self.gradients(x, w, &grad.contiguous()?)
    }
}

impl CustomOp3 for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d with bias"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        match s1 {
            CpuStorage::F64(_) => self.cpu::<f64>((s1, l1), (s2, l2), Some((s3, l3))),
            _ => self.cpu::<f32>((s1, l1), (s2, l2), Some((s3, l3))),
        }
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let (dx, dw) = self.gradients(x, w, &grad)?;
        let db = bias.track_op().then(|| grad.flatten_from(2)?.sum(2)?.sum(0)).transpose()?;
        Ok((dx, dw, db))
    }
}

/// `(w, gradient of y) -> gradient of x`.
struct InputGradient(Geometry);

impl CustomOp2 for InputGradient {
    fn name(&self) -> &'static str {
        "conv2d input gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let g = &self.0;
        let dx = match s1 {
            CpuStorage::F64(_) => {
                f64::to_cpu_storage_owned(cpu::input_gradient(elements(s1, l1)?, elements(s2, l2)?, g)?)
            }
            _ => f32::to_cpu_storage_owned(cpu::input_gradient(elements(s1, l1)?, elements(s2, l2)?, g)?),
        };
        Ok((dx, Shape::from((g.batch, g.channels, g.height, g.width))))
    }
}

/// `(x, gradient of y) -> gradient of w`.
struct WeightGradient(Geometry);

impl CustomOp2 for WeightGradient {
    fn name(&self) -> &'static str {
        "conv2d weight gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let g = &self.0;
        let dw = match s1 {
            CpuStorage::F64(_) => {
                f64::to_cpu_storage_owned(cpu::weight_gradient(elements(s1, l1)?, elements(s2, l2)?, g)?)
            }
            _ => f32::to_cpu_storage_owned(cpu::weight_gradient(elements(s1, l1)?, elements(s2, l2)?, g)?),
        };
        Ok((dw, Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1]))))
    }
}
