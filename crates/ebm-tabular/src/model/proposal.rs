//! The proposal for computing densities: Student's t about a network's own estimate.

use candle_core::Tensor;
use ebm_core::Proposal;
use ebm_core::rand::{Rng, RngCore};

/// Student's t distribution `q(y | x)` with four degrees of freedom, with a location and a scale for each input and
/// coordinate, (B, 1, D). It does not depend on the target. Its tails are heavier than the tails of most densities,
/// so that few samples get large weights.
///
/// The M samples of an input are not independent: their probabilities form a lattice with a random shift. Sums over
/// them are unbiased and more exact than with independent samples.
#[derive(Clone, Debug)]
pub struct StudentProposal {
    /// Medians, (B, 1, D).
    pub location: Tensor,
    /// Logarithms of the scales, (B, 1, D).
    pub log_scale: Tensor,
}

/// Logarithm of the density at 0, 3/8.
const LOG_PEAK: f64 = -0.980_829_253_011_726_3;

/// Returns the quantile of the distribution at probability `p`, in closed form.
fn quantile(p: f64) -> f64 {
    let alpha = (4.0 * p * (1.0 - p)).sqrt();
    let q = (alpha.acos() / 3.0).cos() / alpha;
    (p - 0.5).signum() * 2.0 * (q - 1.0).max(0.0).sqrt()
}

/// Returns the steps of a lattice in D dimensions: powers of the inverse of the root of `t^(D+1) = t + 1`.
fn steps(dim: usize) -> Vec<f64> {
    let root = (0..64).fold(1.5f64, |t, _| (1.0 + t).powf(1.0 / (dim as f64 + 1.0)));
    (1..=dim).map(|k| root.powi(-(k as i32))).collect()
}

impl StudentProposal {
    /// Returns (B, D) of the parameters.
    fn dims(&self) -> ebm_core::Result<(usize, usize)> {
        let (batch, _, dim) = self.location.dims3()?;
        Ok((batch, dim))
    }
}

impl Proposal for StudentProposal {
    fn sample(&self, _: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> ebm_core::Result<Tensor> {
        let (_, dim) = self.dims()?;
        let shift: Vec<f64> = (0..dim).map(|_| rng.random()).collect();
        // In one dimension the probabilities are evenly spaced.
        let steps = if dim == 1 { vec![1.0 / num_samples as f64] } else { steps(dim) };
        let mut u = Vec::with_capacity(num_samples * dim);
        for index in 0..num_samples {
            for (step, shift) in steps.iter().zip(&shift) {
                let start = if dim == 1 { shift / num_samples as f64 } else { *shift };
                let p = (start + step * index as f64).fract();
                u.push(quantile(p.clamp(1e-9, 1.0 - 1e-9)));
            }
        }
        let u = Tensor::from_vec(u, (1, num_samples, dim), self.location.device())?;
        let u = u.to_dtype(self.location.dtype())?;
        Ok(u.broadcast_mul(&self.log_scale.exp()?)?.broadcast_add(&self.location)?)
    }

    fn log_prob(&self, y: &Tensor, _: &Tensor) -> ebm_core::Result<Tensor> {
        let (_, dim) = self.dims()?;
        let u = y.broadcast_sub(&self.location)?.broadcast_mul(&self.log_scale.neg()?.exp()?)?;
        let tails = ((u.sqr()? * 0.25)? + 1.0)?.log()?.sum(2)?;
        let log_q = tails.affine(-2.5, dim as f64 * LOG_PEAK)?;
        Ok(log_q.broadcast_sub(&self.log_scale.sum(2)?)?)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    /// Quantiles from `scipy.stats.t(4).ppf`.
    #[test]
    fn quantiles_are_those_of_students_t() {
        for (p, y) in [
            (0.5, 0.0),
            (0.75, 0.740_697_084_112_683),
            (0.975, 2.776_445_105_197_799),
            (0.01, -3.746_947_387_979_196),
        ] {
            assert!((quantile(p) - y).abs() < 1e-6, "{p}: {}", quantile(p));
        }
    }

    /// The mean of `exp f / q` over the samples is ∫ exp f, here that of a Gaussian of D coordinates.
    #[test]
    fn weights_of_a_gaussian_integrate_it() {
        let mut rng = ebm_base::Key::new(3).rng();
        for (dim, tolerance) in [(1, 1e-4), (2, 1e-2), (3, 3e-2)] {
            let like = |value: f64| Tensor::full(value, (1, 1, dim), &Device::Cpu).unwrap();
            let proposal = StudentProposal { location: like(0.3), log_scale: like(0.2) };
            let center = Tensor::zeros((1, dim), DType::F64, &Device::Cpu).unwrap();
            let (y, log_q) = proposal.sample_with_log_prob(&center, 2048, &mut rng).unwrap();
            let f = (y.sqr().unwrap().sum(2).unwrap() * -0.5).unwrap();
            let mean = ebm_core::math::log_mean_exp(&(f - log_q).unwrap(), 1).unwrap();
            let log_z = mean.to_vec1::<f64>().unwrap()[0];
            let expected = 0.5 * dim as f64 * std::f64::consts::TAU.ln();
            assert!((log_z - expected).abs() < tolerance, "{dim}: {log_z} not {expected}");
        }
    }
}
