//! A head that scores y for x by late fusion, in one pass.
//!
//! The published form concatenates the features g_x of an input and g_y of a candidate, `[g_x; g_y]`, for each of M
//! candidates, and passes them through a layer with ReLU and a last one with a single output. Since
//! `W [g_x; g_y] = W_x g_x + W_y g_y`, the first summand is the same for all candidates, and what is left for each of
//! them is a product with the few columns of W_y:
//!
//! `f = w · max(a + W_y g_y, 0) + bias` with `a = W_x g_x + b` and `g_y` from fully-connected layers on y.
//!
//! That is exact. As tensor operations it would still write and read `(B, M, H)` numbers several times; here a block of
//! candidates passes all layers in the cache, and only f leaves it.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | the passes over blocks |
//! | `few` | the same for very few candidates |
//! | `network` | the layers of y |
//! | `number` | the products for f32 and f64 |
//! | `packed` | the head for prediction, its weights packed once |

mod few;
mod kernel;
mod network;
mod number;
mod packed;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result as CandleResult, Shape, Storage, Tensor};

pub use packed::PackedLateFusion;

use self::kernel::{Head, Wanted, pack_backward, pack_forward};
use self::network::{Network, Sizes};
use self::number::Number;
use super::storage::elements;
use crate::resnet::relu;
use crate::{Error, Result};

/// The layers of a head that fuses late; see the [module](self).
#[derive(Clone, Debug)]
pub struct LateFusion {
    sizes: Sizes,
    /// All parameters in the order of [`Network`].
    theta: Tensor,
}

impl LateFusion {
    /// The head with fully-connected `layers` for y, each a weight (outputs, inputs) and a bias (outputs) with ReLU
    /// behind; `join`, W_y (H, K) with K the outputs of the last layer; and the last layer's weight `out` (1, H) and
    /// `out_bias` (1). All f32 or all f64.
    ///
    /// # Errors
    /// [`Error::Argument`] where a shape does not fit or an extent is zero.
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
        Ok(Self { sizes: Sizes { layers: widths, hidden }, theta: Tensor::cat(&flat, 0)? })
    }

    /// `a` (B, H) and `y` (B, M, D) -> f (B, M). Differentiable in both and in the parameters. On the CPU in f32 or f64 one
    /// pass, whose result has the same bits for every number of threads; elsewhere tensor operations.
    ///
    /// # Errors
    /// [`Error::Argument`] where a shape, a type or a device does not fit.
    pub fn forward(&self, a: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.check(a, y)?;
        let is_served = a.device().is_cpu() && matches!(a.dtype(), DType::F32 | DType::F64);
        if !is_served || y.elem_count() == 0 {
            return self.composed(a, y);
        }
        let keep = [a, y, &self.theta].iter().any(|t| t.track_op());
        let op = Score { sizes: self.sizes.clone(), keep, open: OnceLock::new() };
        Ok(a.contiguous()?.apply_op3(&y.contiguous()?, &self.theta, op)?)
    }

    /// The head with its present parameters, for prediction on the CPU in f32 or f64.
    ///
    /// # Errors
    /// [`Error::Argument`] for another type.
    pub fn pack(&self) -> Result<PackedLateFusion> {
        PackedLateFusion::new(&self.sizes, &self.theta)
    }

    fn check(&self, a: &Tensor, y: &Tensor) -> Result<()> {
        check_arguments(&self.sizes, a, y)?;
        if [a, y]
            .iter()
            .any(|t| t.dtype() != self.theta.dtype() || !t.device().same_device(self.theta.device()))
        {
            return refuse("a, y and the parameters must have one type and be on one device".to_owned());
        }
        Ok(())
    }

    /// The same as tensor operations.
    fn composed(&self, a: &Tensor, y: &Tensor) -> Result<Tensor> {
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

/// Shapes alone.
fn check_arguments(sizes: &Sizes, a: &Tensor, y: &Tensor) -> Result<()> {
    let batch = a.dims().first().copied().unwrap_or_default();
    let fits = a.dims() == [batch, sizes.hidden]
        && matches!(*y.dims(), [rows, _, dim] if rows == batch && dim == sizes.dim());
    if fits {
        return Ok(());
    }
    refuse(format!(
        "expected a (B, {}) and y (B, M, {}), got {:?} and {:?}",
        sizes.hidden,
        sizes.dim(),
        a.dims(),
        y.dims()
    ))
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
    /// Whether there will be a backward pass.
    keep: bool,
    /// Which units were open, for the backward pass: a bit for each, where h itself would be as large as all else.
    open: OnceLock<Vec<u32>>,
}

impl Score {
    fn head<'a, T: Number>(&'a self, a: &'a [T], y: &'a [T], theta: &'a [T]) -> Head<'a, T> {
        let batch = a.len() / self.sizes.hidden;
        Head {
            sizes: &self.sizes,
            network: Network::new(&self.sizes, theta),
            projected: a,
            y,
            count: y.len() / self.sizes.dim() / batch,
        }
    }

    fn scores<T: Number>(&self, a: &[T], y: &[T], theta: &[T]) -> CandleResult<CpuStorage> {
        let head = self.head(a, y, theta);
        let (f, open) = head.scores(&pack_forward::<T>(&self.sizes, head.network.join), self.keep)?;
        if self.keep && self.open.set(open).is_err() {
            candle_core::bail!("late_fusion: an operation is applied once");
        }
        Ok(T::to_cpu_storage_owned(f))
    }

    fn gradients<T: Number>(
        &self,
        tensors: [&Tensor; 3],
        [a, y, theta]: [&[T]; 3],
        g: &[T],
    ) -> CandleResult<[Option<Tensor>; 3]> {
        let Some(open) = self.open.get() else {
            candle_core::bail!("late_fusion: backward of an operation that was not applied")
        };
        let [projected, along_y, parameters] = tensors.map(Tensor::track_op);
        let wanted = Wanted { y: along_y, theta: parameters };
        let head = self.head(a, y, theta);
        let packed = pack_backward::<T>(&self.sizes, head.network.join, head.network.out);
        let found = head.gradients(&packed, g, open, wanted)?;
        let tensor = |wanted: bool, values: Vec<T>, like: &Tensor| {
            wanted.then(|| Tensor::from_vec(values, like.shape(), like.device())).transpose()
        };
        Ok([
            tensor(projected, found.projected, tensors[0])?,
            tensor(along_y, found.y, tensors[1])?,
            tensor(parameters, found.theta, tensors[2])?,
        ])
    }
}

impl CustomOp3 for Score {
    fn name(&self) -> &'static str {
        "late-fusion"
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
        let f = match s1 {
            CpuStorage::F64(_) => {
                self.scores::<f64>(elements(s1, l1)?, elements(s2, l2)?, elements(s3, l3)?)?
            }
            _ => self.scores::<f32>(elements(s1, l1)?, elements(s2, l2)?, elements(s3, l3)?)?,
        };
        let (batch, count, _) = l2.shape().dims3()?;
        Ok((f, Shape::from((batch, count))))
    }

    fn bwd(
        &self,
        a: &Tensor,
        y: &Tensor,
        theta: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> CandleResult<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let found = match a.dtype() {
            DType::F64 => self.backward::<f64>([a, y, theta], &grad)?,
            _ => self.backward::<f32>([a, y, theta], &grad)?,
        };
        Ok(found.into())
    }
}

impl Score {
    fn backward<T: Number>(&self, tensors: [&Tensor; 3], grad: &Tensor) -> CandleResult<[Option<Tensor>; 3]> {
        let [a, y, theta] = tensors;
        let storages = [a, y, theta, grad].map(Tensor::storage_and_layout);
        let mut slices = [&[][..]; 4];
        for (slice, (storage, layout)) in slices.iter_mut().zip(&storages) {
            let Storage::Cpu(storage) = &**storage else {
                candle_core::bail!("late_fusion: the backward pass runs on the CPU")
            };
            *slice = elements::<T>(storage, layout)?;
        }
        let [a, y, theta, g] = slices;
        self.gradients(tensors, [a, y, theta], g)
    }
}
