//! Adaptive multiple importance sampling.

use std::slice;

use candle_core::{Device, Tensor};
use rand::RngCore;

use super::ImportanceDensity;
use super::components::{Component, fit};
use super::scores::scores;
use crate::{EnergyModel, GaussianMixture, Proposal, Result, check, host};

/// Inverse of the share of a later round's samples that come from the first proposal.
const DEFENSIVE: usize = 10;
/// Least number of samples in a round of a chain.
const LEAST_PER_ROUND: usize = 16;
/// Effective samples for each coordinate of a component.
const SAMPLES_PER_COORDINATE: usize = 2;
/// Halvings of the interval that holds the logarithm of the exponent of tempered weights.
const HALVINGS: usize = 12;
/// Logarithm of the least exponent of tempered weights.
const LEAST_LOG_EXPONENT: f64 = -16.0;
/// Largest distance of a mean from the centre of q₀, in its largest standard deviations.
const REACH: f64 = 5.0;
/// Weight that is too small to count, beside the largest.
const NEGLIGIBLE: f64 = 1e-4;

/// Adaptive multiple importance sampling (Cornuet et al. 2012) of `p(y | x) = exp f(x, y) / Z(x)`, Eq. 1.
///
/// The samples come in rounds. The first round draws from the proposal q₀ of the training, Eq. 5. Each later
/// round draws a tenth of its samples from q₀, and the others from a mixture that is fitted to the samples before
/// it. Its components have full covariances and the tails of Student's t distribution. While few samples have
/// most of the weight, the fit takes a power of the weights that leaves enough of them. Every sample stays, and
/// its final weight is `exp f / q`, where q is the mixture of all distributions that samples were drawn from, in
/// the proportion of their samples (Veach 1995; Owen & Zhou 2000).
///
/// A distribution that is fitted to a sample is too dense there, so that log Z comes out too low. The samples of
/// an input are therefore two chains of equal size, each with its own q. Once both have found the density, each
/// draws from fits to the other; before that, both draw from fits to all samples.
///
/// f is reliable only where it was trained. The means of the components are therefore at most five of the
/// largest standard deviations of q₀ from its centre in each coordinate, and their standard deviations never
/// exceed the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSampler {
    /// Largest number M of samples of an input, each with one evaluation of f; an odd one from 33 is rounded down.
    pub num_samples: usize,
    /// Number of rounds; fewer if M is small.
    pub rounds: usize,
    /// Largest number of components in the mixture of a round.
    pub components: usize,
    /// Effective sample size that ends the sampling once all inputs have reached it.
    pub target_effective_size: Option<f64>,
}

impl AdaptiveSampler {
    /// Creates a sampler of `num_samples` samples in 16 rounds, with up to 3 components in each.
    pub fn new(num_samples: usize) -> Self {
        Self { num_samples, rounds: 16, components: 3, target_effective_size: None }
    }

    /// Estimates the densities of the inputs x of `features`. The B rows of `center`, shape `(B, D)`, belong to
    /// the B inputs. Each input has its own mixtures. The model gets the samples of all inputs together.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when a setting is 0; otherwise the errors of
    /// [`ImportanceDensity::from_model`].
    pub fn densities<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        proposal: &GaussianMixture,
        center: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<ImportanceDensity>> {
        let (batch, dim) = check::dims2("the centre", center)?;
        check::dims("the centre", center, "(B, D)", &[batch, proposal.dim()])?;
        check::finite("the centre", center)?;
        check::at_least_one("num_samples", self.num_samples)?;
        check::at_least_one("rounds", self.rounds)?;
        check::at_least_one("components", self.components)?;
        check::positive("target_effective_size", self.target_effective_size.unwrap_or(1.0))?;

        let all = host::values(center)?;
        // A chain of one round draws from no fit.
        let chains = if self.num_samples < 2 * LEAST_PER_ROUND { 1 } else { 2 };
        let length = self.num_samples / chains;
        let rounds = self.rounds.min(length / LEAST_PER_ROUND).max(1);
        let input = |center: &[f64]| {
            Ok(vec![Chain::new(Tensor::from_slice(center, (1, dim), &Device::Cpu)?); chains])
        };
        let mut inputs = all.chunks_exact(dim).map(input).collect::<Result<Vec<_>>>()?;
        let most = proposal.widest();
        let (mut counts, mut reached) = (Vec::with_capacity(rounds), vec![false; batch]);
        for round in 0..rounds {
            let count = length * (round + 1) / rounds - length * round / rounds;
            counts.push(count);
            let mut y = Vec::with_capacity(batch * chains * count * dim);
            for (input, center) in inputs.iter_mut().zip(all.chunks_exact(dim)) {
                for chain in 0..chains {
                    let mixture = self.mixture(input, chain, center, &most, rng);
                    input[chain].draw(count, mixture, proposal, &mut y, rng)?;
                }
            }
            let y = host::tensor(y, (batch, chains * count, dim), center)?;
            let f = scores(model, features, &y)?.concat();
            // The samples as the model has them, rounded to its type.
            let y = host::values(&y)?;
            let parts = y.chunks_exact(count * dim).zip(f.chunks_exact(count));
            for (chain, (y, f)) in inputs.iter_mut().flatten().zip(parts) {
                chain.add(y, f, proposal)?;
            }
            if let Some(target) = self.target_effective_size {
                reached = inputs.iter().map(|input| effective_size(input, 1.0) >= target).collect();
                if reached.iter().all(|reached| *reached) {
                    break;
                }
            }
        }
        let counts = counts.repeat(chains);
        let density = |(x, (input, reached)): (usize, (Vec<Chain>, bool))| {
            let log_weights = log_weights(&input).map(|weight| weight - (chains as f64).ln()).collect();
            let samples = input.into_iter().flat_map(|chain| chain.y).collect();
            ImportanceDensity::weigh(x, dim, samples, log_weights, counts.clone(), reached)
        };
        inputs.into_iter().zip(reached).enumerate().map(density).collect()
    }

    /// Fits a mixture to samples of the other chain, or of both, within reach of q₀; it is empty while they have
    /// no weight.
    fn mixture(
        &self,
        input: &[Chain],
        own: usize,
        center: &[f64],
        most: &[f64],
        rng: &mut dyn RngCore,
    ) -> Vec<(f64, Component)> {
        let dim = most.len();
        // A component has this many numbers, its mean and Σ.
        let enough = (dim * (dim + 3) / 2) as f64;
        // Samples that will hardly count do not bias log Z, so that the search may use those of both chains.
        let found = input.iter().all(|chain| effective_size(slice::from_ref(chain), 1.0) >= enough);
        let chains = if found { slice::from_ref(&input[1 - own]) } else { input };
        let max = log_weights(chains).fold(f64::NEG_INFINITY, f64::max);
        let enough = enough.min(log_weights(chains).count() as f64 / 3.0);
        let mut exponents = [LEAST_LOG_EXPONENT, 0.0];
        let tempers = effective_size(chains, 1.0) < enough;
        for _ in 0..if tempers { HALVINGS } else { 0 } {
            let middle = exponents.iter().sum::<f64>() / 2.0;
            exponents[usize::from(effective_size(chains, middle.exp()) < enough)] = middle;
        }
        let exponent = if tempers { exponents[0].exp() } else { 1.0 };
        let y = chains.iter().flat_map(|chain| chain.y.chunks_exact(dim));
        let weights = log_weights(chains).map(|log_weight| (exponent * (log_weight - max)).exp());
        let near =
            |y: &[f64]| y.iter().zip(center).zip(most).all(|((y, c), most)| (y - c).abs() <= REACH * most);
        // Without any f above −∞ the weights are NaN.
        let counts = |(y, weight): &(&[f64], f64)| *weight > NEGLIGIBLE && near(y);
        let mut points: Vec<(&[f64], f64)> = y.zip(weights).filter(counts).collect();
        if points.is_empty() {
            return Vec::new();
        }
        let sum: f64 = points.iter().map(|(_, weight)| weight).sum();
        points.iter_mut().for_each(|(_, weight)| *weight /= sum);
        let size = effective_size(chains, exponent);
        let count = (size as usize / (SAMPLES_PER_COORDINATE * dim)).clamp(1, self.components);
        fit(&points, size, count, most, rng)
    }
}

/// A part of the samples of one input.
#[derive(Clone)]
struct Chain {
    /// Centre of q₀, `(1, D)`.
    center: Tensor,
    y: Vec<f64>,
    f: Vec<f64>,
    /// Sum over all distributions of their number of samples times their density, at each sample.
    mass: Vec<f64>,
    /// Density of q₀ at each sample.
    q: Vec<f64>,
    /// f − log mass; the sum of these weights is an estimate of Z.
    log_weights: Vec<f64>,
    /// Number of samples from q₀ and from each component, in each round.
    rounds: Vec<(f64, Vec<(f64, Component)>)>,
}

impl Chain {
    fn new(center: Tensor) -> Self {
        let [y, f, mass, q, log_weights] = [const { Vec::new() }; 5];
        Self { center, y, f, mass, q, log_weights, rounds: Vec::new() }
    }

    /// Appends `count` samples of a new round to `y`.
    fn draw(
        &mut self,
        count: usize,
        mixture: Vec<(f64, Component)>,
        proposal: &GaussianMixture,
        y: &mut Vec<f64>,
        rng: &mut dyn RngCore,
    ) -> Result<()> {
        let plain = if mixture.is_empty() { count } else { count.div_ceil(DEFENSIVE) };
        y.extend(host::values(&proposal.sample(&self.center, plain, rng)?)?);
        let (mut share, mut drawn) = (0.0, 0);
        let counted = mixture.into_iter().map(|(probability, component)| {
            share += probability;
            let before = std::mem::replace(&mut drawn, ((count - plain) as f64 * share).round() as usize);
            (before..drawn).for_each(|_| component.draw(y, rng));
            ((drawn - before) as f64, component)
        });
        self.rounds.push((plain as f64, counted.collect()));
        Ok(())
    }

    /// Adds the samples `y` of the last round, with `f` at them.
    fn add(&mut self, y: &[f64], f: &[f64], proposal: &GaussianMixture) -> Result<()> {
        let (before, dim) = (self.f.len(), y.len() / f.len());
        self.y.extend_from_slice(y);
        self.f.extend_from_slice(f);
        let y = Tensor::from_slice(y, (1, f.len(), dim), &Device::Cpu)?;
        self.q.extend(host::values(&proposal.log_prob(&y, &self.center)?.exp()?)?);
        self.mass.resize(self.f.len(), 0.0);
        let mut room = vec![0.0; dim];
        for (k, (mass, y)) in self.mass.iter_mut().zip(self.y.chunks_exact(dim)).enumerate() {
            let since = if k < before { self.rounds.len() - 1 } else { 0 };
            for (plain, components) in &self.rounds[since..] {
                *mass += plain * self.q[k];
                for (count, component) in components {
                    *mass += count * component.density(y, &mut room);
                }
            }
        }
        self.log_weights = self.f.iter().zip(&self.mass).map(|(f, mass)| f - mass.ln()).collect();
        Ok(())
    }
}

fn log_weights(chains: &[Chain]) -> impl Iterator<Item = f64> {
    chains.iter().flat_map(|chain| chain.log_weights.iter().copied())
}

/// Returns (Σ w)² / Σ w² of the weights of `chains` to the power of `exponent`; NaN if all are 0.
fn effective_size(chains: &[Chain], exponent: f64) -> f64 {
    let max = log_weights(chains).fold(f64::NEG_INFINITY, f64::max);
    let powers = log_weights(chains).map(|log_weight| (exponent * (log_weight - max)).exp());
    let (sum, squares) = powers.fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    sum * sum / squares
}

#[cfg(test)]
mod tests {
    use ebm_base::Key;

    use super::*;

    /// Points a unit apart with the weights of a Gaussian.
    fn chain(mean: f64, sigma: f64) -> Chain {
        let mut chain = Chain::new(Tensor::zeros((1, 1), candle_core::DType::F64, &Device::Cpu).unwrap());
        chain.y = (-200..=200).map(f64::from).collect();
        chain.log_weights = chain.y.iter().map(|y| -0.5 * ((y - mean) / sigma).powi(2)).collect();
        chain
    }

    /// Density at `y` of the mixture that chain 0 draws from.
    fn density(chains: &[Chain], center: f64, most: f64, y: f64) -> f64 {
        let sampler = AdaptiveSampler { components: 1, ..AdaptiveSampler::new(64) };
        let mixture = sampler.mixture(chains, 0, &[center], &[most], &mut Key::new(0).rng());
        mixture.iter().map(|(share, component)| share * component.density(&[y], &mut [0.0])).sum()
    }

    /// The powers of a Gaussian are Gaussians. A component has two numbers, a mean and a variance, so the effective size is
    /// tempered to 2. Points a unit apart have this size, 2 √π σ, at the deviation 1/√π. At 0
    /// the density of Student's t is 2/(π √3).
    #[test]
    fn tempered_weights_leave_as_many_points_as_a_component_has_numbers() {
        let variance = 1.5 / std::f64::consts::PI;
        let tails = 0.4 / (std::f64::consts::PI * 3f64.sqrt());
        let wanted = (0.8 / std::f64::consts::TAU.sqrt() + tails) / variance.sqrt();
        let nothing = Chain { y: Vec::new(), log_weights: Vec::new(), ..chain(0.0, 1.0) };
        for sigma in [0.05, 0.001] {
            let found = density(&[chain(3.0, sigma), nothing.clone()], 0.0, 100.0, 3.0);
            assert!((found / wanted - 1.0).abs() < 0.05, "{sigma}: {found}, not {wanted}");
        }
        // Enough weights stay as they are. The variance is at most 25 (1 + 1/17.7), and at least 0.904 · 25, where the
        // likelihood of a Gaussian's points is largest: the tails explain a part of them.
        let found = density(&[0; 2].map(|_| chain(3.0, 5.0)), 0.0, 100.0, 3.0);
        assert!((0.0764..0.0827).contains(&found), "{found}");
    }

    #[test]
    fn a_chain_that_has_found_the_density_draws_from_fits_to_the_other() {
        let both = [chain(-40.0, 3.0), chain(40.0, 3.0)];
        let [own, other] = [-40.0, 40.0].map(|y| density(&both, 0.0, 100.0, y));
        assert!(own < 1e-3 * other && other > 0.05, "{own} {other}");
        // Before that, it draws from fits to all samples.
        let before = [chain(-40.0, 3.0), chain(40.0, 0.1)];
        let [own, other] = [-40.0, 40.0].map(|y| density(&before, 0.0, 100.0, y));
        assert!(own > 0.05 * other, "{own} {other}");
    }

    /// Points beyond five of the largest deviations do not count.
    #[test]
    fn means_stay_within_reach() {
        let chains = [0; 2].map(|_| chain(49.5, 20.0));
        assert!(density(&chains, 0.0, 10.0, 30.0) > density(&chains, 0.0, 10.0, 50.0));
        assert_eq!(density(&chains, -200.0, 10.0, 0.0), 0.0);
        assert!(density(&chains, -200.0, 50.0, 30.0) > 0.0);
    }
}
