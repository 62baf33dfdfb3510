//! Checks of inputs that several modules share.

use candle_core::Tensor;

use crate::{Error, Result, host};

/// Requires exactly the shape `dims`, which the message describes as `letters`, for instance `(B, M)`.
pub(crate) fn dims(what: &'static str, tensor: &Tensor, letters: &str, dims: &[usize]) -> Result<()> {
    if tensor.dims() == dims {
        return Ok(());
    }
    Err(shape(what, tensor, format!("{letters} = {dims:?}")))
}

/// Returns the sizes of a tensor of two dimensions, which must not be empty.
pub(crate) fn dims2(what: &'static str, tensor: &Tensor) -> Result<(usize, usize)> {
    match *tensor.dims() {
        [0, _] | [_, 0] => Err(Error::Empty { what, shape: tensor.dims().to_vec() }),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(shape(what, tensor, "two dimensions (B, D)".to_owned())),
    }
}

/// Returns the sizes of a tensor of three dimensions, which may be empty.
pub(crate) fn dims3(what: &'static str, tensor: &Tensor) -> Result<(usize, usize, usize)> {
    match *tensor.dims() {
        [batch, count, dim] => Ok((batch, count, dim)),
        _ => Err(shape(what, tensor, "three dimensions (B, M, D)".to_owned())),
    }
}

/// Returns the sizes (B, D) of the targets of a batch, which must be finite and not empty.
pub(crate) fn targets(y: &Tensor) -> Result<(usize, usize)> {
    let sizes = dims2("the target y", y)?;
    finite("the target y", y)?;
    Ok(sizes)
}

/// Returns `count`, or an error if it is 0.
pub(crate) fn at_least_one(name: &'static str, count: usize) -> Result<usize> {
    setting(name, count > 0, count, "at least 1").map(|()| count)
}

/// Requires a positive number.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<()> {
    setting(name, value > 0.0 && value.is_finite(), value, "positive and finite")
}

/// Requires every element to be finite.
pub(crate) fn finite(what: &'static str, tensor: &Tensor) -> Result<()> {
    match host::values(tensor)?.into_iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((index, value)) => Err(Error::NonFinite { what, value, index }),
        None => Ok(()),
    }
}

/// Requires `ok`; otherwise the error names the setting, its `value` and the `expected` values.
pub(crate) fn setting(
    name: &'static str,
    ok: bool,
    value: impl ToString,
    expected: &'static str,
) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Setting { name, value: value.to_string(), expected }) }
}

pub(crate) fn shape(what: &'static str, tensor: &Tensor, expected: String) -> Error {
    Error::Shape { what, expected, actual: tensor.dims().to_vec() }
}
