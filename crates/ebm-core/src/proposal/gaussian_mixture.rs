//! Eq. 5, the paper's proposal distribution, and a version whose draws a batch shares.

use candle_core::{DType, Tensor};
use ebm_base::settings;
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::Proposal;
use crate::log_sum::LogSum;
use crate::math::{log_mean_exp, log_standard_normal};
use crate::{Error, Result, check, host};

/// The mixture `q(y | y_i) = (1/L) Σ_l N(y; y_i, diag(σ_l²))` of Eq. 5: equally weighted components with a common
/// centre.
///
/// The paper's σ_l is the same for all coordinates ([`isotropic`](Self::isotropic)); [`new`](Self::new) allows
/// one per coordinate. All coordinates of a sample come from the same component. A configuration file has
/// `{ sigmas = [0.1, 0.8], dim = 2 }` or `{ sigmas = [[0.1, 0.2], [0.8, 1.6]] }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct GaussianMixture {
    sigmas: Vec<Vec<f64>>,
}

settings! {
    /// Form in a configuration file.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        sigmas: Sigmas where 1e-6..=1e4,
        /// D, required if a component has one σ for all coordinates.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dim: Option<usize> where 1..=64,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Sigmas {
    Isotropic(Vec<f64>),
    Each(Vec<Vec<f64>>),
}

settings!(GaussianMixture as Written);

impl TryFrom<Written> for GaussianMixture {
    type Error = Error;

    fn try_from(Written { sigmas, dim }: Written) -> Result<Self> {
        let expected = "the number of coordinates where sigmas are numbers, and absent where they are lists";
        match (sigmas, dim) {
            (Sigmas::Isotropic(sigmas), Some(dim)) => Self::isotropic(&sigmas, dim),
            (Sigmas::Each(sigmas), None) => Self::new(sigmas),
            (_, dim) => Err(Error::Setting { name: "dim", value: format!("{dim:?}"), expected }),
        }
    }
}

impl From<GaussianMixture> for Written {
    fn from(mixture: GaussianMixture) -> Self {
        let isotropic = mixture.sigmas.iter().all(|component| component.iter().all(|s| *s == component[0]));
        if isotropic {
            let sigmas = mixture.sigmas.iter().map(|component| component[0]).collect();
            return Self { sigmas: Sigmas::Isotropic(sigmas), dim: Some(mixture.dim()) };
        }
        Self { sigmas: Sigmas::Each(mixture.sigmas), dim: None }
    }
}

impl GaussianMixture {
    /// Creates a mixture of the L components in `sigmas`, each with D standard deviations in the units of y.
    ///
    /// # Errors
    /// [`Error::Setting`] when there is no component or coordinate, when the components differ in D, or when
    /// a standard deviation is not a positive number.
    pub fn new(sigmas: Vec<Vec<f64>>) -> Result<Self> {
        let setting = |value: String, expected| Error::Setting { name: "sigmas", value, expected };
        let dim = sigmas.first().map_or(0, Vec::len);
        if dim == 0 || sigmas.iter().any(|component| component.len() != dim) {
            let expected = "at least one component, all with the same number (at least one) of coordinates";
            return Err(setting(format!("{sigmas:?}"), expected));
        }
        // 1e-30 and 1e30 keep σ, its inverse and a few products of them within f32.
        if let Some(sigma) = sigmas.iter().flatten().find(|sigma| !(1e-30..=1e30).contains(*sigma)) {
            return Err(setting(sigma.to_string(), "made of standard deviations between 1e-30 and 1e30"));
        }
        Ok(Self { sigmas })
    }

    /// Creates a mixture of one isotropic component in `dim` coordinates per standard deviation, as in Eq. 5.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn isotropic(sigmas: &[f64], dim: usize) -> Result<Self> {
        Self::new(sigmas.iter().map(|&sigma| vec![sigma; dim]).collect())
    }

    /// Multiplies every standard deviation by `factor`.
    ///
    /// # Errors
    /// [`Error::Setting`] when a standard deviation leaves its range.
    pub fn scaled(&self, factor: f64) -> Result<Self> {
        Self::new(
            self.sigmas.iter().map(|sigmas| sigmas.iter().map(|sigma| sigma * factor).collect()).collect(),
        )
    }

    /// Returns the standard deviations, L components of D coordinates.
    pub fn sigmas(&self) -> &[Vec<f64>] {
        &self.sigmas
    }

    /// Returns the largest standard deviation of each coordinate, D numbers.
    pub fn widest(&self) -> Vec<f64> {
        let largest = |d: usize| self.sigmas.iter().map(|sigmas| sigmas[d]).fold(0.0, f64::max);
        (0..self.dim()).map(largest).collect()
    }

    /// Returns D, the number of coordinates.
    pub fn dim(&self) -> usize {
        self.sigmas[0].len()
    }

    /// Computes [`Proposal::log_prob`] in one pass over the samples and without a graph, for the objectives.
    fn log_prob_detached(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        let (batch, count, dim) = y.dims3()?;
        let (values, centers) = (host::values(y)?, host::values(center)?);
        let constant = -(self.sigmas.len() as f64).ln() - 0.5 * dim as f64 * std::f64::consts::TAU.ln();
        let levels: Vec<f64> =
            self.sigmas.iter().map(|s| constant - s.iter().map(|s| s.ln()).sum::<f64>()).collect();
        let mut components = vec![0.0; self.sigmas.len()];
        let mut log_q = Vec::with_capacity(batch * count);
        for (samples, center) in values.chunks_exact(count.max(1) * dim).zip(centers.chunks_exact(dim)) {
            for sample in samples.chunks_exact(dim) {
                for ((component, level), sigmas) in components.iter_mut().zip(&levels).zip(&self.sigmas) {
                    let z = sample
                        .iter()
                        .zip(center)
                        .zip(sigmas)
                        .map(|((y, center), sigma)| (y - center) / sigma);
                    *component = level - 0.5 * z.map(|z| z * z).sum::<f64>();
                }
                log_q.push(LogSum::of(&components));
            }
        }
        host::tensor(log_q, (batch, count), y)
    }

    /// Returns the batch size of `center`, whose D must be this mixture's.
    fn batch(&self, center: &Tensor) -> Result<usize> {
        let (batch, _) = check::dims2("the proposal's centre", center)?;
        check::dims("the proposal's centre", center, "(B, D)", &[batch, self.dim()])?;
        Ok(batch)
    }
}

impl Proposal for GaussianMixture {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        let batch = self.batch(center)?;
        check::at_least_one("num_samples", num_samples)?;
        // The CPU draws them, because a device's own generator cannot be passed and not every one can be seeded.
        let mut noise = Vec::with_capacity(batch * num_samples * self.dim());
        for _ in 0..batch * num_samples {
            let component = &self.sigmas[rng.random_range(0..self.sigmas.len())];
            noise.extend(component.iter().map(|sigma| sigma * rng.sample::<f64, _>(StandardNormal)));
        }
        let noise = host::tensor(noise, (batch, num_samples, self.dim()), center)?;
        Ok(noise.broadcast_add(&center.unsqueeze(1)?)?)
    }

    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        let batch = self.batch(center)?;
        let (_, count, _) = check::dims3("y", y)?;
        check::dims("y", y, "(B, M, D)", &[batch, count, self.dim()])?;
        if y.device().is_cpu() && !y.track_op() && !center.track_op() {
            return self.log_prob_detached(y, center);
        }

        let sigmas = host::tensor(self.sigmas.concat(), (self.sigmas.len(), self.dim()), y)?;
        let log_volumes =
            self.sigmas.iter().map(|component| component.iter().map(|s| s.ln()).sum()).collect();
        let log_volumes = host::tensor(log_volumes, self.sigmas.len(), y)?;

        let offset = y.broadcast_sub(&center.unsqueeze(1)?)?; // (B, M, D)
        let z = offset.unsqueeze(2)?.broadcast_div(&sigmas)?; // (B, M, L, D)
        let log_components = log_standard_normal(&z)?.broadcast_sub(&log_volumes)?; // (B, M, L)
        log_mean_exp(&log_components, 2)
    }
}

/// Eq. 5 with the same M offsets `y_im − y_i` for every target of a batch, as in the published code.
///
/// Each target still has M samples of the mixture, so every loss keeps its expectation, but samples of different
/// targets are not independent. The number of draws and of evaluated densities is B times smaller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedOffsets(pub GaussianMixture);

settings!(SharedOffsets as GaussianMixture);

impl Proposal for SharedOffsets {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        Ok(self.sample_with_log_prob(center, num_samples, rng)?.0)
    }

    fn log_prob(&self, y: &Tensor, center: &Tensor) -> Result<Tensor> {
        self.0.log_prob(y, center)
    }

    fn sample_with_log_prob(
        &self,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<(Tensor, Tensor)> {
        let (batch, dim) = check::dims2("the proposal's centre", center)?;
        let origin = Tensor::zeros((1, dim), DType::F64, center.device())?.to_dtype(center.dtype())?;
        let (offsets, log_q) = self.0.sample_with_log_prob(&origin, num_samples, rng)?;
        Ok((offsets.broadcast_add(&center.unsqueeze(1)?)?, log_q.broadcast_as((batch, num_samples))?))
    }
}
