//! What is optimised: θ as a list of tensors, and the filter's matrix as a function of it.

use candle_core::{DType, Tensor};

use crate::Result;

/// θ, or a change of it.
pub(super) type Blocks = Vec<Tensor>;

/// The filter's matrix W `(C, kernel²)` as a function of θ: W alone, θ = (W); or w₁ w₂ of projection and filter,
/// θ = (w₂, w₁) with w₁ `(C, P)` and w₂ `(P, kernel²)`.
///
/// The scores w₂ ∗ (w₁ x) are bilinear in θ, so that all products with the samples are those of W alone, with
/// kernel² columns and not P.
pub(super) fn filter(theta: &Blocks) -> Result<Tensor> {
    match theta.as_slice() {
        [w2, w1] => Ok(w1.matmul(w2)?),
        _ => Ok(theta[0].clone()),
    }
}

/// dW = W′(θ) δ.
pub(super) fn differential(theta: &Blocks, change: &Blocks) -> Result<Tensor> {
    match theta.as_slice() {
        [w2, w1] => Ok((w1.matmul(&change[0])? + change[1].matmul(w2)?)?),
        _ => Ok(change[0].clone()),
    }
}

/// W′(θ)ᵀ G, the adjoint.
pub(super) fn adjoint(theta: &Blocks, gradient: &Tensor) -> Result<Blocks> {
    match theta.as_slice() {
        [w2, w1] => Ok(vec![w1.t()?.matmul(gradient)?, gradient.matmul(&w2.t()?)?]),
        _ => Ok(vec![gradient.clone()]),
    }
}

/// The scalar tensor's value.
pub(super) fn number(scalar: &Tensor) -> Result<f64> {
    Ok(scalar.to_dtype(DType::F64)?.to_scalar()?)
}

/// ⟨a, b⟩ over all blocks.
pub(super) fn dot(a: &Blocks, b: &Blocks) -> Result<f64> {
    a.iter().zip(b).map(|(a, b)| number(&(a * b)?.sum_all()?)).sum()
}

/// a + factor · b.
pub(super) fn add_scaled(a: &Blocks, factor: f64, b: &Blocks) -> Result<Blocks> {
    a.iter().zip(b).map(|(a, b)| Ok((a + (b * factor)?)?)).collect()
}

/// Each block times its factor.
pub(super) fn scale(a: &Blocks, factors: &[f64]) -> Result<Blocks> {
    a.iter().zip(factors).map(|(a, &factor)| Ok((a * factor)?)).collect()
}
