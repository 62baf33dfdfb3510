//! ReLU and ReLU6, alone and after a sum, with torch's derivatives: 0 at their ends, where candle's derivative at 0 is 1.

use candle_core::Tensor;

use super::bf16::{in_f32, lacks_bf16_kernel};
use super::float::Float;
use super::kernel::{Apply, Gradients, Kernel};
use super::storage::zip_map;
use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda;

/// Activation after a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// No activation.
    #[default]
    None,
    /// ReLU, max(x, 0).
    Relu,
    /// ReLU6, min(max(x, 0), 6).
    Relu6,
}

impl Activation {
    /// Returns ReLU if `relu`, else no activation.
    pub(crate) fn relu_where(relu: bool) -> Self {
        if relu { Self::Relu } else { Self::None }
    }

    /// Returns the least and the greatest result.
    pub(crate) fn bounds(self) -> [f64; 2] {
        match self {
            Self::None => [f64::NEG_INFINITY, f64::INFINITY],
            Self::Relu => [0., f64::INFINITY],
            Self::Relu6 => [0., 6.],
        }
    }

    /// Applies the activation to x, or to x plus a residual of the same shape.
    #[doc(hidden)]
    pub fn apply(self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let sum = || residual.map_or_else(|| Ok(x.clone()), |residual| x + residual);
        if self == Self::None {
            return Ok(sum()?);
        }
        if lacks_bf16_kernel(x) {
            return in_f32(&sum()?, |sum| self.apply(sum, None));
        }
        let Some(residual) = residual else { return Ok(Rectify(self).apply([x])?) };
        if x.shape() != residual.shape() {
            return Err(candle_core::Error::ShapeMismatchBinaryOp {
                lhs: x.shape().clone(),
                rhs: residual.shape().clone(),
                op: "add_relu",
            }
            .into());
        }
        Ok(Rectify(self).apply([x, residual])?)
    }

    /// Returns the gradient in the argument of [`apply`](Self::apply) from g, the gradient in its result y: g where y lies between
    /// the bounds, else 0. Outside any graph.
    pub(crate) fn gradient(self, g: &Tensor, y: &Tensor) -> candle_core::Result<Tensor> {
        if self == Self::None { g.contiguous() } else { Mask(self).run([g, y]) }
    }
}

/// Returns max(x, 0), of any shape. The derivative at 0 is 0.
///
/// # Errors
/// Returns an error if a tensor operation fails.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    Activation::Relu.apply(x, None)
}

/// Returns the gradient of [`relu`] from g, the gradient in its result y: g where y is positive, else 0. Outside any graph.
/// The types are f32, f64 or, on a GPU, bf16.
///
/// # Errors
/// Returns an error if the types differ.
pub fn relu_gradient(g: &Tensor, y: &Tensor) -> candle_core::Result<Tensor> {
    Activation::Relu.gradient(g, y)
}

/// Kernel of an activation of one tensor, or of the sum of two.
struct Rectify(Activation);

impl<const N: usize> Kernel<N> for Rectify {
    const NAME: &'static str = "relu";

    fn host<T: Float>(&self, all: [&[T]; N]) -> candle_core::Result<Vec<T>> {
        let bounds = self.0.bounds().map(T::from_f64);
        Ok(match all.get(1) {
            Some(b) => zip_map(all[0], b, |a, b| between(a + b, bounds)),
            None => zip_map(all[0], all[0], |x, _| between(x, bounds)),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, arguments: [cuda::Argument<'_>; N]) -> cuda::Made {
        let (x, [_, most]) = (arguments[0], self.0.bounds());
        let (device, len) = (cuda::device(x), cuda::len(x));
        cuda::by_any_type!(x, "relu", T => {
            let (x, most) = (cuda::elements::<T>(x)?, cuda::wide::<T>(most));
            match arguments.get(1) {
                Some(b) => {
                    let b = cuda::elements::<T>(*b)?;
                    cuda::made!(device, RELU::"add_relu", T, len => len; &x, &b; &most)
                }
                None => cuda::made!(device, RELU::"relu", T, len => len; &x; &most),
            }
        })
    }

    fn gradients(&self, _: [&Tensor; N], y: &Tensor, g: &Tensor) -> Gradients<N> {
        let g = self.0.gradient(g, y)?;
        Ok(std::array::from_fn(|_| Some(g.clone())))
    }
}

/// Kernel (g, y) -> g where the result y lies between the bounds, else 0.
struct Mask(Activation);

impl Kernel<2> for Mask {
    const NAME: &'static str = "relu-grad";

    fn host<T: Float>(&self, [g, y]: [&[T]; 2]) -> candle_core::Result<Vec<T>> {
        let bounds = self.0.bounds().map(T::from_f64);
        Ok(zip_map(g, y, |g, y| where_between(y, bounds, g)))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [g, y]: [cuda::Argument<'_>; 2]) -> cuda::Made {
        let (device, len, [_, most]) = (cuda::device(g), cuda::len(g), self.0.bounds());
        let all = cuda::count(len)?;
        cuda::by_any_type!(g, "relu", T => {
            let (g, y, most) = (cuda::elements::<T>(g)?, cuda::elements::<T>(y)?, cuda::wide::<T>(most));
            cuda::made!(device, RELU::"relu_mask", T, len.div_ceil(4) => len; &g, &y; &most, &all)
        })
    }
}

/// Returns x within the bounds. NaN stays NaN.
#[inline(always)]
pub(crate) fn between<T: Float>(x: T, [least, most]: [T; 2]) -> T {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}

/// Returns g if x lies between the bounds, else 0, without a branch.
#[inline(always)]
pub(crate) fn where_between<T: Float>(x: T, [least, most]: [T; 2], g: T) -> T {
    std::hint::select_unpredictable((x > least) & (x < most), g, T::zero())
}
