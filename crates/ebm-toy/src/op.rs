//! The fused kernel as a tensor operation with a gradient.

use candle_core::{CpuStorage, CustomOp3, DType, Layout as Strides, Result, Shape, Tensor, bail};
use ebm_ops::elements;

use crate::kernel::{Part, Pass};
use crate::layout::{Layout, Network, WIDTH};

/// Returns whether the kernel supports tensors of this kind.
pub(crate) fn is_served(y: &Tensor) -> bool {
    y.device().is_cpu() && y.dtype() == DType::F32
}

/// Computes f, (B, M), of θ (P), features (B, 10) and y (B, M). With `derivative` the result is f and its derivative
/// in y, (2, B, M), and no gradient flows to y.
#[derive(Clone, Copy)]
pub(crate) struct Score {
    pub(crate) network: Network,
    pub(crate) derivative: bool,
}

impl Score {
    /// Runs the kernel on `theta`, `features` and `y`, (B, `count`): without `grad` for scores, with the result's gradients
    /// for the gradients of the inputs.
    fn parts(&self, [theta, features, y]: [&[f32]; 3], count: usize, grad: Option<&[f32]>) -> Vec<Part> {
        let (network, layout) = (self.network, Layout::new(self.network));
        if self.derivative {
            Pass::<2> { network, layout, theta, count }.of_batch(features, y, grad)
        } else {
            Pass::<1> { network, layout, theta, count }.of_batch(features, y, grad)
        }
    }

    pub(crate) fn of(self, theta: &Tensor, features: &Tensor, y: &Tensor) -> Result<Tensor> {
        theta.contiguous()?.apply_op3(&features.contiguous()?, &y.contiguous()?, self)
    }
}

impl CustomOp3 for Score {
    fn name(&self) -> &'static str {
        "toy-score"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Strides,
        s2: &CpuStorage,
        l2: &Strides,
        s3: &CpuStorage,
        l3: &Strides,
    ) -> Result<(CpuStorage, Shape)> {
        let ((rows, count), len) = (l3.shape().dims2()?, Layout::new(self.network).len);
        if l1.dims() != [len] || l2.dims() != [rows, WIDTH] {
            let [theta, features, y] = [l1, l2, l3].map(Strides::dims);
            bail!(
                "the toy network takes θ, features (B, {WIDTH}) and y (B, M), not {theta:?}, {features:?} and {y:?}"
            )
        }
        let slices = [elements::<f32>(s1, l1)?, elements(s2, l2)?, elements(s3, l3)?];
        let (parts, orders) = (self.parts(slices, count, None), 1 + usize::from(self.derivative));
        let results = (0..orders).flat_map(|order| parts.iter().map(move |part| &part.scores[order][..]));
        let results = results.collect::<Vec<_>>().concat();
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
        let values = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
        let tensor = |values: Vec<f32>, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device());
        let slices = [&values(theta)?[..], &values(features)?, &values(y)?];
        let parts = self.parts(slices, y.dim(1)?, Some(&values(grad)?));
        let mut in_theta = vec![0.0; theta.elem_count()];
        for part in &parts {
            in_theta.iter_mut().zip(&part.theta).for_each(|(sum, term)| *sum += term);
        }
        let all = |of: fn(&Part) -> &[f32]| parts.iter().map(of).collect::<Vec<_>>().concat();
        let in_features = tensor(all(|part| &part.features), features)?;
        let in_y = (!self.derivative).then(|| tensor(all(|part| &part.y), y)).transpose()?;
        Ok((Some(tensor(in_theta, theta)?), Some(in_features), in_y))
    }
}
