//! Moving small tensors between a device and plain vectors.

use candle_core::{DType, Device, Shape, Tensor};

use crate::Result;

/// The elements in row-major order.
pub(crate) fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    // The cast comes after the move: some devices have no f64.
    Ok(tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

/// A tensor with the type and device of `like`, rounded to that type.
pub(crate) fn tensor(values: Vec<f64>, shape: impl Into<Shape>, like: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, shape.into(), &Device::Cpu)?
        .to_dtype(like.dtype())?
        .to_device(like.device())?)
}
