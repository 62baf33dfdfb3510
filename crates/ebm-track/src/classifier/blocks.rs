//! Parameters θ of the classifier as a list of tensors, and the filter's matrix as a function of θ.

use candle_core::{DType, Tensor};

use crate::Result;

/// θ, or a change of it.
pub(super) type Blocks = Vec<Tensor>;

/// Computes the filter's matrix W `(C, kernel²)` from θ. Either θ = (W), or θ = (w₂, w₁) and W = w₁ w₂, with the
/// projection w₁ `(C, P)` and the filter w₂ `(P, kernel²)`.
///
/// The scores w₂ ∗ (w₁ x) are bilinear in θ, so products with the samples need W alone, which has few columns.
pub(super) fn filter(theta: &Blocks) -> Result<Tensor> {
    match theta.as_slice() {
        [w2, w1] => Ok(w1.matmul(w2)?),
        _ => Ok(theta[0].clone()),
    }
}

/// Computes the differential dW = W′(θ) δ for a change δ.
pub(super) fn differential(theta: &Blocks, change: &Blocks) -> Result<Tensor> {
    match theta.as_slice() {
        [w2, w1] => Ok((w1.matmul(&change[0])? + change[1].matmul(w2)?)?),
        _ => Ok(change[0].clone()),
    }
}

/// Computes the adjoint W′(θ)ᵀ G for a gradient G in W.
pub(super) fn adjoint(theta: &Blocks, gradient: &Tensor) -> Result<Blocks> {
    match theta.as_slice() {
        [w2, w1] => Ok(vec![w1.t()?.matmul(gradient)?, gradient.matmul(&w2.t()?)?]),
        _ => Ok(vec![gradient.clone()]),
    }
}

/// Returns the value of a scalar tensor.
pub(super) fn number(scalar: &Tensor) -> Result<f64> {
    Ok(scalar.to_dtype(DType::F64)?.to_scalar()?)
}

/// Computes ⟨a, b⟩ over all blocks.
pub(super) fn dot(a: &Blocks, b: &Blocks) -> Result<f64> {
    a.iter().zip(b).map(|(a, b)| number(&(a * b)?.sum_all()?)).sum()
}

/// Computes a + factor · b.
pub(super) fn add_scaled(a: &Blocks, factor: f64, b: &Blocks) -> Result<Blocks> {
    a.iter().zip(b).map(|(a, b)| Ok((a + (b * factor)?)?)).collect()
}

/// Multiplies each block by its factor.
pub(super) fn scale(a: &Blocks, factors: &[f64]) -> Result<Blocks> {
    a.iter().zip(factors).map(|(a, &factor)| Ok((a * factor)?)).collect()
}
