//! The head without a graph, with weights packed once.

use std::fmt;

use candle_core::{DType, Device, Tensor};

use super::few_rows::FEW;
use super::kernel::{Head, pack_backward, pack_forward};
use super::network::{Network, Sizes};
use super::product::PackedProduct;
use super::refuse;
use crate::Result;

/// Parameters that a [`LateFusion`](super::LateFusion) packs if they are constant.
#[derive(Debug)]
pub(super) enum Packed {
    F32(Parameters<f32>),
    F64(Parameters<f64>),
}

pub(super) struct Parameters<T: PackedProduct> {
    theta: Vec<T>,
    forward: Vec<T::Packed>,
    backward: Vec<T::Packed>,
}

impl<T: PackedProduct> fmt::Debug for Parameters<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameters").finish_non_exhaustive()
    }
}

impl Packed {
    pub(super) fn new(sizes: &Sizes, theta: &Tensor) -> Result<Self> {
        let theta = theta.to_device(&Device::Cpu)?;
        Ok(match theta.dtype() {
            DType::F32 => Self::F32(Parameters::new(sizes, &theta)?),
            DType::F64 => Self::F64(Parameters::new(sizes, &theta)?),
            other => return refuse(format!("expected f32 or f64, got {other:?}")),
        })
    }

    /// Returns f (B, M) of `a` (B, H) and `y` (B, M, D), and its gradient in y. Without `with_gradient` the second result is
    /// `y`. The caller has checked the shapes.
    pub(super) fn run(
        &self,
        sizes: &Sizes,
        a: &Tensor,
        y: &Tensor,
        with_gradient: bool,
    ) -> Result<(Tensor, Tensor)> {
        if y.elem_count() == 0 {
            return Ok((Tensor::zeros(&y.dims()[..2], y.dtype(), y.device())?, y.detach()));
        }
        match self {
            Self::F32(parameters) => parameters.run(sizes, a, y, with_gradient),
            Self::F64(parameters) => parameters.run(sizes, a, y, with_gradient),
        }
    }
}

impl<T: PackedProduct> Parameters<T> {
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
