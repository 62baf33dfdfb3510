//! Mixtures of Gaussians, one for each input.

use candle_core::Tensor;
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use super::OUTPUTS;
use crate::math::{log_normal, log_softmax, log_sum_exp};
use crate::{Error, Proposal, Result, check, host};

/// Batch of B densities `Σ_k w_k N(y; μ_k, diag(σ_k²))` with K components in D coordinates, one density per
/// input.
///
/// The densities do not depend on a target, unlike the proposal of Eq. 5,
/// [`GaussianMixture`](crate::GaussianMixture), and each component has its own weight and mean. They serve as a
/// model and as a learned proposal `q(y | x)`.
#[derive(Clone, Debug)]
pub struct GaussianMixtureDensity {
    log_weights: Tensor,
    means: Tensor,
    log_variances: Tensor,
}

impl GaussianMixtureDensity {
    /// Creates the densities with the weights `softmax(logits)`, `(B, K)`, and with `means` and `log_variances`,
    /// `(B, K, D)`.
    ///
    /// # Errors
    /// [`Error::Empty`] for an empty tensor, and [`Error::Shape`].
    pub fn new(logits: &Tensor, means: Tensor, log_variances: Tensor) -> Result<Self> {
        let (batch, components) = check::dims2("the logits of the weights", logits)?;
        let (_, _, dim) = check::dims3("the means", &means)?;
        check::dims("the means", &means, "(B, K, D)", &[batch, components, dim])?;
        check::dims("the log-variances", &log_variances, "(B, K, D)", means.dims())?;
        if dim == 0 {
            return Err(Error::Empty { what: "the means", shape: means.dims().to_vec() });
        }
        Ok(Self { log_weights: log_softmax(logits, 1)?, means, log_variances })
    }

    /// Returns the densities detached from their graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self {
            log_weights: self.log_weights.detach(),
            means: self.means.detach(),
            log_variances: self.log_variances.detach(),
        }
    }

    /// Returns `log w_k + log N(y; μ_k, diag(σ_k²))`, `(B, M, K)`.
    fn log_components(&self, y: &Tensor) -> Result<Tensor> {
        let log_normal =
            log_normal(&y.unsqueeze(2)?, &self.means.unsqueeze(1)?, &self.log_variances.unsqueeze(1)?)?;
        Ok(log_normal.broadcast_add(&self.log_weights.unsqueeze(1)?)?)
    }

    /// Returns the log-density, `(B, M)`, at `y`, `(B, M, D)`, differentiable in y and in the parameters.
    ///
    /// # Errors
    /// [`Error::Shape`], and [`Error::Empty`] when M is 0.
    pub fn log_prob(&self, y: &Tensor) -> Result<Tensor> {
        let (batch, _, dim) = self.means.dims3()?;
        let (_, count, _) = check::dims3("y", y)?;
        check::dims("y", y, "(B, M, D)", &[batch, count, dim])?;
        if count == 0 {
            return Err(Error::Empty { what: "y", shape: y.dims().to_vec() });
        }
        log_sum_exp(&self.log_components(y)?, 2)
    }

    /// Returns the mean `Σ_k w_k μ_k`, `(B, D)`, differentiable in the parameters.
    ///
    /// # Errors
    /// When the tensor operations fail.
    pub fn mean(&self) -> Result<Tensor> {
        Ok(self.means.broadcast_mul(&self.log_weights.exp()?.unsqueeze(2)?)?.sum(1)?)
    }

    /// Draws M = `num_samples` independent samples from each density, `(B, M, D)`, detached, with the type and
    /// device of the parameters.
    ///
    /// # Errors
    /// [`Error::Setting`] when M is 0, and [`Error::NonFinite`] when a parameter is not finite.
    pub fn sample(&self, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        check::at_least_one("num_samples", num_samples)?;
        let (batch, components, dim) = self.means.dims3()?;
        for parameters in [&self.log_weights, &self.means, &self.log_variances] {
            check::finite(OUTPUTS, parameters)?;
        }
        let weights = host::values(&self.log_weights)?;
        let means = host::values(&self.means)?;
        let log_variances = host::values(&self.log_variances)?;

        // The CPU draws them, because a device's own generator cannot be passed and not every one can be seeded.
        let mut samples = Vec::with_capacity(batch * num_samples * dim);
        for (row, log_weights) in weights.chunks_exact(components).enumerate() {
            let cumulative: Vec<f64> = log_weights
                .iter()
                .scan(0.0, |total, log_weight| {
                    *total += log_weight.exp();
                    Some(*total)
                })
                .collect();
            let total = cumulative[components - 1];
            for _ in 0..num_samples {
                let level = total * rng.random::<f64>();
                let component = cumulative.partition_point(|upper| *upper <= level).min(components - 1);
                let start = (row * components + component) * dim;
                samples.extend((start..start + dim).map(|at| {
                    means[at] + (0.5 * log_variances[at]).exp() * rng.sample::<f64, _>(StandardNormal)
                }));
            }
        }
        host::tensor(samples, (batch, num_samples, dim), &self.means)
    }
}

/// Proposal `q(y | x)` of a mixture density network (Gustafsson et al., AISTATS 2022), with one density per input
/// of the batch. The proposal ignores the target, so it also serves at prediction, when no target is known.
/// [`JointNce`](crate::JointNce) trains it.
impl Proposal for GaussianMixtureDensity {
    fn sample(&self, _center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        GaussianMixtureDensity::sample(self, num_samples, rng)
    }

    fn log_prob(&self, y: &Tensor, _center: &Tensor) -> Result<Tensor> {
        GaussianMixtureDensity::log_prob(self, y)
    }
}
