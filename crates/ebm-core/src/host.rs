//! Moving small tensors between a device and plain vectors.

use candle_core::{DType, Device, Shape, Tensor};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use crate::Result;

/// Returns the elements in row-major order.
pub(crate) fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    // The cast follows the move because some devices have no f64.
    Ok(tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

/// Returns a tensor of `values` with the type and device of `like`, rounded to that type.
pub(crate) fn tensor(values: Vec<f64>, shape: impl Into<Shape>, like: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, shape.into(), &Device::Cpu)?
        .to_dtype(like.dtype())?
        .to_device(like.device())?)
}

/// Returns independent draws of N(0, 1) with the type and device of `like`.
///
/// The CPU draws them, because a device's own generator cannot be passed as an argument and not every one can be
/// seeded.
pub(crate) fn standard_normal(
    shape: impl Into<Shape>,
    like: &Tensor,
    rng: &mut dyn RngCore,
) -> Result<Tensor> {
    let shape = shape.into();
    let mut draws = (0..shape.elem_count()).map(|_| rng.sample::<f64, _>(StandardNormal));
    if like.dtype() == DType::F32 {
        // These are the same numbers as below, without a copy of them in f64.
        let values: Vec<f32> = draws.map(|draw| draw as f32).collect();
        return Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(like.device())?);
    }
    tensor(draws.by_ref().collect(), shape, like)
}
