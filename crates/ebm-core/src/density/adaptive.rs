//! Adaptive multiple importance sampling.

use candle_core::{DType, Device, Tensor};
use rand::RngCore;

use super::ImportanceDensity;
use super::mixture_fit::{Component, Points};
use super::scores::scores;
use crate::{EnergyModel, GaussianMixture, Proposal, Result, check, host};

/// Inverse of the share of a later round's samples that come from the first proposal.
const DEFENSIVE: usize = 10;
/// Least number of samples in a round of a chain.
const LEAST_PER_ROUND: usize = 16;
/// Effective samples for each coordinate of a component.
const SAMPLES_PER_COORDINATE: usize = 4;
/// Halvings of the interval that holds the logarithm of the exponent of tempered weights.
const HALVINGS: usize = 12;
/// Logarithm of the least exponent of tempered weights.
const LEAST_LOG_EXPONENT: f64 = -16.0;
/// Logarithm of a weight that is too small to count, beside the largest.
const NEGLIGIBLE: f64 = -20.0;

/// Adaptive multiple importance sampling (Cornuet et al. 2012) of `p(y | x) = exp f(x, y) / Z(x)`, Eq. 1.
///
/// The samples come in rounds. The first round draws from the proposal q₀ of the training, Eq. 5. Each later
/// round draws a tenth of its samples from q₀, and the others from a mixture that is fitted to the samples before
/// it. Its components have full covariances and the tails of Student's t distribution. While few samples have
/// most of the weight, the fit takes a power of the weights that leaves enough of them. Every sample stays, and
/// its final weight is `exp f / q`, where q is the mixture of all distributions that samples were drawn from, in
/// the proportion of their samples (Veach 1995; Owen & Zhou 2000).
///
/// A distribution that is fitted to a sample is too dense there, so that log Z comes out too low. The samples of an
/// input are therefore two chains of equal size, and each chain draws from fits to the other.
///
/// f is reliable only where it was trained, so that the standard deviations of the components never exceed the
/// largest of q₀. A density without bounds reaches this limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSampler {
    /// Largest number M of samples of an input, at each of which f is evaluated; an odd one is rounded down.
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

        let unit = Unit::new(proposal, host::values(center)?)?;
        // A chain of one round draws from no fit.
        let chains = if self.num_samples < 2 * LEAST_PER_ROUND { 1 } else { 2 };
        let length = self.num_samples / chains;
        let rounds = self.rounds.min(length / LEAST_PER_ROUND).max(1);
        let mut inputs: Vec<Vec<Chain>> = vec![vec![Chain::default(); chains]; batch];
        let (mut counts, mut reached) = (Vec::with_capacity(rounds), vec![false; batch]);
        for round in 0..rounds {
            let count = length * (round + 1) / rounds - length * round / rounds;
            counts.push(count);
            let mut z = Vec::with_capacity(batch * chains * count * dim);
            for input in &mut inputs {
                for chain in 0..chains {
                    let mixture = fit(input, chain, self.components, &unit.most, rng);
                    input[chain].draw(count, mixture, &unit, &mut z, rng)?;
                }
            }
            let y = host::tensor(unit.decode(&z), (batch, chains * count, dim), center)?;
            let f = scores(model, features, &y)?;
            // The samples as the model has them, rounded to its type.
            let y = host::values(&y)?;
            let z = unit.encode(&y);
            let q = unit.density(&z)?;
            let size = count * dim;
            let mut parts = y.chunks_exact(size).zip(z.chunks_exact(size)).zip(q.chunks_exact(count));
            for ((input, f), reached) in inputs.iter_mut().zip(f).zip(&mut reached) {
                for ((chain, f), ((y, z), q)) in input.iter_mut().zip(f.chunks_exact(count)).zip(&mut parts) {
                    chain.add(y, z, f, q);
                }
                let size = effective_size(input, 1.0);
                *reached = self.target_effective_size.is_some_and(|target| size >= target);
            }
            if reached.iter().all(|reached| *reached) {
                break;
            }
        }
        let counts = counts.repeat(chains);
        let constant = unit.scale.iter().map(|scale| scale.ln()).sum::<f64>() - (chains as f64).ln();
        let density = |(x, (input, reached)): (usize, (Vec<Chain>, bool))| {
            let log_weights =
                input.iter().flat_map(|chain| &chain.log_weights).map(|w| w + constant).collect();
            let samples = input.into_iter().flat_map(|chain| chain.y).collect();
            ImportanceDensity::weigh(x, dim, samples, log_weights, counts.clone(), reached)
        };
        inputs.into_iter().zip(reached).enumerate().map(density).collect()
    }
}

/// Coordinates z = (y − centre) / scale, in which the proposal q₀ has a mean square of 1.
struct Unit {
    /// Centres of the B inputs, B × D numbers.
    center: Vec<f64>,
    scale: Vec<f64>,
    /// q₀ in these coordinates, about 0.
    proposal: GaussianMixture,
    /// Largest standard deviation of each coordinate of q₀.
    most: Vec<f64>,
}

impl Unit {
    fn new(proposal: &GaussianMixture, center: Vec<f64>) -> Result<Self> {
        let sigmas = proposal.sigmas();
        let mean = |d: usize| sigmas.iter().map(|s| s[d] * s[d]).sum::<f64>() / sigmas.len() as f64;
        let scale: Vec<f64> = (0..proposal.dim()).map(|d| mean(d).sqrt()).collect();
        let scaled: Vec<Vec<f64>> =
            sigmas.iter().map(|s| s.iter().zip(&scale).map(|(s, scale)| s / scale).collect()).collect();
        let most = (0..scale.len()).map(|d| scaled.iter().map(|s| s[d]).fold(0.0, f64::max)).collect();
        Ok(Self { center, scale, proposal: GaussianMixture::new(scaled)?, most })
    }

    /// Converts samples, equally many of each input.
    fn decode(&self, z: &[f64]) -> Vec<f64> {
        self.places(z.len()).zip(z).map(|((center, scale), z)| center + scale * z).collect()
    }

    fn encode(&self, y: &[f64]) -> Vec<f64> {
        self.places(y.len()).zip(y).map(|((center, scale), y)| (y - center) / scale).collect()
    }

    /// Yields the centre and the scale of each of `count` numbers.
    fn places(&self, count: usize) -> impl Iterator<Item = (f64, f64)> {
        let dim = self.scale.len();
        let samples = count / self.center.len();
        let centers =
            self.center.chunks_exact(dim).flat_map(move |center| std::iter::repeat_n(center, samples));
        centers.flatten().copied().zip(self.scale.iter().copied().cycle())
    }

    fn density(&self, z: &[f64]) -> Result<Vec<f64>> {
        let dim = self.scale.len();
        let z = Tensor::from_slice(z, (1, z.len() / dim, dim), &Device::Cpu)?;
        host::values(&self.proposal.log_prob(&z, &Tensor::zeros((1, dim), DType::F64, &Device::Cpu)?)?.exp()?)
    }
}

/// Half of the samples of one input.
#[derive(Clone, Default)]
struct Chain {
    y: Vec<f64>,
    z: Vec<f64>,
    f: Vec<f64>,
    /// Density of q₀ at each sample.
    q: Vec<f64>,
    /// Sum over all distributions of their number of samples times their density, at each sample.
    mass: Vec<f64>,
    /// f − log mass; the sum of these weights is an estimate of Z.
    log_weights: Vec<f64>,
    /// Number of samples from q₀ before the last round, and in it.
    plain: [usize; 2],
    /// Fitted components with their numbers of samples.
    fitted: Vec<(f64, Component)>,
    /// Number of components that are older than the last round.
    old: usize,
}

impl Chain {
    /// Appends `count` samples of a new round to `z`.
    fn draw(
        &mut self,
        count: usize,
        mixture: Vec<(f64, Component)>,
        unit: &Unit,
        z: &mut Vec<f64>,
        rng: &mut dyn RngCore,
    ) -> Result<()> {
        self.old = self.fitted.len();
        let plain = if mixture.is_empty() { count } else { count.div_ceil(DEFENSIVE) };
        self.plain = [self.plain[0] + self.plain[1], plain];
        let origin = Tensor::zeros((1, unit.scale.len()), DType::F64, &Device::Cpu)?;
        z.extend(host::values(&unit.proposal.sample(&origin, plain, rng)?)?);
        let (mut share, mut drawn) = (0.0, 0);
        for (probability, component) in mixture {
            share += probability;
            let end = ((count - plain) as f64 * share).round() as usize;
            (drawn..end).for_each(|_| component.draw(z, rng));
            self.fitted.push(((end - drawn) as f64, component));
            drawn = end;
        }
        Ok(())
    }

    /// Adds the samples of the last round, with f and the density of q₀ at them.
    fn add(&mut self, y: &[f64], z: &[f64], f: &[f64], q: &[f64]) {
        let (before, dim) = (self.f.len(), z.len() / f.len());
        self.y.extend_from_slice(y);
        self.z.extend_from_slice(z);
        self.f.extend_from_slice(f);
        self.q.extend_from_slice(q);
        self.mass.resize(self.f.len(), 0.0);
        let mut room = vec![0.0; dim];
        for (k, (mass, z)) in self.mass.iter_mut().zip(self.z.chunks_exact(dim)).enumerate() {
            let [earlier, last] = self.plain;
            let (plain, since) = if k < before { (last, self.old) } else { (earlier + last, 0) };
            let fitted = self.fitted[since..].iter().map(|(count, each)| count * each.density(z, &mut room));
            *mass += plain as f64 * self.q[k] + fitted.sum::<f64>();
        }
        self.log_weights = self.f.iter().zip(&self.mass).map(|(f, mass)| f - mass.ln()).collect();
    }
}

/// Fits a mixture to the samples of the other chain. It is empty before there is a sample with a weight.
fn fit(
    input: &[Chain],
    own: usize,
    components: usize,
    most: &[f64],
    rng: &mut dyn RngCore,
) -> Vec<(f64, Component)> {
    let dim = most.len();
    // Numbers of a component: its mean and Σ.
    let enough = (dim * (dim + 3) / 2) as f64;
    // Samples that hardly count do not bias log Z, so that a search may use those of both chains.
    let found = input.iter().all(|chain| effective_size(std::slice::from_ref(chain), 1.0) >= enough);
    let chains = if found { &input[1 - own..2 - own] } else { input };
    let log_weights = || chains.iter().flat_map(|chain| &chain.log_weights);
    let max = log_weights().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return Vec::new();
    }
    let enough = enough.min(log_weights().count() as f64 / 3.0);
    let mut exponents = [LEAST_LOG_EXPONENT, 0.0];
    if effective_size(chains, 1.0) >= enough {
        exponents = [0.0; 2];
    } else {
        for _ in 0..HALVINGS {
            let middle = 0.5 * (exponents[0] + exponents[1]);
            exponents[usize::from(effective_size(chains, middle.exp()) < enough)] = middle;
        }
    }
    let exponent = exponents[0].exp();
    let (mut values, mut weights) = (Vec::new(), Vec::new());
    for (z, log_weight) in chains.iter().flat_map(|chain| chain.z.chunks_exact(dim)).zip(log_weights()) {
        let log_weight = exponent * (log_weight - max);
        if log_weight > NEGLIGIBLE {
            values.extend_from_slice(z);
            weights.push(log_weight.exp());
        }
    }
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    let size = effective_size(chains, exponent);
    let count = (size as usize / (SAMPLES_PER_COORDINATE * dim)).clamp(1, components);
    Points { dim, values, weights, size }.fit(count, most, rng)
}

/// Returns (Σ w)² / Σ w² of the weights of `chains` to the power of `exponent`; NaN if all are 0.
fn effective_size(chains: &[Chain], exponent: f64) -> f64 {
    let log_weights = || chains.iter().flat_map(|chain| &chain.log_weights);
    let max = log_weights().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers = log_weights().map(|log_weight| (exponent * (log_weight - max)).exp());
    let (sum, squares) = powers.fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    sum * sum / squares
}
