//! What is optimised: θ as a list of tensors, and the filter's matrix as a function of it.

use candle_core::{DType, Tensor};

use crate::Result;

/// θ, or a change of it.
pub(super) type Blocks = Vec<Tensor>;

/// How the filter's matrix W `(C, kernel²)` depends on θ, and how θ is regularised.
pub(super) trait Parameterisation {
    /// λ of each block.
    fn regularisation(&self) -> Vec<f64>;
    /// W(θ).
    fn filter(&self, theta: &Blocks) -> Result<Tensor>;
    /// dW = W′(θ) δ.
    fn differential(&self, theta: &Blocks, change: &Blocks) -> Result<Tensor>;
    /// W′(θ)ᵀ G, the adjoint.
    fn adjoint(&self, theta: &Blocks, gradient: &Tensor) -> Result<Blocks>;
}

/// The filter alone: θ = (W).
pub(super) struct FilterAlone {
    pub regularisation: f64,
}

/// Projection and filter: θ = (w₂, w₁) and W = w₁ w₂, with w₁ `(C, P)` and w₂ `(P, kernel²)`.
///
/// The scores w₂ ∗ (w₁ x) are bilinear in θ, so that all products with the samples are those of W alone, with
/// kernel² columns and not P.
pub(super) struct Factors {
    pub filter: f64,
    pub projection: f64,
}

impl Parameterisation for FilterAlone {
    fn regularisation(&self) -> Vec<f64> {
        vec![self.regularisation]
    }

    fn filter(&self, theta: &Blocks) -> Result<Tensor> {
        Ok(theta[0].clone())
    }

    fn differential(&self, _: &Blocks, change: &Blocks) -> Result<Tensor> {
        Ok(change[0].clone())
    }

    fn adjoint(&self, _: &Blocks, gradient: &Tensor) -> Result<Blocks> {
        Ok(vec![gradient.clone()])
    }
}

impl Parameterisation for Factors {
    fn regularisation(&self) -> Vec<f64> {
        vec![self.filter, self.projection]
    }

    fn filter(&self, theta: &Blocks) -> Result<Tensor> {
        Ok(theta[1].matmul(&theta[0])?)
    }

    fn differential(&self, theta: &Blocks, change: &Blocks) -> Result<Tensor> {
        Ok((theta[1].matmul(&change[0])? + change[1].matmul(&theta[0])?)?)
    }

    fn adjoint(&self, theta: &Blocks, gradient: &Tensor) -> Result<Blocks> {
        Ok(vec![theta[1].t()?.matmul(gradient)?, gradient.matmul(&theta[0].t()?)?])
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
