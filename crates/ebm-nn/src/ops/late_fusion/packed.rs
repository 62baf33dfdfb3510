//! The head for prediction: weights packed once, no graph.

use candle_core::{DType, Device, Tensor};

use super::few::FEW;
use super::kernel::{Head, pack_backward, pack_forward};
use super::network::{Network, Sizes};
use super::number::Number;
use super::{check_arguments, refuse};
use crate::Result;

/// A [`LateFusion`](super::LateFusion) with fixed parameters.
pub struct PackedLateFusion {
    sizes: Sizes,
    parameters: Parameters,
}

enum Parameters {
    F32(Packed<f32>),
    F64(Packed<f64>),
}

struct Packed<T: Number> {
    theta: Vec<T>,
    forward: Vec<T::Packed>,
    backward: Vec<T::Packed>,
}

impl PackedLateFusion {
    pub(super) fn new(sizes: &Sizes, theta: &Tensor) -> Result<Self> {
        let theta = theta.to_device(&Device::Cpu)?;
        let parameters = match theta.dtype() {
            DType::F32 => Parameters::F32(Packed::new(sizes, &theta)?),
            DType::F64 => Parameters::F64(Packed::new(sizes, &theta)?),
            other => return refuse(format!("expected f32 or f64, got {other:?}")),
        };
        Ok(Self { sizes: sizes.clone(), parameters })
    }

    /// `a` (B, H) and `y` (B, M, D) -> f (B, M), outside any graph.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) where a shape does not fit; for another type or device than the
    /// parameters'.
    pub fn score(&self, a: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(self.run(a, y, false)?.0)
    }

    /// f (B, M) and its gradient in y (B, M, D), outside any graph.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    pub fn score_and_grad(&self, a: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        self.run(a, y, true)
    }

    /// The second tensor is y without `with_gradient`.
    fn run(&self, a: &Tensor, y: &Tensor, with_gradient: bool) -> Result<(Tensor, Tensor)> {
        check_arguments(&self.sizes, a, y)?;
        if y.elem_count() == 0 {
            return Ok((Tensor::zeros(&y.dims()[..2], y.dtype(), y.device())?, y.detach()));
        }
        match &self.parameters {
            Parameters::F32(packed) => packed.run(&self.sizes, a, y, with_gradient),
            Parameters::F64(packed) => packed.run(&self.sizes, a, y, with_gradient),
        }
    }
}

impl<T: Number> Packed<T> {
    fn new(sizes: &Sizes, theta: &Tensor) -> Result<Self> {
        let theta = theta.to_vec1()?;
        let network = Network::new(sizes, &theta);
        let forward = pack_forward::<T>(sizes, network.join);
        let backward = pack_backward::<T>(sizes, network.join, network.out);
        Ok(Self { theta, forward, backward })
    }

    fn run(&self, sizes: &Sizes, a: &Tensor, y: &Tensor, with_gradient: bool) -> Result<(Tensor, Tensor)> {
        let (projected, rows) = (a.flatten_all()?.to_vec1()?, y.flatten_all()?.to_vec1()?);
        let network = Network::new(sizes, &self.theta);
        let (batch, count, _) = y.dims3()?;
        let head = Head { sizes, network, projected: &projected, y: &rows, count };
        let (f, gradient) = if batch * count <= FEW {
            head.few_scores(with_gradient)?
        } else if with_gradient {
            head.scores_and_gradients(&self.forward, &self.backward)?
        } else {
            (head.scores(&self.forward, false)?.0, Vec::new())
        };
        let f = Tensor::from_vec(f, (batch, count), y.device())?;
        let gradient =
            if with_gradient { Tensor::from_vec(gradient, y.shape(), y.device())? } else { y.detach() };
        Ok((f, gradient))
    }
}
