//! Density in any number of dimensions by importance sampling.

use candle_core::Tensor;
use rand::RngCore;

use super::scores::scores;
use crate::log_sum::LogSum;
use crate::{EnergyModel, Error, Proposal, Result, check, host};

/// Density `p(y | x) = exp f(x, y) / Z(x)` (Eq. 1) of one input x, by M samples of a [`Proposal`] q with the
/// weights `w = exp f / q`. It is the estimate of Z inside Eq. 4, used outside training.
///
/// The estimate is good if q covers p. An [`effective_sample_size`](Self::effective_sample_size) far below M, or
/// a [`standard_error`](Self::standard_error) that does not fall as 1/√M, shows that q does not. A mode that no
/// sample comes near is missed without notice.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportanceDensity {
    dim: usize,
    /// Samples, M × D numbers.
    samples: Vec<f64>,
    /// Normalised weights, with the sum 1.
    weights: Vec<f64>,
    log_z: f64,
    /// Number of samples of each round.
    rounds: Vec<usize>,
    reached_target: bool,
}

impl ImportanceDensity {
    /// Estimates the densities of the inputs x of `features`. The B rows of `center`, shape `(B, D)`, belong to
    /// the B inputs, and `num_samples` samples are drawn around each. The model gets the samples in passes, so
    /// that its memory does not grow with M.
    ///
    /// # Errors
    /// [`Error::NonFiniteScore`] with the index of x when f is NaN or +∞ at a sample; [`Error::NoMass`] with the
    /// index of x when f is −∞ at all samples; otherwise the error of the proposal, which refuses M = 0, or of
    /// the model.
    pub fn from_model<M: EnergyModel>(
        model: &M,
        features: &M::Features,
        proposal: &impl Proposal,
        center: &Tensor,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<Self>> {
        let (batch, dim) = check::dims2("the centre", center)?;
        check::finite("the centre", center)?;
        check::setting("num_samples", num_samples > 0, num_samples, "at least 1")?;
        let center = center.detach();
        let samples = proposal.sample(&center, num_samples, rng)?.detach();
        check::dims("the result of Proposal::sample", &samples, "(B, M, D)", &[batch, num_samples, dim])?;
        let log_q = proposal.log_prob(&samples, &center)?.detach();
        check::dims("the result of Proposal::log_prob", &log_q, "(B, M)", &[batch, num_samples])?;
        check::finite("the result of Proposal::log_prob", &log_q)?;

        let (rows, log_q) = (scores(model, features, &samples)?, host::values(&log_q)?);
        let samples = host::values(&samples)?;
        let parts = samples.chunks_exact(num_samples * dim).zip(log_q.chunks_exact(num_samples));
        rows.into_iter()
            .zip(parts)
            .enumerate()
            .map(|(x, (f, (samples, log_q)))| {
                let log_count = (num_samples as f64).ln();
                let log_weights = f.iter().zip(log_q).map(|(f, log_q)| f - log_q - log_count).collect();
                Self::weigh(x, dim, samples.to_vec(), log_weights, vec![num_samples], false)
            })
            .collect()
    }

    /// Normalises the weights of samples. Their sum is Z, and `rounds` are the numbers of samples of the rounds.
    pub(super) fn weigh(
        x: usize,
        dim: usize,
        samples: Vec<f64>,
        log_weights: Vec<f64>,
        rounds: Vec<usize>,
        reached_target: bool,
    ) -> Result<Self> {
        let log_z = LogSum::of(&log_weights);
        if log_z == f64::NEG_INFINITY {
            return Err(Error::NoMass(x));
        }
        let weights = log_weights.iter().map(|log_weight| (log_weight - log_z).exp()).collect();
        Ok(Self { dim, samples, weights, log_z, rounds, reached_target })
    }

    /// Returns the M samples of q, each with D coordinates.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.samples.chunks_exact(self.dim)
    }

    /// Returns the weight of each sample; the sum of the weights is 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Returns log Z(x), in nats: the logarithm of the mean of the weights, whose expectation is Z.
    pub fn log_z(&self) -> f64 {
        self.log_z
    }

    /// Returns the standard error of [`log_z`](Self::log_z), in nats, by the delta method: the relative standard
    /// error of the sum of the weights, each round by itself. It is infinite for one sample.
    pub fn standard_error(&self) -> f64 {
        let (mut variance, mut rest) = (0.0, &self.weights[..]);
        for &count in &self.rounds {
            let (round, after) = rest.split_at(count);
            let (mean, count) = (round.iter().sum::<f64>() / count as f64, count as f64);
            let squares: f64 = round.iter().map(|weight| (weight - mean).powi(2)).sum();
            variance += if round.len() == 1 { f64::INFINITY } else { squares * count / (count - 1.0) };
            rest = after;
        }
        variance.sqrt()
    }

    /// Returns whether the samples have the effective size that an [`AdaptiveSampler`](crate::AdaptiveSampler)
    /// was asked for. If not, the largest number of samples was drawn.
    pub fn reached_target(&self) -> bool {
        self.reached_target
    }

    /// Returns the effective sample size (Σ w)² / Σ w², from 1 to M: about as many independent draws from p would
    /// give the same accuracy.
    pub fn effective_sample_size(&self) -> f64 {
        1.0 / self.weights.iter().map(|weight| weight * weight).sum::<f64>()
    }

    /// Returns log p(y | x), in nats, of a y with the score `f`.
    pub fn log_prob(&self, f: f64) -> f64 {
        f - self.log_z
    }

    /// Returns the self-normalised estimate of E[g(Y)]. Samples of weight 0 do not count, even if g is not finite
    /// there.
    pub fn expectation(&self, g: impl Fn(&[f64]) -> f64) -> f64 {
        let positive = self.weights.iter().zip(self.samples()).filter(|(weight, _)| **weight > 0.0);
        positive.map(|(weight, y)| weight * g(y)).sum()
    }

    /// Returns the mean E\[Y\], D coordinates.
    pub fn mean(&self) -> Vec<f64> {
        (0..self.dim).map(|d| self.expectation(|y| y[d])).collect()
    }

    /// Returns the variance of each of the D coordinates.
    pub fn variance(&self) -> Vec<f64> {
        let mean = self.mean();
        (0..self.dim).map(|d| self.expectation(|y| (y[d] - mean[d]).powi(2))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of one round vary about its own mean: 2 about (1, 3), with the variance 2 of two draws,
    /// over 10².
    #[test]
    fn the_standard_error_is_that_of_each_round_by_itself() {
        let error = |weights: [f64; 4]| {
            let log_weights = weights.map(f64::ln).to_vec();
            let density = ImportanceDensity::weigh(0, 1, vec![0.0; 4], log_weights, vec![2; 2], false);
            density.unwrap().standard_error()
        };
        assert!((error([1.0, 3.0, 3.0, 3.0]) - 0.2).abs() < 1e-12);
        assert!(error([1.0, 1.0, 4.0, 4.0]) < 1e-12);
    }
}
