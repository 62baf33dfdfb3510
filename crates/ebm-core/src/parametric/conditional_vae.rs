//! Conditional variational autoencoder: an infinite mixture of Gaussians.

use candle_core::Tensor;
use rand::RngCore;

use super::{GaussianMixtureDensity, Parametric, batch, count, gaussian_kl, targets};
use crate::math::log_normal;
use crate::{Result, check, host};

/// Networks of a [`ConditionalVae`] with Z latent variables z. A Gaussian in n coordinates is `2n` numbers, the
/// means and then the log-variances.
pub trait LatentVariableModel {
    /// Features that the network extracts from a batch of B inputs x before it sees any z.
    type Features;

    /// Returns the prior `p(z | x)`, `(B, 2Z)`, the supplement's FC-BBMean and FC-BBVar.
    ///
    /// # Errors
    /// The error of the network; see [`Error::model`](crate::Error::model).
    fn prior(&self, features: &Self::Features) -> Result<Tensor>;

    /// Returns the approximate posterior `q(z | x, y)`, `(B, 2Z)`, given the targets `y`, `(B, D)`.
    ///
    /// The supplement describes no network for the posterior. Return `self.prior(features)` for a cVAE without
    /// one: the divergence is then 0, and the bound is `E_{p(z|x)} log p(y | x, z)`.
    ///
    /// # Errors
    /// Those of [`prior`](Self::prior).
    fn posterior(&self, features: &Self::Features, y: &Tensor) -> Result<Tensor>;

    /// Returns `p(y | x, z)`, `(B, S, 2D)`, for S latent vectors `z`, `(B, S, Z)`, per input, the supplement's
    /// duplicates of FC-BBMean and FC-BBVar.
    ///
    /// # Errors
    /// Those of [`prior`](Self::prior).
    fn decode(&self, features: &Self::Features, z: &Tensor) -> Result<Tensor>;
}

/// Gaussian cVAE of Table 2: `p(y | x) = ∫ p(y | x, z) p(z | x) dz`, trained by the evidence lower bound.
///
/// The outputs belong to one pass with S latent vectors. [`training_outputs`](Self::training_outputs) returns
/// them for training, with `z ~ q(z | x, y)`, and [`prediction_outputs`](Self::prediction_outputs) for prediction
/// and densities, with `z ~ p(z | x)`. They are P = 4Z + 2DS numbers: the prior, the posterior (2Z each), then 2D
/// numbers for each z.
///
/// - The loss is the negative bound with all constants; its expectation is the mean over the S vectors:
///   `−(1/S) Σ_s log p(y | x, z_s) + KL(q(z | x, y) ‖ p(z | x))`.
/// - The mean and the density belong to the mixture `(1/S) Σ_s p(y | x, z_s)`, which estimates `p(y | x)`.
///
/// The paper uses Z = 10, and S = 128 for the bound and for the predicted mean.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalVae {
    dim: usize,
    latent_dim: usize,
    pub(super) num_samples: usize,
}

impl ConditionalVae {
    /// Number of latent variables Z in the paper.
    pub const LATENT_DIM: usize = 10;
    /// Number of latent vectors S in the paper.
    pub const NUM_SAMPLES: usize = 128;

    /// Creates a cVAE of targets with `dim` coordinates, with Z = `latent_dim` and S = `num_samples`.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when one of them is 0.
    pub fn new(dim: usize, latent_dim: usize, num_samples: usize) -> Result<Self> {
        Ok(Self {
            dim: check::at_least_one("dim", dim)?,
            latent_dim: check::at_least_one("latent_dim", latent_dim)?,
            num_samples: check::at_least_one("num_samples", num_samples)?,
        })
    }

    /// Returns Z, the number of latent variables.
    pub fn latent_dim(&self) -> usize {
        self.latent_dim
    }

    /// Returns the outputs `(B, P)` of `model` for the loss at the targets `y`, `(B, D)`. The S vectors
    /// `z ~ q(z | x, y)` are reparametrised, so that the gradient of the loss also reaches the posterior through
    /// z.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) or [`Error::NonFinite`](crate::Error::NonFinite) for the targets,
    /// [`Error::Shape`](crate::Error::Shape), and the errors of the networks.
    pub fn training_outputs<L: LatentVariableModel>(
        &self,
        model: &L,
        features: &L::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let (batch, _) = check::dims2("the target y", y)?;
        check::dims("the target y", y, "(B, D)", &[batch, self.dim])?;
        check::finite("the target y", y)?;
        let posterior = model.posterior(features, &y.detach())?;
        let prior = model.prior(features)?;
        self.outputs(model, features, &prior, &posterior, rng)
    }

    /// Returns the outputs `(B, P)` of `model` for predictions and densities, with S vectors `z ~ p(z | x)`. The
    /// prior replaces the posterior.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), and the errors of the networks.
    pub fn prediction_outputs<L: LatentVariableModel>(
        &self,
        model: &L,
        features: &L::Features,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let prior = model.prior(features)?;
        self.outputs(model, features, &prior, &prior, rng)
    }

    /// Draws S latent vectors, `(B, S, Z)`, from the Gaussians `gaussian`, `(B, 2Z)`: `z = μ + σ ε`,
    /// differentiable in μ and log σ². The CPU draws ε.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) and [`Error::Shape`](crate::Error::Shape).
    pub fn sample_latents(&self, gaussian: &Tensor, rng: &mut dyn RngCore) -> Result<Tensor> {
        let batch = self.check_latent("the Gaussian of z", gaussian)?;
        let gaussian = gaussian.unsqueeze(1)?;
        let mean = gaussian.narrow(2, 0, self.latent_dim)?;
        let deviation = (gaussian.narrow(2, self.latent_dim, self.latent_dim)? * 0.5)?.exp()?;
        let noise = host::standard_normal((batch, self.num_samples, self.latent_dim), &gaussian, rng)?;
        Ok(noise.broadcast_mul(&deviation)?.broadcast_add(&mean)?)
    }

    /// Returns the outputs of one pass with `z ~ posterior`.
    fn outputs<L: LatentVariableModel>(
        &self,
        model: &L,
        features: &L::Features,
        prior: &Tensor,
        posterior: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        let batch = self.check_latent("the result of LatentVariableModel::prior", prior)?;
        let posterior_name = "the result of LatentVariableModel::posterior";
        check::dims(posterior_name, posterior, "(B, 2Z)", prior.dims())?;
        let decoded = model.decode(features, &self.sample_latents(posterior, rng)?)?;
        let dims = [batch, self.num_samples, 2 * self.dim];
        check::dims("the result of LatentVariableModel::decode", &decoded, "(B, S, 2D)", &dims)?;
        Ok(Tensor::cat(&[prior, posterior, &decoded.flatten(1, 2)?], 1)?)
    }

    /// Returns B of a Gaussian of z, `(B, 2Z)`.
    fn check_latent(&self, what: &'static str, gaussian: &Tensor) -> Result<usize> {
        let (batch, _) = check::dims2(what, gaussian)?;
        check::dims(what, gaussian, "(B, 2Z)", &[batch, 2 * self.latent_dim])?;
        Ok(batch)
    }

    /// Returns the means and the log-variances, each `(B, S, D)`, of `p(y | x, z_s)`.
    fn decoded(&self, outputs: &Tensor) -> Result<(Tensor, Tensor)> {
        let batch = batch(self, outputs)?;
        let (s, d, z) = (self.num_samples, self.dim, self.latent_dim);
        let decoded = outputs.narrow(1, 4 * z, 2 * d * s)?.reshape((batch, s, 2 * d))?;
        Ok((decoded.narrow(2, 0, d)?, decoded.narrow(2, d, d)?))
    }

    /// Returns the mixtures `(1/S) Σ_s p(y | x, z_s)` of B inputs with the outputs `(B, P)`.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) and [`Error::Shape`](crate::Error::Shape).
    pub fn density(&self, outputs: &Tensor) -> Result<GaussianMixtureDensity> {
        let (means, log_variances) = self.decoded(outputs)?;
        let logits = Tensor::zeros((means.dim(0)?, self.num_samples), outputs.dtype(), outputs.device())?;
        GaussianMixtureDensity::new(&logits, means, log_variances)
    }
}

impl Parametric for ConditionalVae {
    fn dim(&self) -> usize {
        self.dim
    }

    fn num_outputs(&self) -> usize {
        4 * self.latent_dim + 2 * self.dim * self.num_samples
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = targets(self, outputs, y)?;
        let (means, log_variances) = self.decoded(outputs)?;
        let log_likelihood = log_normal(&y, &means, &log_variances)?; // (B, S)
        let latent = 2 * self.latent_dim;
        let (prior, posterior) = (outputs.narrow(1, 0, latent)?, outputs.narrow(1, latent, latent)?);
        Ok((gaussian_kl(&posterior, &prior)?.mean_all()? - log_likelihood.mean_all()?)?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        Ok(self.decoded(outputs)?.0.mean(1)?)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        Ok(Some(self.density(outputs)?.log_prob(y)?))
    }
}
