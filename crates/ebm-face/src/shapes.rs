//! The names and shapes of a network's parameters, without their values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use ebm_nn::import::LoadReport;

use crate::Result;

/// Notes what a network asks for, and hands out views of a single 0.
#[derive(Clone, Default)]
struct Recorder {
    shapes: Arc<Mutex<BTreeMap<String, Shape>>>,
}

/// The parameters and buffers that `build` asks its builder for.
///
/// # Errors
/// When `build` fails.
pub(crate) fn record<T>(build: impl FnOnce(VarBuilder) -> Result<T>) -> Result<BTreeMap<String, Shape>> {
    let recorder = Recorder::default();
    build(VarBuilder::from_backend(Box::new(recorder.clone()), DType::F32, Device::Cpu))?;
    Ok(std::mem::take(&mut recorder.shapes.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// How `tensors` compare with what `build` asks its builder for.
///
/// # Errors
/// When `build` fails.
pub(crate) fn compare<T>(
    build: impl FnOnce(VarBuilder) -> Result<T>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<LoadReport> {
    let shapes = record(build)?;
    Ok(LoadReport::compare(shapes.iter().map(|(name, shape)| (name.as_str(), shape)), tensors))
}

impl SimpleBackend for Recorder {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.insert(name.to_owned(), shape.clone());
        Tensor::zeros((), dtype, device)?.broadcast_as(shape)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        Err(candle_core::Error::CannotFindTensor { path: name.to_owned() })
    }

    fn contains_tensor(&self, _: &str) -> bool {
        false
    }
}
