//! Regression as classification: a softmax over bins.

use candle_core::Tensor;

use super::Bins;
use super::{Parametric, batch, count, targets};
use crate::math::log_softmax;
use crate::{Result, check, host};

/// Softmax over the [`Bins`] of each coordinate (supplement, age and head pose): classes with the centres c and
/// the probabilities `p_c`. The P = D C outputs are the C logits of one coordinate after the other.
///
/// The loss is `CE + w_L² (E − y)² + w_Var Σ_c p_c (c − E)²` with `E = Σ_c p_c c`, summed over the coordinates.
/// CE is the cross-entropy of the bin nearest to y; the second term compares E with y itself. The paper uses
/// `w_L² = 0.1`, and `w_Var = 0.05` or 0. Pan et al., who introduced the terms, use 0.2 and 0.05, with a factor ½
/// in the second term.
///
/// The prediction is E. The density spreads `p_c` evenly over its bin and is zero outside all bins, so that its
/// negative log-likelihood is CE plus the logarithm of the bin's width. E is the mean of this density if every
/// centre is the middle of its bin, as in evenly spaced bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    dim: usize,
    bins: Bins,
    pub(super) l2_weight: f64,
    pub(super) variance_weight: f64,
}

impl Softmax {
    /// Creates a softmax over `bins` for each of `dim` coordinates; a weight of 0 leaves its term out.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when `dim` is 0, or a weight is negative or not finite.
    pub fn new(dim: usize, bins: Bins, l2_weight: f64, variance_weight: f64) -> Result<Self> {
        for (name, weight) in [("l2_weight", l2_weight), ("variance_weight", variance_weight)] {
            let ok = weight >= 0.0 && weight.is_finite();
            check::setting(name, ok, weight, "a finite number, not negative")?;
        }
        Ok(Self { dim: check::at_least_one("dim", dim)?, bins, l2_weight, variance_weight })
    }

    /// Returns the bins, which all coordinates share.
    pub fn bins(&self) -> &Bins {
        &self.bins
    }

    /// Returns `log p_c`, `(B, D, C)`.
    fn log_probabilities(&self, outputs: &Tensor) -> Result<Tensor> {
        let batch = batch(self, outputs)?;
        log_softmax(&outputs.reshape((batch, self.dim, self.bins.len()))?, 2)
    }

    /// Returns `Σ_c p_c c`, `(B, D, 1)`, and the centres, `(C,)`.
    fn expectation(&self, probabilities: &Tensor) -> Result<(Tensor, Tensor)> {
        let centers = host::tensor(self.bins.centers().to_vec(), self.bins.len(), probabilities)?;
        Ok((probabilities.broadcast_mul(&centers)?.sum_keepdim(2)?, centers))
    }
}

impl Parametric for Softmax {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        self.dim * self.bins.len()
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?.squeeze(1)?; // (B, D)
        let log_p = self.log_probabilities(outputs)?;
        let labels = host::values(&y)?.into_iter().map(|y| self.bins.nearest(y) as u32).collect();
        let labels = Tensor::from_vec(labels, (y.dim(0)?, self.dim, 1), outputs.device())?;
        let mut loss = log_p.contiguous()?.gather(&labels, 2)?.sum((1, 2))?.mean_all()?.neg()?;

        let p = log_p.exp()?;
        let (expectation, centers) = self.expectation(&p)?;
        if self.l2_weight > 0.0 {
            let l2 = (expectation.squeeze(2)? - y)?.sqr()?.sum(1)?.mean_all()?;
            loss = (loss + (l2 * self.l2_weight)?)?;
        }
        if self.variance_weight > 0.0 {
            let spread = centers.broadcast_sub(&expectation)?.sqr()?;
            let variance = (p * spread)?.sum((1, 2))?.mean_all()?;
            loss = (loss + (variance * self.variance_weight)?)?;
        }
        Ok(loss)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        Ok(self.expectation(&self.log_probabilities(outputs)?.exp()?)?.0.squeeze(2)?)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        Ok(Some(self.bins.log_density(&self.log_probabilities(outputs)?, y)?))
    }
}
