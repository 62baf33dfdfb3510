//! Depthwise convolution, one filter for each channel, of maps with the channels innermost.
//!
//! | file | contents |
//! |---|---|
//! | `geometry` | sizes, padding, and the pixels that each tap of an axis reads |
//! | `cpu`, `kernels` | loops over rows, and loops over channels |
//! | `depthwise.cu` | the operation on a GPU |
//! | `packed` | the layer of constant parameters |

mod cpu;
mod geometry;
mod kernels;
mod packed;

use candle_core::{CpuStorage, DType, Result as CandleResult, Shape, Tensor};

use self::geometry::Geometry;
use super::bf16::in_f32;
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::relu::Activation;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{Error, Result};

pub use geometry::Padding;
pub(crate) use packed::PackedDepthwise;

/// Name in errors.
const OP: &str = "depthwise conv2d";

/// Computes the depthwise convolution `y[n, i, j, c] = bias[c] + Σ_{u, v} w[c, 0, u, v] · x[n, i·stride + u - top, j·stride +
/// v - left, c]`. x is zero outside the map, and `padding` gives the numbers of zeros `top` and `left`.
///
/// x `(N, H, W, C)`, w `(C, 1, kh, kw)` and bias `(C)`, all f32 or all f64 on one device, give y `(N, oh, ow, C)`. x and y
/// may also be bf16 with parameters in f32, and sums are f32 then. Differentiable in all three. On the CPU the result has the
/// same bits for every number of threads.
///
/// # Errors
/// [`Error::Argument`] if a rank, size or type does not fit, an extent is zero, the stride is zero, or the kernel exceeds the
/// padded map.
pub fn depthwise_conv2d_channels_last(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: Padding,
) -> Result<Tensor> {
    depthwise_layer(x, w, bias, stride, padding, Activation::None)
}

/// Computes [`depthwise_conv2d_channels_last`], then `activation`.
///
/// # Errors
/// The errors of [`depthwise_conv2d_channels_last`].
pub(crate) fn depthwise_layer(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: usize,
    padding: Padding,
    activation: Activation,
) -> Result<Tensor> {
    if x.dtype() == DType::BF16 {
        return in_f32(x, |x| depthwise_layer(x, w, bias, stride, padding, activation));
    }
    let geometry = check(x, w, bias, stride, padding)?;
    // Tap after tap, (kh·kw, C): channels lie side by side.
    let taps = w.reshape((geometry.channels, ()))?.t()?;
    let y = Depthwise { geometry, of: Of::Map }.apply([x, &taps])?;
    #[cfg(feature = "cuda")]
    if let Some(bias) = bias.filter(|_| x.device().is_cuda()) {
        return Ok(super::conv2d::epilogue(&y, bias, None, activation)?);
    }
    let y = bias.map_or_else(|| Ok(y.clone()), |bias| y.broadcast_add(bias))?;
    activation.apply(&y, None)
}

fn check(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: usize, padding: Padding) -> Result<Geometry> {
    let &[channels, 1, kernel_h, kernel_w] = w.dims() else {
        return refuse(format!("expected w (C, 1, kh, kw), got {:?}", w.dims()));
    };
    if let Some(bias) = bias.filter(|bias| bias.dims() != [channels]) {
        return refuse(format!("expected a bias ({channels}), got {:?}", bias.dims()));
    }
    if let Some(reason) = super::conv2d::unlike(x, x.dtype(), w, bias) {
        return refuse(reason);
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    Geometry::new(x, channels, [kernel_h, kernel_w], stride, padding)
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: OP, reason })
}

/// One of the products of a layer, of contiguous arguments, where w is (kh·kw, C).
#[derive(Clone, Copy)]
struct Depthwise {
    geometry: Geometry,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    /// `(x, w) -> y`.
    Map,
    /// `(dy, w) -> dx`.
    InputGradient,
    /// `(x, dy) -> dw`.
    WeightGradient,
}

impl Kernel<2> for Depthwise {
    const NAME: &'static str = OP;

    fn shape(&self, _: [&Shape; 2]) -> CandleResult<Shape> {
        let g = &self.geometry;
        Ok(match self.of {
            Of::Map => Shape::from((g.batch, g.output[0], g.output[1], g.channels)),
            Of::InputGradient => Shape::from((g.batch, g.input[0], g.input[1], g.channels)),
            Of::WeightGradient => Shape::from((g.taps(), g.channels)),
        })
    }

    fn cpu(&self, arguments: [Argument<'_>; 2]) -> CandleResult<CpuStorage> {
        by_type!(OP, arguments, |[a, b]| match self.of {
            Of::Map => cpu::forward(a, b, &self.geometry),
            Of::InputGradient => cpu::input_gradient(a, b, &self.geometry),
            Of::WeightGradient => cpu::weight_gradient(a, b, &self.geometry),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [a, b]: [cuda::Argument<'_>; 2]) -> cuda::Made {
        /// Most shares of the result's rows, each with its own sums for the weight's gradient.
        const SHARES: usize = 64;
        let (g, device) = (&self.geometry, cuda::device(a));
        let len = self.shape([a.1.shape(), b.1.shape()])?.elem_count();
        let ([h, w], [oh, ow], [kh, kw], [top, left]) = (g.input, g.output, g.kernel, g.before);
        let sizes = cuda::sizes([h, w, oh, ow, kh, kw, g.stride, top, left, g.channels])?;
        let [h, w, oh, ow, kh, kw, stride, top, left, c] = &sizes;
        let rows = g.batch * g.output[0];
        let num_shares = rows.clamp(1, SHARES);
        let [n, k, weights] = &cuda::sizes([rows, num_shares, len])?;
        cuda::by_type!(a, OP, T => {
            let (a, b) = (cuda::elements::<T>(a)?, cuda::elements::<T>(b)?);
            match self.of {
                Of::Map => cuda::made!(device, DEPTHWISE::"depthwise_forward", T, len => len;
                    &a, &b; h, w, oh, ow, kh, kw, stride, top, left, c),
                Of::InputGradient => cuda::made!(device, DEPTHWISE::"depthwise_input", T, len => len;
                    &a, &b; h, w, oh, ow, kh, kw, stride, top, left, c),
                Of::WeightGradient => {
                    let mut shares = cuda::unwritten::<T>(device, num_shares * len)?;
                    cuda::launch!(device, DEPTHWISE::"depthwise_weight", T, num_shares * len;
                        &a, &b, &mut shares, n, k, h, w, oh, ow, kh, kw, stride, top, left, c);
                    cuda::made!(device, DEPTHWISE::"depthwise_gather", T, len => len; &shares; k, weights)
                }
            }
        })
    }

    fn gradients(&self, [x, w]: [&Tensor; 2], _: &Tensor, dy: &Tensor) -> Gradients<2> {
        let gradient = |of| Self { of, ..*self };
        let dx = x.track_op().then(|| gradient(Of::InputGradient).run([dy, w]));
        let dw = w.track_op().then(|| gradient(Of::WeightGradient).run([x, dy]));
        Ok([dx.transpose()?, dw.transpose()?])
    }
}
