//! The classifier's objective: Σ_j γ_j ‖φ(s_j) − t_j‖² + Σ_b λ_b ‖θ_b‖², with the scores s_j = filter ∗ x_j.

use candle_core::Tensor;
use ebm_ops::heads::{linear_weight_gradient, spread_taps, sum_taps};
use ebm_ops::linear;

use crate::Result;

/// The activation φ: φ(x) = x for x ≥ 0, else m (e^{x/m} − 1). It is bounded below by −m, so the exact score of a
/// background pixel does not matter if it is negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mlu(pub f64);

impl Mlu {
    /// Computes φ(x) and φ′(x).
    pub fn value_and_slope(self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let negative = (x.minimum(0.0)? / self.0)?.exp()?;
        let value = (x.maximum(0.0)? + ((&negative - 1.0)? * self.0)?)?;
        // For x ≥ 0 the exponential is 1, and so is the slope.
        Ok((value, negative))
    }
}

/// Samples x_j, as rows of channels, with their targets and weights.
pub(super) struct Samples {
    /// `(N·H·W, C)`.
    rows: Tensor,
    /// Targets t `(N, H, W)`.
    targets: Tensor,
    /// Roots of the weights, √γ `(N, 1, 1)`.
    root_weights: Tensor,
    kernel: usize,
    mlu: Mlu,
}

/// The data term of the objective, linearised about one point: residual r, and factors of products with the Jacobian J.
pub(super) struct Linearised<'a> {
    samples: &'a Samples,
    /// √γ φ′(s), `(N, H, W)`.
    slope: Tensor,
    /// Square of `slope`, which every product with JᵀJ needs.
    slope_squared: Tensor,
    /// √γ (φ(s) − t), `(N, H, W)`.
    residual: Tensor,
}

impl Samples {
    /// Creates samples from `x` `(N, H·W, C)`, `targets` `(N, H, W)` and `weights` γ `(N)`, for `kernel²` taps.
    pub fn new(x: &Tensor, targets: &Tensor, weights: &Tensor, kernel: usize, mlu: Mlu) -> Result<Self> {
        let root_weights = weights.sqrt()?.reshape(((), 1, 1))?;
        Ok(Self { rows: x.flatten(0, 1)?, targets: targets.clone(), root_weights, kernel, mlu })
    }

    /// Computes the scores s `(N, H, W)` of the filter, a matrix `(C, kernel²)`.
    pub fn scores(&self, filter: &Tensor) -> Result<Tensor> {
        let (n, height, width) = self.targets.dims3()?;
        let products = linear(&self.rows, &filter.t()?.contiguous()?, None)?;
        Ok(sum_taps(&products.reshape((n, height, width, ()))?)?)
    }

    /// Computes the adjoint of [`scores`](Self::scores): `(N, H, W)` -> `(C, kernel²)`.
    fn gradient(&self, scores: &Tensor) -> Result<Tensor> {
        let spread = spread_taps(scores, self.kernel)?.reshape((self.rows.dim(0)?, ()))?;
        Ok(linear_weight_gradient(&self.rows, &spread)?.t()?.contiguous()?)
    }

    pub fn linearise(&self, filter: &Tensor) -> Result<Linearised<'_>> {
        let (value, slope) = self.mlu.value_and_slope(&self.scores(filter)?)?;
        let residual = (value - &self.targets)?.broadcast_mul(&self.root_weights)?;
        let slope = slope.broadcast_mul(&self.root_weights)?;
        Ok(Linearised { samples: self, slope_squared: slope.sqr()?, slope, residual })
    }
}

impl Linearised<'_> {
    /// Computes Jᵀ r.
    pub fn residual_gradient(&self) -> Result<Tensor> {
        self.samples.gradient(&(&self.slope * &self.residual)?)
    }

    /// Computes Jᵀ J δ for a change δ `(C, kernel²)` of the filter.
    pub fn curvature(&self, change: &Tensor) -> Result<Tensor> {
        self.samples.gradient(&(self.samples.scores(change)? * &self.slope_squared)?)
    }

    /// Returns ‖r‖².
    #[cfg(test)]
    pub fn loss(&self) -> Result<f64> {
        super::blocks::number(&self.residual.sqr()?.sum_all()?)
    }

    /// Returns φ(s).
    #[cfg(test)]
    pub fn values(&self) -> Tensor {
        let residual = self.residual.broadcast_div(&self.samples.root_weights).unwrap();
        (residual + &self.samples.targets).unwrap()
    }

    /// Returns the residuals r in row-major order.
    #[cfg(test)]
    pub fn residuals(&self) -> Vec<f64> {
        self.residual.flatten_all().unwrap().to_vec1().unwrap()
    }
}
