//! The kernel as an operation on tensors with a gradient.

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor};

use ebm_nn::ops::elements;

use crate::kernel::{Batch, gradients, scores};
use crate::layout::{self, Network, WIDTH};

/// Whether the kernel serves tensors of this kind.
pub(crate) fn is_served(y: &Tensor) -> bool {
    y.device().is_cpu() && y.dtype() == DType::F32
}

/// f of θ (P), features (B, 10) and y (B, M): (B, M), or with its derivative in y behind it (2, B, M). Where
/// the derivative is computed too, no gradient flows to y.
#[derive(Clone, Copy)]
pub(crate) struct Score {
    pub(crate) network: Network,
    pub(crate) derivative: bool,
}

impl Score {
    pub(crate) fn of(self, theta: &Tensor, features: &Tensor, y: &Tensor) -> Result<Tensor> {
        theta.contiguous()?.apply_op3(&features.contiguous()?, &y.contiguous()?, self)
    }

    /// The same without a graph.
    pub(crate) fn detached(self, theta: &Tensor, features: &Tensor, y: &Tensor) -> Result<Tensor> {
        theta.contiguous()?.apply_op3_no_bwd(&features.contiguous()?, &y.contiguous()?, &self)
    }

    /// Requires what the kernel takes for granted; returns (B, M).
    fn sizes(self, theta: &Layout, features: &Layout, y: &Layout) -> Result<(usize, usize)> {
        let (batch, count) = y.shape().dims2()?;
        let len = layout::Layout::new(self.network).len;
        if theta.dims() != [len] || features.dims() != [batch, WIDTH] {
            candle_core::bail!(
                "the toy network takes θ ({len}), features (B, {WIDTH}) and y (B, M), not {:?}, {:?} and {:?}",
                theta.dims(),
                features.dims(),
                y.dims()
            );
        }
        Ok((batch, count))
    }
}

impl CustomOp3 for Score {
    fn name(&self) -> &'static str {
        "toy-score"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, count) = self.sizes(l1, l2, l3)?;
        let (theta, features, y) = (elements::<f32>(s1, l1)?, elements(s2, l2)?, elements(s3, l3)?);
        let total = rows * count;
        let mut results = vec![0.0; if self.derivative { 2 * total } else { total }];
        let (value, first) = results.split_at_mut(total);
        if total > 0 {
            scores(self.network, Batch { theta, features, y, count }, value, first);
        }
        let shape = if self.derivative { Shape::from((2, rows, count)) } else { Shape::from((rows, count)) };
        Ok((CpuStorage::F32(results), shape))
    }

    fn bwd(
        &self,
        theta: &Tensor,
        features: &Tensor,
        y: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let storages = [theta, features, y, &grad].map(Tensor::storage_and_layout);
        let mut slices = [&[][..]; 4];
        for (slice, (storage, layout)) in slices.iter_mut().zip(&storages) {
            let Storage::Cpu(storage) = &**storage else {
                candle_core::bail!("the toy network's kernel runs on the CPU")
            };
            *slice = elements(storage, layout)?;
        }
        let [theta_values, features_values, y_values, g] = slices;
        let count = y.dim(1)?;
        let batch = Batch { theta: theta_values, features: features_values, y: y_values, count };
        let (g_value, g_first) = g.split_at(y_values.len());
        let found = gradients(self.network, batch, g_value, g_first);
        let tensor = |values: Vec<f32>, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device());
        Ok((
            Some(tensor(found.theta, theta)?),
            Some(tensor(found.features, features)?),
            if self.derivative { None } else { Some(tensor(found.y, y)?) },
        ))
    }
}
