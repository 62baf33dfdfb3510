//! What the models of `candle_transformers` ask for, put right on the way to the parameters.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

/// What a model gets for a name.
pub(super) enum Answer {
    /// The parameter, drawn as the model says where it is new.
    Parameter,
    /// The parameter, drawn like this where it is new.
    Drawn(Init),
    /// Nothing: the model does without where it can.
    Nothing,
}

struct Filter<'a, F> {
    parameters: VarBuilder<'a>,
    answer: F,
}

/// A builder whose names are answered by `answer`, from `parameters`.
pub(super) fn filter<'a>(
    parameters: VarBuilder<'a>,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'a,
) -> VarBuilder<'a> {
    let (dtype, device) = (parameters.dtype(), parameters.device().clone());
    VarBuilder::from_backend(Box::new(Filter { parameters, answer }), dtype, device)
}

impl<F: Fn(&str) -> Answer + Send + Sync> SimpleBackend for Filter<'_, F> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        hint: Init,
        dtype: DType,
        _: &Device,
    ) -> candle_core::Result<Tensor> {
        let parameter = |init| self.parameters.get_with_hints_dtype(shape, name, init, dtype);
        match (self.answer)(name) {
            Answer::Parameter => parameter(hint),
            Answer::Drawn(init) => parameter(init),
            Answer::Nothing => Err(candle_core::Error::CannotFindTensor { path: name.to_owned() }),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, _: &Device) -> candle_core::Result<Tensor> {
        self.parameters.get_unchecked_dtype(name, dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.parameters.contains_tensor(name)
    }
}
