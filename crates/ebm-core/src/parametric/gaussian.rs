//! The Gaussian with independent coordinates.

use candle_core::{D, Tensor};

use super::{Parametric, count, location, location_and_log_scale, targets};
use crate::math::log_normal;
use crate::{Result, check};

/// `p(y | x) = N(y; μ(x), diag(σ²(x)))` (Section 2), of P = 2D outputs: D means μ, then D log-variances
/// `s = log σ²`.
///
/// The loss is the supplement's, the mean of `Σ_k (y_k − μ_k)² exp(−s_k) + s_k`. It is `2 NLL − D log 2π`:
/// twice the negative log-likelihood, without the constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    dim: usize,
}

impl Gaussian {
    /// A Gaussian in `dim` coordinates.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0.
    pub fn new(dim: usize) -> Result<Self> {
        Ok(Self { dim: check::at_least_one("dim", dim)? })
    }

    /// `log p`, `(B, M)`, at the verified candidates `y`, `(B, M, D)`.
    fn log_density(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (mean, log_variance) = location_and_log_scale(self, outputs)?;
        log_normal(y, &mean, &log_variance)
    }
}

impl Parametric for Gaussian {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        2 * self.dim
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?;
        let constant = self.dim as f64 * std::f64::consts::TAU.ln();
        Ok(self.log_density(outputs, &y)?.mean_all()?.affine(-2.0, -constant)?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        location(self, outputs)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        Ok(Some(self.log_density(outputs, y)?))
    }
}

/// The Kullback–Leibler divergence `KL(q ‖ p)` of two Gaussians with independent coordinates, in closed form:
///
/// `½ Σ_k { exp(s_q − s_p) − 1 − (s_q − s_p) + (μ_q − μ_p)² exp(−s_p) }`
///
/// `q` and `p` have the shape `(…, 2Z)`: Z means μ, then Z log-variances s. The result has the shape `(…)`.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) when the shapes differ or the last dimension is odd.
pub fn gaussian_kl(q: &Tensor, p: &Tensor) -> Result<Tensor> {
    crate::check::dims("p of KL(q ‖ p)", p, "q's shape", q.dims())?;
    let size = q.dims().last().copied().unwrap_or(1);
    if size % 2 == 1 {
        return Err(crate::check::shape("q of KL(q ‖ p)", q, "(…, 2Z)".to_owned()));
    }
    let z = size / 2;
    let mean_difference = (q.narrow(D::Minus1, 0, z)? - p.narrow(D::Minus1, 0, z)?)?;
    let s_p = p.narrow(D::Minus1, z, z)?;
    let s_difference = (q.narrow(D::Minus1, z, z)? - &s_p)?;
    let variances = ((s_difference.exp()? - 1.0)? - s_difference)?;
    let means = (mean_difference * (s_p * -0.5)?.exp()?)?.sqr()?;
    Ok(((variances + means)?.sum(D::Minus1)? * 0.5)?)
}
