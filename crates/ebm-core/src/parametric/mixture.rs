//! Mixture density network.

use candle_core::Tensor;

use super::{GaussianMixtureDensity, Parametric, batch, count, targets};
use crate::{Result, check};

/// Mixture density network `p(y | x) = Σ_k w_k(x) N(y; μ_k(x), diag(σ_k²(x)))` (Section 2; K = 2, 4, 8 in Table
/// 2).
///
/// The P = K (1 + 2D) outputs are the K logits of the weights w (a softmax), then K × D means, then K × D
/// log-variances; the coordinates of a component are adjacent. The loss is the negative log-likelihood with all
/// constants. The prediction is the mean, which the paper found better than the mean of the component with the
/// largest weight.
///
/// Components with equal initial parameters stay equal, because their gradients are equal. Spread the biases of
/// the means over the range of y, or initialise the weights at random, as the paper does.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureOfGaussians {
    dim: usize,
    components: usize,
}

impl MixtureOfGaussians {
    /// Creates a mixture of K = `components` Gaussians in `dim` coordinates.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when either is 0.
    pub fn new(dim: usize, components: usize) -> Result<Self> {
        Ok(Self {
            dim: check::at_least_one("dim", dim)?,
            components: check::at_least_one("components", components)?,
        })
    }

    /// Returns K, the number of components.
    pub fn components(&self) -> usize {
        self.components
    }

    /// Returns the densities of B inputs with the outputs `(B, P)`. Their log-densities and means are
    /// differentiable in the outputs.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) and [`Error::Shape`](crate::Error::Shape).
    pub fn density(&self, outputs: &Tensor) -> Result<GaussianMixtureDensity> {
        let batch = batch(self, outputs)?;
        let (k, d) = (self.components, self.dim);
        let logits = outputs.narrow(1, 0, k)?;
        let means = outputs.narrow(1, k, k * d)?.reshape((batch, k, d))?;
        let log_variances = outputs.narrow(1, k + k * d, k * d)?.reshape((batch, k, d))?;
        GaussianMixtureDensity::new(&logits, means, log_variances)
    }
}

impl Parametric for MixtureOfGaussians {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        self.components * (1 + 2 * self.dim)
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?;
        Ok(self.density(outputs)?.log_prob(&y)?.mean_all()?.neg()?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        self.density(outputs)?.mean()
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        Ok(Some(self.density(outputs)?.log_prob(y)?))
    }
}
