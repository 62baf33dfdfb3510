//! Two-dimensional convolution with gradients for every size.
//!
//! | file | contents |
//! |---|---|
//! | `op` | candle operations |
//! | `bias` | gradient in the bias |
//! | `packed` | f32: implicit products with packed weights, channels innermost |
//! | `cudnn` | on a GPU, channels innermost |
//! | `epilogue` | on a GPU: bias, residual and activation, in one pass |
//! | `columns` | products with the image's columns: f64, the reference for tests of the others, and GPUs without cuDNN |

mod bias;
mod columns;
#[cfg(feature = "cuda")]
mod cudnn;
#[cfg(feature = "cuda")]
mod epilogue;
mod geometry;
mod op;
mod packed;

use candle_core::{DType, Tensor};

#[cfg(feature = "cuda")]
pub(crate) use self::epilogue::epilogue;
use self::geometry::Geometry;
use self::op::{Conv2d, Made};
use crate::kernel::Apply;
use crate::layout::{channels_first, to_channels_last};
use crate::relu::Activation;
use crate::{Error, Result};
pub use packed::PackedConv2d;

/// Computes the convolution `y[n, o, i, j] = bias[o] + Σ_{c, u, v} w[o, c, u, v] · x[n, c, i·stride + u - padding, j·stride +
/// v - padding]`, where x is zero outside the image.
///
/// x `(N, C, H, W)`, w `(O, C, kh, kw)` and bias `(O)` give y `(N, O, ⌊(H + 2·padding - kh) / stride⌋ + 1, …)`. All are f32
/// or all f64, on one device. Or x and y are bf16 and the parameters f32: then the parameters are rounded, and sums are f32.
/// Differentiable in x, w and bias. In f32, arguments that depend on no variable cost nothing in the backward pass. In f32 on
/// the CPU, the result has the same bits for every number of threads. An NVIDIA GPU uses cuDNN if that library is found, and
/// a product with the image's columns otherwise.
///
/// # Errors
/// [`Error::Argument`] if a rank or size does not fit, an extent (the batch included) is zero, the stride is zero, or the
/// kernel exceeds the padded image.
pub fn conv2d(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: usize,
) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() && x.rank() == 4 {
        let innermost = to_channels_last(x)?;
        return Ok(conv2d_channels_last(&innermost, w, bias, stride, padding)?.permute((0, 3, 1, 2))?);
    }
    if x.dtype() == DType::BF16 {
        return of_bf16(x, w, bias, stride, padding);
    }
    let geometry = check(x, w, bias, stride, padding)?;
    if !is_served(x) {
        let y = columns::conv2d(x, w, &geometry)?;
        return Ok(match bias {
            Some(bias) => y.broadcast_add(&bias.reshape((1, geometry.filters, 1, 1))?)?,
            None => y,
        });
    }
    channels_first(&apply(&to_channels_last(x)?, w, bias, geometry)?)
}

/// Returns `true` if [`Conv2d`] serves maps of this kind.
fn is_served(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// Computes [`conv2d`] of maps in bf16, with parameters in f32 or rounded before.
fn of_bf16(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Result<Tensor> {
    let (w, wide) = (w.to_dtype(DType::BF16)?, DType::F32);
    let bias = bias.map(|bias| bias.to_dtype(wide)).transpose()?;
    let y = conv2d(&x.to_dtype(wide)?, &w.to_dtype(wide)?, bias.as_ref(), stride, padding)?;
    Ok(y.to_dtype(DType::BF16)?)
}

/// Computes [`conv2d_channels_last`] on a GPU without the bias: by cuDNN, or by a product with the image's columns. The
/// latter serves GPUs without cuDNN, and f64, which cuDNN has only in the other order. Parameters of maps in bf16 are f32.
#[cfg(feature = "cuda")]
fn product_on_gpu(x: &Tensor, w: &Tensor, stride: usize, padding: usize) -> Result<Tensor> {
    let view = if x.rank() == 4 { x.permute((0, 3, 1, 2))? } else { x.clone() };
    let (maps, wide) = (x.dtype(), if x.dtype() == DType::BF16 { DType::F32 } else { x.dtype() });
    let w = w.to_dtype(wide)?;
    let geometry = check(&view, &w, None, stride, padding)?;
    if maps != DType::F64 && crate::device::has_cudnn() {
        return cudnn::conv2d(x, &w, geometry);
    }
    let y = columns::conv2d(&view.to_dtype(wide)?, &w, &geometry)?;
    Ok(to_channels_last(&y)?.to_dtype(maps)?)
}

/// Returns a weight (O, C, kh, kw) in the order in which its device reads it, as a view of this shape.
pub(crate) fn in_order(w: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if w.device().is_cuda() && w.dtype() != DType::F64 && crate::device::has_cudnn() {
        return cudnn::innermost(w);
    }
    Ok(w.clone())
}

/// Computes [`conv2d_channels_last`], plus `residual`, of y's shape, then `activation`: a layer of a residual network. On a
/// GPU the operations after the product are one pass.
///
/// # Errors
/// The errors of [`conv2d`], and an error if the residual has another shape.
pub(crate) fn conv2d_layer(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: usize,
    residual: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if let Some(bias) = bias.filter(|_| x.device().is_cuda()) {
        let y = product_on_gpu(x, w, stride, padding)?;
        if let Some(residual) = residual.filter(|residual| residual.shape() != y.shape()) {
            let reason = format!("the result is {:?}, the residual {:?}", y.dims(), residual.dims());
            return Err(Error::Argument { op: "conv2d", reason });
        }
        let bias = bias.to_dtype(if y.dtype() == DType::BF16 { DType::F32 } else { y.dtype() })?;
        if bias.dims() != [y.dim(3)?] {
            let reason = format!("expected a bias ({}), got {:?}", y.dim(3)?, bias.dims());
            return Err(Error::Argument { op: "conv2d", reason });
        }
        return Ok(epilogue(&y, &bias, residual, activation)?);
    }
    activation.apply(&conv2d_channels_last(x, w, bias, stride, padding)?, residual)
}

/// Computes [`conv2d`] of maps with the channels innermost: x `(N, H, W, C)` gives y `(N, oh, ow, O)`, with the w and bias of
/// [`conv2d`]. On the CPU in f32, a chain of these saves the copies of `conv2d`, since its products run in this order.
///
/// # Errors
/// The errors of [`conv2d`].
pub fn conv2d_channels_last(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: usize,
) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return match bias {
            Some(_) => conv2d_layer(x, w, bias, stride, padding, None, Activation::None),
            None => product_on_gpu(x, w, stride, padding),
        };
    }
    let view = if x.rank() == 4 { x.permute((0, 3, 1, 2))? } else { x.clone() };
    if !is_served(x) {
        return to_channels_last(&conv2d(&view, w, bias, stride, padding)?);
    }
    let geometry = check(&view, w, bias, stride, padding)?;
    apply(x, w, bias, geometry)
}

fn apply(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, geometry: Geometry) -> Result<Tensor> {
    let op = Conv2d { geometry, made: Made::Map };
    Ok(match bias {
        Some(bias) => op.apply([x, w, bias])?,
        None => op.apply([x, w])?,
    })
}

fn check(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Result<Geometry> {
    fn refuse<T>(reason: String) -> Result<T> {
        Err(Error::Argument { op: "conv2d", reason })
    }
    let (&[batch, channels, height, width], &[filters, w_channels, kernel_h, kernel_w]) =
        (x.dims(), w.dims())
    else {
        return refuse(format!(
            "expected x (N, C, H, W) and w (O, C, kh, kw), got {:?} and {:?}",
            x.dims(),
            w.dims()
        ));
    };
    if let Some(bias) = bias.filter(|bias| bias.dims() != [filters]) {
        return refuse(format!("expected a bias ({filters}), got {:?}", bias.dims()));
    }
    let (maps, weight) = ([batch, height, width, channels], [filters, w_channels, kernel_h, kernel_w]);
    let geometry = Geometry::new(maps, weight, stride, padding).or_else(refuse)?;
    let parameters = if x.dtype() == DType::BF16 { DType::F32 } else { x.dtype() };
    if let Some(reason) = unlike(x, parameters, w, bias) {
        return refuse(reason);
    }
    if x.device().is_cpu() && !matches!(x.dtype(), DType::F32 | DType::F64) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    Ok(geometry)
}

/// Returns the difference if w or the bias is not of this type, or not on the device of x.
pub(crate) fn unlike(x: &Tensor, dtype: DType, w: &Tensor, bias: Option<&Tensor>) -> Option<String> {
    let differs = |other: &&Tensor| other.dtype() != dtype || !other.device().same_device(x.device());
    let other = [w].into_iter().chain(bias).find(differs)?;
    let [(own, here), (other, there)] = [x, other].map(|t| (t.dtype(), t.device().location()));
    Some(format!("x is {own:?} on {here:?}, w or the bias is {other:?} on {there:?}"))
}
