//! The linear layer.
//!
//! candle's own product asks the operating system for the number of processors on every call. On Linux this reads
//! /proc/cpuinfo, which takes longer than a small layer.

mod at;
mod packed;
mod products;

use candle_core::{CpuStorage, DType, Result as CandleResult, Shape, Tensor};

use self::products::{Form, Products, product};
use super::kernel::{Apply, Argument, Gradients, Kernel, by_type};
use super::packed::Sizes;
use super::relu::Activation;
use crate::{Error, Result};

pub use at::{linear_at, linear_at_gradient};
pub use packed::PackedLinear;

/// Returns `y = x Wᵀ + bias` for x `(N, I)`, w `(O, I)` and bias `(O)`: y is `(N, O)`. On the CPU all are f32 or all f64, and
/// the result has the same bits for every number of threads. Other devices use candle's product. Differentiable in all three.
/// Arguments that depend on no variable cost nothing in the backward pass.
///
/// # Errors
/// [`Error::Argument`] if a rank, a size or a type does not fit, or an extent is zero.
pub fn linear(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    check(x, w, bias)?;
    layer(x, w, bias, Activation::None)
}

/// Returns [`relu`](crate::relu()) of [`linear`].
///
/// # Errors
/// The errors of [`linear`].
pub fn linear_relu(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    check(x, w, bias)?;
    layer(x, w, bias, Activation::Relu)
}

fn layer(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, activation: Activation) -> Result<Tensor> {
    let y = match bias {
        #[cfg(feature = "cuda")]
        Some(bias) if x.device().is_cuda() => {
            // One pass for bias and activation.
            return Ok(super::conv2d::epilogue(&LINEAR.apply([x, w])?, bias, None, activation)?);
        }
        Some(bias) => LINEAR.apply([x, w, bias])?,
        None => LINEAR.apply([x, w])?,
    };
    activation.apply(&y, None)
}

/// Returns the gradient `Gᵀ x` `(O, I)` of the weights of [`linear`] from x `(N, I)` and the gradient G `(N, O)` of its
/// result, outside any graph.
///
/// # Errors
/// The errors of [`linear`].
pub fn linear_weight_gradient(x: &Tensor, grad: &Tensor) -> Result<Tensor> {
    // x is in the place of the weights that Gᵀ would be multiplied with.
    check(&grad.t()?, &x.t()?, None)?;
    if !x.device().is_cpu() {
        return Ok(grad.contiguous()?.t()?.matmul(&x.contiguous()?)?.detach());
    }
    Ok(Product(Form::TransposedBy).run([grad, x])?)
}

fn check(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let refuse = |reason: String| Err(Error::Argument { op: "linear", reason });
    let (&[rows, inputs], &[outputs, w_inputs]) = (x.dims(), w.dims()) else {
        return refuse(format!("expected x (N, I) and w (O, I), got {:?} and {:?}", x.dims(), w.dims()));
    };
    if inputs != w_inputs || bias.is_some_and(|bias| bias.dims() != [outputs]) {
        let bias = bias.map(Tensor::dims);
        return refuse(format!("x {:?}, w {:?} and bias {bias:?} do not fit together", x.dims(), w.dims()));
    }
    if rows * inputs * outputs == 0 {
        return refuse(format!("x {:?} and w {:?} must have no zero extent", x.dims(), w.dims()));
    }
    let fits = |other: &Tensor| other.dtype() == x.dtype() && other.device().same_device(x.device());
    if !fits(w) || bias.is_some_and(|bias| !fits(bias)) {
        return refuse("x, w and bias must have one type and be on one device".to_owned());
    }
    if x.device().is_cpu() && !matches!(x.dtype(), DType::F32 | DType::F64) {
        return refuse(format!("expected f32 or f64, got {:?}", x.dtype()));
    }
    Ok(())
}

/// Product of two matrices, plus a bias if there is a third argument: the layer `x Wᵀ`, and the gradients in x and in w,
/// `G W` and `Gᵀ x`.
struct Product(Form);

/// Product of the layer, `x Wᵀ`.
const LINEAR: Product = Product(Form::ByTransposed);

impl Product {
    /// Returns the sizes of the factors in the order in which they are multiplied.
    fn sizes(&self, a: &Shape, b: &Shape) -> CandleResult<Sizes> {
        let ((first, second), (third, fourth)) = (a.dims2()?, b.dims2()?);
        Ok(match self.0 {
            Form::ByTransposed => Sizes { rows: first, depth: second, columns: third },
            Form::By => Sizes { rows: first, depth: second, columns: fourth },
            Form::TransposedBy => Sizes { rows: second, depth: first, columns: fourth },
        })
    }

    fn made<T: Products>(&self, all: &[&[T]], sizes: Sizes) -> CandleResult<Vec<T>> {
        let mut y = product(self.0, all[0], all[1], sizes)?;
        if let Some(bias) = all.get(2) {
            for row in y.chunks_exact_mut(sizes.columns) {
                row.iter_mut().zip(*bias).for_each(|(y, bias)| *y += *bias);
            }
        }
        Ok(y)
    }
}

impl<const N: usize> Kernel<N> for Product {
    const NAME: &'static str = "linear";

    fn shape(&self, arguments: [&Shape; N]) -> CandleResult<Shape> {
        let Sizes { rows, columns, .. } = self.sizes(arguments[0], arguments[1])?;
        Ok(Shape::from((rows, columns)))
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let sizes = self.sizes(arguments[0].1.shape(), arguments[1].1.shape())?;
        by_type!("linear", arguments, |all| self.made(&all, sizes)?)
    }

    /// Computes the layer on a GPU, without a bias.
    #[cfg(feature = "cuda")]
    fn cuda(&self, arguments: [crate::cuda::Argument<'_>; N]) -> crate::cuda::Made {
        use candle_core::backend::BackendStorage;
        let ((x, lx), (w, lw)) = (arguments[0], arguments[1]);
        let ((rows, inputs), outputs) = (lx.shape().dims2()?, lw.dims()[0]);
        x.matmul(w, (1, rows, outputs, inputs), lx, &lw.transpose(0, 1)?)
    }

    fn gradients(&self, arguments: [&Tensor; N], _: &Tensor, grad: &Tensor) -> Gradients<N> {
        let (x, w, grad) = (arguments[0], arguments[1], grad.contiguous()?);
        let on_cpu = grad.device().is_cpu();
        let mut gradients = [const { None }; N];
        for (i, (gradient, argument)) in gradients.iter_mut().zip(arguments).enumerate() {
            if argument.track_op() {
                *gradient = Some(match i {
                    0 if on_cpu => Product(Form::By).run([&grad, w])?,
                    0 => grad.matmul(&w.detach())?,
                    1 if on_cpu => Product(Form::TransposedBy).run([&grad, x])?,
                    1 => grad.t()?.matmul(&x.detach())?,
                    _ => grad.sum(0)?,
                });
            }
        }
        Ok(gradients)
    }
}
