//! A head that scores y for x by late fusion, in one pass.
//!
//! The published form concatenates the features g_x of an input and g_y of a candidate, `[g_x; g_y]`, for each of M
//! candidates. They pass a layer with ReLU and a last layer with a single output. Since `W [g_x; g_y] = W_x g_x + W_y g_y`,
//! the first summand is the same for all candidates, and each candidate needs only a product with the few columns of W_y:
//!
//! `f = w · max(a + W_y g_y, 0) + bias` with `a = W_x g_x + b` and `g_y` from fully-connected layers on y.
//!
//! This is exact. As tensor operations it would still write and read `(B, M, H)` numbers several times. Here a block of
//! candidates passes all layers in the cache, and only f is written to memory.
//!
//! | file | contents |
//! |---|---|
//! | `kernel` | passes over blocks of candidates |
//! | `few_rows` | a pass over very few candidates |
//! | `network` | layers of y |
//! | `product` | products for f32 and f64 |
//! | `packed` | the head for prediction, with weights packed once |

mod few_rows;
mod kernel;
mod network;
mod packed;
mod product;

use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, DType, Result as CandleResult, Shape, Tensor, Var};

use self::kernel::{Head, Wanted, pack_backward, pack_forward};
use self::network::{Network, Sizes};
use self::packed::Packed;
use self::product::PackedProduct;
use super::kernel::{Apply, Argument, Kernel, by_type};
use super::relu::relu;
use crate::nn::{Prepared, are_constant};
use crate::{Error, Result};

/// Candidates that a CPU scores in less time than a GPU takes to start.
const BRIEF: usize = 64;

/// Late-fusion head, `f = w · max(a + W_y g_y, 0) + bias` with `g_y` from fully-connected layers on y, in one pass. If its
/// parameters are constant and on the CPU, it keeps packed weights.
#[derive(Clone, Debug)]
pub struct LateFusion {
    sizes: Sizes,
    /// All parameters in the order of [`Network`].
    theta: Tensor,
    prepared: Prepared<Packed>,
}

impl LateFusion {
    /// Makes the head from the fully-connected `layers` of y, each a weight (outputs, inputs) and a bias (outputs) followed
    /// by ReLU; `join`, W_y (H, K) with K the outputs of the last layer; and the weight `out` (1, H) and the bias `out_bias`
    /// (1) of the last layer. All are f32 or all f64.
    ///
    /// # Errors
    /// [`Error::Argument`] if a shape does not fit or an extent is zero.
    pub fn new(layers: &[(Tensor, Tensor)], join: &Tensor, out: &Tensor, out_bias: &Tensor) -> Result<Self> {
        let first = layers.first().map_or(join, |(weight, _)| weight);
        let mut widths = vec![matrix(first)?.1];
        let mut parameters = Vec::with_capacity(2 * layers.len() + 3);
        for (weight, bias) in layers {
            let (outputs, inputs) = matrix(weight)?;
            if inputs != widths[widths.len() - 1] || bias.dims() != [outputs] {
                return refuse(format!(
                    "a layer of weight {:?} and bias {:?} on {inputs} numbers",
                    weight.dims(),
                    bias.dims()
                ));
            }
            widths.push(outputs);
            parameters.extend([weight, bias]);
        }
        let (hidden, width) = matrix(join)?;
        if width != widths[widths.len() - 1] || out.dims() != [1, hidden] || out_bias.dims() != [1] {
            let dims = [join, out, out_bias].map(Tensor::dims);
            return refuse(format!(
                "join {:?}, out {:?} and its bias {:?} do not fit",
                dims[0], dims[1], dims[2]
            ));
        }
        parameters.extend([join, out, out_bias]);
        if parameters.iter().any(|t| t.dtype() != join.dtype() || !t.device().same_device(join.device())) {
            return refuse("the parameters must have one type and be on one device".to_owned());
        }
        let flat: Vec<Tensor> = parameters.iter().map(|t| t.flatten_all()).collect::<CandleResult<_>>()?;
        Ok(Self {
            sizes: Sizes { layers: widths, hidden },
            theta: Tensor::cat(&flat, 0)?,
            prepared: Prepared::new(),
        })
    }

    /// Scores `a` (B, H) and `y` (B, M, D) -> f (B, M), on the device of y. Differentiable in both and in the parameters. On
    /// the CPU, f32 and f64 take one pass, whose result has the same bits for every number of threads. Other devices use
    /// tensor operations, except in the prediction of [few candidates](Self::is_brief), which the CPU scores.
    ///
    /// # Errors
    /// [`Error::Argument`] if a shape or a type does not fit.
    pub fn forward(&self, a: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.check(a, y)?;
        let (is_constant, device) = (are_constant([a, y, &self.theta]), self.theta.device());
        if is_constant && self.is_served(y)? {
            return Ok(self.packed()?.run(&self.sizes, a, y, false)?.0);
        }
        let (a, here) = (a.to_device(device)?, y.to_device(device)?);
        if !device.is_cpu() || !self.has_kernels() || y.elem_count() == 0 {
            return Ok(self.composed(&a, &here)?.to_device(y.device())?);
        }
        let op = Score { sizes: self.sizes.clone(), open: OnceLock::new() };
        Ok(op.apply([&a, &here, &self.theta])?.to_device(y.device())?)
    }

    /// Returns f (B, M) and its gradient in y (B, M, D), outside any graph, on the device of y.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn score_and_grad(&self, a: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        self.check(a, y)?;
        let (a, y) = (a.detach(), y.detach());
        if self.is_served(&y)? {
            return self.packed()?.run(&self.sizes, &a, &y, true);
        }
        let head = Self { theta: self.theta.detach(), ..self.clone() };
        let (device, back) = (head.theta.device(), y.device());
        let (a, y) = (a.to_device(device)?, Var::from_tensor(&y.to_device(device)?)?);
        let f = head.composed(&a, &y)?;
        let gradient = f.sum_all()?.backward()?.get(&y).map_or_else(|| y.zeros_like(), |g| Ok(g.detach()))?;
        Ok((f.detach().to_device(back)?, gradient.to_device(back)?))
    }

    /// Returns `true` if a CPU scores this number of candidates before a GPU has started the products of all layers. Then the
    /// features of their inputs are best kept on the CPU.
    pub fn is_brief(candidates: usize) -> bool {
        candidates <= BRIEF
    }

    /// Returns `true` if the CPU scores these candidates in one pass, in prediction.
    fn is_served(&self, y: &Tensor) -> Result<bool> {
        let (batch, count, _) = y.dims3()?;
        let is_here = self.theta.device().is_cpu();
        let is_brief = are_constant([&self.theta]) && Self::is_brief(batch * count);
        Ok(self.has_kernels() && (is_here || is_brief))
    }

    fn has_kernels(&self) -> bool {
        matches!(self.theta.dtype(), DType::F32 | DType::F64)
    }

    fn packed(&self) -> Result<Arc<Packed>> {
        let pack = || Packed::new(&self.sizes, &self.theta);
        if are_constant([&self.theta]) { self.prepared.get(pack) } else { Ok(Arc::new(pack()?)) }
    }

    fn check(&self, a: &Tensor, y: &Tensor) -> Result<()> {
        let (hidden, dim) = (self.sizes.hidden, self.sizes.dim());
        let batch = a.dims().first().copied().unwrap_or_default();
        if a.dims() != [batch, hidden] || !matches!(*y.dims(), [rows, _, d] if rows == batch && d == dim) {
            let (a, y) = (a.dims(), y.dims());
            return refuse(format!("expected a (B, {hidden}) and y (B, M, {dim}), got {a:?} and {y:?}"));
        }
        if [a, y].into_iter().any(|t| t.dtype() != self.theta.dtype()) {
            return refuse("a, y and the parameters must have one type".to_owned());
        }
        Ok(())
    }

    /// Computes [`forward`](Self::forward) as tensor operations.
    #[doc(hidden)]
    pub fn composed(&self, a: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, dim) = y.dims3()?;
        let mut start = 0;
        let mut take = |len: usize| {
            start += len;
            self.theta.narrow(0, start - len, len)
        };
        let mut features = y.reshape((batch * count, dim))?;
        for pair in self.sizes.layers.windows(2) {
            let weight = take(pair[0] * pair[1])?.reshape((pair[1], pair[0]))?;
            features = relu(&features.matmul(&weight.t()?)?.broadcast_add(&take(pair[1])?)?)?;
        }
        let (hidden, width) = (self.sizes.hidden, self.sizes.width());
        let join = take(hidden * width)?.reshape((hidden, width))?;
        let z = features.matmul(&join.t()?)?.reshape((batch, count, hidden))?;
        let h = relu(&z.broadcast_add(&a.unsqueeze(1)?)?)?.reshape((batch * count, hidden))?;
        let f = h.matmul(&take(hidden)?.reshape((hidden, 1))?)?.broadcast_add(&take(1)?)?;
        Ok(f.reshape((batch, count))?)
    }
}

fn matrix(weight: &Tensor) -> Result<(usize, usize)> {
    match *weight.dims() {
        [outputs, inputs] if outputs * inputs > 0 => Ok((outputs, inputs)),
        _ => refuse(format!(
            "expected a weight (outputs, inputs) without zero extent, got {:?}",
            weight.dims()
        )),
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::Argument { op: "late_fusion", reason })
}

/// The head as an operation on a, y and θ.
struct Score {
    sizes: Sizes,
    /// Marks of the open units for the backward pass. There is one bit for each unit, because h would be as large as
    /// everything else.
    open: OnceLock<Vec<u32>>,
}

impl Score {
    fn head<'a, T: PackedProduct>(&'a self, a: &'a [T], y: &'a [T], theta: &'a [T]) -> Head<'a, T> {
        let batch = a.len() / self.sizes.hidden;
        Head {
            sizes: &self.sizes,
            network: Network::new(&self.sizes, theta),
            projected: a,
            y,
            count: y.len() / self.sizes.dim() / batch,
        }
    }

    fn scores<T: PackedProduct>(&self, a: &[T], y: &[T], theta: &[T]) -> CandleResult<Vec<T>> {
        let head = self.head(a, y, theta);
        let (f, open) = head.scores(&pack_forward::<T>(&self.sizes, head.network.join), true)?;
        if self.open.set(open).is_err() {
            candle_core::bail!("late_fusion: an operation is applied once");
        }
        Ok(f)
    }
}

impl Kernel<3> for Score {
    const NAME: &'static str = "late-fusion";

    fn shape(&self, [_, y, _]: [&Shape; 3]) -> CandleResult<Shape> {
        let (batch, count, _) = y.dims3()?;
        Ok(Shape::from((batch, count)))
    }

    fn cpu(&self, arguments: [Argument<'_>; 3]) -> CandleResult<CpuStorage> {
        by_type!("late-fusion", arguments, |[a, y, theta]| self.scores(a, y, theta)?)
    }

    fn gradients(
        &self,
        arguments: [&Tensor; 3],
        _: &Tensor,
        grad: &Tensor,
    ) -> CandleResult<[Option<Tensor>; 3]> {
        let [a, y, theta] = arguments;
        let wanted = Wanted { y: y.track_op(), theta: theta.track_op() };
        let all = Gradients { score: self, wanted }.run([a, y, theta, grad])?;
        let mut start = 0;
        let mut gradients = [const { None }; 3];
        for (gradient, (argument, is_there)) in
            gradients.iter_mut().zip(arguments.into_iter().zip([true, wanted.y, wanted.theta]))
        {
            if is_there {
                let len = argument.elem_count();
                *gradient = Some(all.narrow(0, start, len)?.reshape(argument.shape())?);
                start += len;
            }
        }
        Ok(gradients)
    }
}

/// Kernel `(a, y, θ, gradient of f) -> gradients` in a and, if wanted, in y and θ, end to end.
struct Gradients<'a> {
    score: &'a Score,
    wanted: Wanted,
}

impl Gradients<'_> {
    fn made<T: PackedProduct>(&self, [a, y, theta, g]: [&[T]; 4]) -> CandleResult<Vec<T>> {
        let Some(open) = self.score.open.get() else {
            candle_core::bail!("late_fusion: backward of an operation that was not applied")
        };
        let head = self.score.head(a, y, theta);
        let packed = pack_backward::<T>(&self.score.sizes, head.network.join, head.network.out);
        let found = head.gradients(&packed, g, open, self.wanted)?;
        let mut all = found.projected;
        if self.wanted.y {
            all.extend(found.y);
        }
        if self.wanted.theta {
            all.extend(found.theta);
        }
        Ok(all)
    }
}

impl Kernel<4> for Gradients<'_> {
    const NAME: &'static str = "late-fusion gradients";

    fn shape(&self, [a, y, theta, _]: [&Shape; 4]) -> CandleResult<Shape> {
        let part = |wanted: bool, shape: &Shape| if wanted { shape.elem_count() } else { 0 };
        Ok(Shape::from(a.elem_count() + part(self.wanted.y, y) + part(self.wanted.theta, theta)))
    }

    fn cpu(&self, arguments: [Argument<'_>; 4]) -> CandleResult<CpuStorage> {
        by_type!("late-fusion gradients", arguments, |all| self.made(all)?)
    }
}
