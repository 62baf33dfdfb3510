//! Families with a location and a scale for each coordinate: Gaussian, Laplace and joint Laplace.

use candle_core::{D, Tensor};

use super::{Parametric, batch, count, targets};
use crate::loss::absolute;
use crate::math::{log_normal, norm};
use crate::{Result, check};

/// Defines a family with P = 2D outputs: D locations, then D log-scales. The function `cost` returns a number per
/// candidate. The loss is an affine function of its mean, and the log-density is an affine function of it;
/// `affine` returns the factor and the summand of both.
macro_rules! location_scale {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            dim: usize,
        }

        impl $name {
            /// Creates the family in `dim` coordinates.
            ///
            /// # Errors
            /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0.
            pub fn new(dim: usize) -> Result<Self> {
                Ok(Self { dim: check::at_least_one("dim", dim)? })
            }

            /// Returns the cost, `(B, M)`, of the verified candidates `y`, `(B, M, D)`.
            fn cost_of(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
                batch(self, outputs)?;
                let outputs = outputs.unsqueeze(1)?;
                Self::cost(y, &outputs.narrow(2, 0, self.dim)?, &outputs.narrow(2, self.dim, self.dim)?)
            }
        }

        impl Parametric for $name {
            fn dim(&self) -> usize {
                self.dim
            }

            fn num_outputs(&self) -> usize {
                2 * self.dim
            }

            fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
                let y = targets(self, outputs, y)?;
                let [[factor, summand], _] = self.affine();
                Ok(self.cost_of(outputs, &y)?.mean_all()?.affine(factor, summand)?)
            }

            fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
                batch(self, outputs)?;
                Ok(outputs.narrow(1, 0, self.dim)?)
            }

            fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
                count(self, outputs, y)?;
                let [_, [factor, summand]] = self.affine();
                Ok(Some(self.cost_of(outputs, y)?.affine(factor, summand)?))
            }
        }
    };
}

location_scale! {
    /// Gaussian `p(y | x) = N(y; μ(x), diag(σ²(x)))` (Section 2) with P = 2D outputs: D means μ, then D
    /// log-variances `s = log σ²`.
    ///
    /// The loss is the mean of `Σ_k (y_k − μ_k)² exp(−s_k) + s_k`, as in the supplement. It equals
    /// `2 NLL − D log 2π`: twice the negative log-likelihood, without the constant.
    Gaussian
}

impl Gaussian {
    fn cost(y: &Tensor, mean: &Tensor, log_variance: &Tensor) -> Result<Tensor> {
        log_normal(y, mean, log_variance)
    }

    fn affine(&self) -> [[f64; 2]; 2] {
        [[-2.0, -(self.dim as f64 * std::f64::consts::TAU.ln())], [1.0, 0.0]]
    }
}

location_scale! {
    /// Laplace distribution `p(y | x) = Π_k exp(−|y_k − μ_k| / β_k) / (2 β_k)` (Tables 2 and 4) with P = 2D
    /// outputs: D locations μ, then D log-scales `s = log β`.
    ///
    /// The loss is the mean of `Σ_k |y_k − μ_k| exp(−s_k) + s_k`, as in the supplement. It equals
    /// `NLL − D log 2`: the negative log-likelihood without the constant.
    Laplace
}

impl Laplace {
    fn cost(y: &Tensor, location: &Tensor, log_scale: &Tensor) -> Result<Tensor> {
        let distance = absolute(&y.broadcast_sub(location)?)?;
        let scaled = distance.broadcast_mul(&log_scale.neg()?.exp()?)?;
        Ok(scaled.broadcast_add(log_scale)?.sum(2)?)
    }

    fn affine(&self) -> [[f64; 2]; 2] {
        [[1.0, 0.0], [-1.0, -(self.dim as f64 * std::f64::consts::LN_2)]]
    }
}

location_scale! {
    /// Joint Laplace distribution `p(y | x) ∝ Π_k β_k^{−½} exp{ −½ (Σ_k (y_k − μ_k)² / β_k)^½ }` (supplement,
    /// head pose, after Gast and Roth) with P = 2D outputs: D locations μ, then D log-scales `s = log β`.
    ///
    /// The loss is the mean of `(Σ_k (y_k − μ_k)² / β_k)^½ + Σ_k log β_k`, as in the supplement. It equals
    /// `2 NLL − 2 log C_D`, where `C_D = 2^{D+1} π^{D/2} Γ(D) / Γ(D/2)` normalises the density; the supplement
    /// omits this constant. At `y = μ` the norm has no derivative, and the gradient in μ is 0.
    ///
    /// For D = 1 this is a [`Laplace`] distribution of the scale `2 √β`.
    JointLaplace
}

impl JointLaplace {
    fn cost(y: &Tensor, location: &Tensor, log_scale: &Tensor) -> Result<Tensor> {
        let offset = y.broadcast_sub(location)?.broadcast_mul(&(log_scale * -0.5)?.exp()?)?;
        Ok(norm(&offset)?.broadcast_add(&log_scale.sum(2)?)?)
    }

    fn affine(&self) -> [[f64; 2]; 2] {
        [[1.0, 0.0], [-0.5, -self.log_normaliser()]]
    }

    /// Returns `log C_D`, the logarithm of the integral of `exp(−r/2)` over D dimensions. The integral is the
    /// surface `2 π^{D/2} / Γ(D/2)` of the unit sphere times `∫ r^{D−1} exp(−r/2) dr = 2^D Γ(D)`.
    fn log_normaliser(&self) -> f64 {
        // The recursion is C_{D+2} = C_D · 8 π (D + 1), with C_1 = 4 and C_2 = 8 π.
        let pi = std::f64::consts::PI;
        let (first, base) = if self.dim % 2 == 1 { (1, 4f64) } else { (2, 8.0 * pi) };
        let steps = (first..self.dim).step_by(2);
        base.ln() + steps.map(|d| (8.0 * pi * (d as f64 + 1.0)).ln()).sum::<f64>()
    }
}

/// Returns the Kullback–Leibler divergence `KL(q ‖ p)` of two Gaussians with independent coordinates, in closed
/// form:
///
/// `½ Σ_k { exp(s_q − s_p) − 1 − (s_q − s_p) + (μ_q − μ_p)² exp(−s_p) }`
///
/// `q` and `p` have the shape `(…, 2Z)`: Z means μ, then Z log-variances s. The result has the shape `(…)`.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) when the shapes differ or the last dimension is odd.
pub fn gaussian_kl(q: &Tensor, p: &Tensor) -> Result<Tensor> {
    check::dims("p of KL(q ‖ p)", p, "q's shape", q.dims())?;
    let size = q.dims().last().copied().unwrap_or(1);
    if size % 2 == 1 {
        return Err(check::shape("q of KL(q ‖ p)", q, "(…, 2Z)".to_owned()));
    }
    let z = size / 2;
    let mean_difference = (q.narrow(D::Minus1, 0, z)? - p.narrow(D::Minus1, 0, z)?)?;
    let s_p = p.narrow(D::Minus1, z, z)?;
    let s_difference = (q.narrow(D::Minus1, z, z)? - &s_p)?;
    let variances = ((s_difference.exp()? - 1.0)? - s_difference)?;
    let means = (mean_difference * (s_p * -0.5)?.exp()?)?.sqr()?;
    Ok(((variances + means)?.sum(D::Minus1)? * 0.5)?)
}
