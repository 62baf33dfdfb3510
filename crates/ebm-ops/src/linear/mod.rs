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

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::tests::{check_gradients, noise_tensor};

    fn inputs(rows: usize, inputs: usize, outputs: usize) -> [Tensor; 3] {
        [
            noise_tensor(&[rows, inputs], 1).unwrap(),
            noise_tensor(&[outputs, inputs], 2).unwrap(),
            noise_tensor(&[outputs], 3).unwrap(),
        ]
    }

    #[test]
    fn the_weights_gradient_is_backwards() {
        let (x, w) = (noise_tensor(&[7, 3], 1).unwrap(), noise_tensor(&[4, 3], 2).unwrap());
        let grad = noise_tensor(&[7, 4], 3).unwrap();
        let w = candle_core::Var::from_tensor(&w).unwrap();
        let sum = (linear(&x, &w, None).unwrap() * &grad).unwrap().sum_all().unwrap();
        let expected = sum.backward().unwrap().get(&w).unwrap().clone();
        let found = linear_weight_gradient(&x, &grad).unwrap();
        assert_eq!(found.to_vec2::<f64>().unwrap(), expected.to_vec2::<f64>().unwrap());
        assert!(linear_weight_gradient(&x, &grad.narrow(0, 0, 5).unwrap()).is_err());
    }

    #[test]
    fn it_is_the_product_whatever_the_cut() {
        // One task, cut by rows, cut by columns, and sizes that are multiples of nothing. The last case is large enough for
        // the packed products.
        for (rows, columns, outputs) in
            [(1, 1, 1), (3, 10, 7), (700, 65, 33), (5, 300, 517), (129, 130, 131), (63, 517, 301)]
        {
            let [x, w, bias] = inputs(rows, columns, outputs);
            let expected = x.matmul(&w.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
            for dtype in [DType::F64, DType::F32] {
                let [x, w, bias] = [&x, &w, &bias].map(|t| t.to_dtype(dtype).unwrap());
                let y = linear(&x, &w, Some(&bias)).unwrap().to_dtype(DType::F64).unwrap();
                let error = (y - &expected).unwrap().abs().unwrap().max_all().unwrap();
                let bound = if dtype == DType::F64 { 1e-12 } else { 2e-5 };
                assert!(
                    error.to_scalar::<f64>().unwrap() < bound,
                    "{rows} {columns} {outputs} {dtype:?}: {error}"
                );
            }
        }
    }

    #[test]
    fn gradients_against_differences() {
        let all = inputs(4, 5, 3);
        check_gradients(|t| Ok(linear(&t[0], &t[1], Some(&t[2])).unwrap()), &all, 1e-5, 1e-8).unwrap();
        check_gradients(|t| Ok(linear(&t[0], &t[1], None).unwrap()), &all[..2], 1e-5, 1e-8).unwrap();
        // A transposed argument.
        let x = noise_tensor(&[5, 4], 1).unwrap();
        let turned = |t: &[Tensor]| Ok(linear(&t[0].t()?, &t[1], None).unwrap());
        check_gradients(turned, &[x, all[1].clone()], 1e-5, 1e-8).unwrap();
    }

    #[test]
    fn gradients_in_single_precision_are_those_in_double() {
        let all = inputs(63, 517, 301);
        let seeds = noise_tensor(&[63, 301], 4).unwrap();
        let gradients = |dtype: DType| {
            let all: Vec<_> = all
                .iter()
                .map(|t| candle_core::Var::from_tensor(&t.to_dtype(dtype).unwrap()).unwrap())
                .collect();
            let y = linear(&all[0], &all[1], Some(&all[2])).unwrap();
            let store = (y * seeds.to_dtype(dtype).unwrap()).unwrap().sum_all().unwrap().backward().unwrap();
            all.iter().map(|t| store.get(t).unwrap().to_dtype(DType::F64).unwrap()).collect::<Vec<_>>()
        };
        for (single, double) in gradients(DType::F32).iter().zip(gradients(DType::F64)) {
            let error = (single - double).unwrap().abs().unwrap().max_all().unwrap();
            assert!(error.to_scalar::<f64>().unwrap() < 2e-5, "{error}");
        }
    }

    #[test]
    fn bad_arguments_are_errors() {
        let [x, w, bias] = inputs(4, 5, 3);
        let refused = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
            assert!(matches!(linear(x, w, bias), Err(Error::Argument { op: "linear", .. })));
        };
        refused(&x, &w.t().unwrap(), None);
        refused(&x, &w, Some(&x));
        refused(&x.unsqueeze(0).unwrap(), &w, None);
        refused(&x.to_dtype(DType::F32).unwrap(), &w, Some(&bias));
        refused(&Tensor::zeros((0, 5), DType::F64, &Device::Cpu).unwrap(), &w, None);
    }
}
