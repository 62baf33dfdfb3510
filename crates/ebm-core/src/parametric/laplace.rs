//! The Laplace distribution with independent coordinates.

use candle_core::Tensor;

use super::{Parametric, count, location, location_and_log_scale, targets};
use crate::loss::absolute;
use crate::{Result, check};

/// `p(y | x) = Π_k exp(−|y_k − μ_k| / β_k) / (2 β_k)` (Tables 2 and 4), of P = 2D outputs: D locations μ,
/// then D log-scales `s = log β`.
///
/// The loss is the supplement's, the mean of `Σ_k |y_k − μ_k| exp(−s_k) + s_k`. It is `NLL − D log 2`: the
/// negative log-likelihood without the constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Laplace {
    dim: usize,
}

impl Laplace {
    /// A Laplace distribution in `dim` independent coordinates.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0.
    pub fn new(dim: usize) -> Result<Self> {
        Ok(Self { dim: check::at_least_one("dim", dim)? })
    }

    /// The published loss, `(B, M)`, at the verified candidates `y`, `(B, M, D)`.
    fn cost(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (location, log_scale) = location_and_log_scale(self, outputs)?;
        let distance = absolute(&y.broadcast_sub(&location)?)?;
        let scaled = distance.broadcast_mul(&log_scale.neg()?.exp()?)?;
        Ok(scaled.broadcast_add(&log_scale)?.sum(2)?)
    }
}

impl Parametric for Laplace {
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
        let constant = self.dim as f64 * std::f64::consts::LN_2;
        Ok(Some(self.cost(outputs, y)?.affine(-1.0, -constant)?))
    }
}
