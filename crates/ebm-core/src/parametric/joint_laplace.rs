//! The Laplace distribution of several coordinates that share one distance.

use candle_core::Tensor;

use super::{Parametric, count, location, location_and_log_scale, targets};
use crate::math::norm;
use crate::{Result, check};

/// `p(y | x) ∝ Π_k β_k^{−½} exp{ −½ (Σ_k (y_k − μ_k)² / β_k)^½ }` (supplement, head pose, after Gast and
/// Roth), of P = 2D outputs: D locations μ, then D log-scales `s = log β`.
///
/// The loss is the supplement's, the mean of `(Σ_k (y_k − μ_k)² / β_k)^½ + Σ_k log β_k`. It is
/// `2 NLL − 2 log C_D`, where `C_D = 2^{D+1} π^{D/2} Γ(D) / Γ(D/2)` normalises the density; the supplement
/// leaves it out. At `y = μ`, where the norm has no derivative, the gradient in μ is 0.
///
/// For D = 1 this is a [`Laplace`](super::Laplace) of the scale `2 √β`.
#[derive(Clone, Debug, PartialEq)]
pub struct JointLaplace {
    dim: usize,
}

impl JointLaplace {
    /// A joint Laplace distribution of `dim` coordinates.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0.
    pub fn new(dim: usize) -> Result<Self> {
        Ok(Self { dim: check::at_least_one("dim", dim)? })
    }

    /// The published loss, `(B, M)`, at the verified candidates `y`, `(B, M, D)`.
    fn cost(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (location, log_scale) = location_and_log_scale(self, outputs)?;
        let offset = y.broadcast_sub(&location)?.broadcast_mul(&(&log_scale * -0.5)?.exp()?)?;
        Ok(norm(&offset)?.broadcast_add(&log_scale.sum(2)?)?)
    }

    /// `log C_D`: the integral of `exp(−r/2)` over all of D dimensions, which is the surface
    /// `2 π^{D/2} / Γ(D/2)` of the unit sphere times `∫ r^{D−1} exp(−r/2) dr = 2^D Γ(D)`.
    fn log_normaliser(&self) -> f64 {
        // By the recursion C_{D+2} = C_D · 8 π (D + 1), from C_1 = 4 and C_2 = 8 π.
        let pi = std::f64::consts::PI;
        let (first, base) = if self.dim % 2 == 1 { (1, 4f64) } else { (2, 8.0 * pi) };
        let steps = (first..self.dim).step_by(2);
        base.ln() + steps.map(|d| (8.0 * pi * (d as f64 + 1.0)).ln()).sum::<f64>()
    }
}

impl Parametric for JointLaplace {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        2 * self.dim
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?;
        Ok(self.cost(outputs, &y)?.mean_all()?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        location(self, outputs)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        Ok(Some(self.cost(outputs, y)?.affine(-0.5, -self.log_normaliser())?))
    }
}
