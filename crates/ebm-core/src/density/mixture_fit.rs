//! Distributions with full covariances and heavy tails, and the mixture of them that fits weighted points.

use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

/// Share of Student's t distribution in a component; the rest is Gaussian.
const TAILS: f64 = 0.2;
/// Degrees of freedom ν of Student's t distribution, and its density at 0 in one dimension.
const FREEDOM: usize = 3;
const PEAK: f64 = 0.367_552_596_947_861_3;
/// Steps of expectation and maximisation in a fit.
const STEPS: usize = 6;
/// Weight of correlations of 0 beside the correlations of the points, in points.
const SHRINKAGE: f64 = 0.5;
/// Least variance of a coordinate.
const LEAST_VARIANCE: f64 = 1e-20;

/// Component of a mixture in D coordinates: `(1 − a) N(μ, Σ) + a t_ν(μ, Σ)` with Σ = L Lᵀ. The Gaussian part suits
/// most densities, and the tails bound the weights of the others.
#[derive(Clone)]
pub(super) struct Component {
    mean: Vec<f64>,
    /// Lower triangle L with the inverses of its diagonal, row by row.
    factor: Vec<f64>,
    /// Density at the mean, of the Gaussian part and of the tails.
    peaks: [f64; 2],
}

impl Component {
    /// Creates a component from the lower triangle of a positive definite Σ, row by row.
    fn new(mean: Vec<f64>, mut factor: Vec<f64>) -> Self {
        let dim = mean.len();
        let mut volume = 1.0;
        for (i, row) in rows(dim) {
            for (j, column) in rows(i + 1) {
                let inner: f64 = (0..j).map(|k| factor[row + k] * factor[column + k]).sum();
                let rest = factor[row + j] - inner;
                factor[row + j] = if i == j { 1.0 / rest.sqrt() } else { rest * factor[column + j] };
            }
            volume /= factor[row + i];
        }
        // Γ((ν + D) / 2) / (Γ(ν / 2) (ν π)^(D/2)), by its recursion from D to D + 2.
        let start = if dim % 2 == 0 { 1.0 } else { PEAK };
        let ratio = |d: usize| (FREEDOM + d) as f64 / (FREEDOM as f64 * std::f64::consts::TAU);
        let tails = (dim % 2..dim).step_by(2).map(ratio).fold(start, |peak, ratio| peak * ratio);
        let body = std::f64::consts::TAU.powf(-0.5 * dim as f64);
        Self { mean, factor, peaks: [(1.0 - TAILS) * body / volume, TAILS * tails / volume] }
    }

    /// Returns the squared Mahalanobis distance of `y` from the mean; `z` is room for D numbers.
    fn distance(&self, y: &[f64], z: &mut [f64]) -> f64 {
        let (mut row, mut square) = (0, 0.0);
        for (i, (y, mean)) in y.iter().zip(&self.mean).enumerate() {
            let factor = &self.factor[row..=row + i];
            let inner: f64 = factor.iter().zip(&z[..i]).map(|(l, z)| l * z).sum();
            z[i] = (y - mean - inner) * factor[i];
            square += z[i] * z[i];
            row += i + 1;
        }
        square
    }

    /// Returns the density of the Gaussian part and of the tails, at this squared distance from the mean.
    fn parts(&self, distance: f64) -> [f64; 2] {
        let root = (1.0 + distance / FREEDOM as f64).sqrt();
        let power = (FREEDOM + self.mean.len()) as i32;
        [self.peaks[0] * (-0.5 * distance).exp(), self.peaks[1] / root.powi(power)]
    }

    /// Returns the density at `y`; `z` is room for D numbers.
    pub(super) fn density(&self, y: &[f64], z: &mut [f64]) -> f64 {
        self.parts(self.distance(y, z)).iter().sum()
    }

    /// Appends a draw to `to`.
    pub(super) fn draw(&self, to: &mut Vec<f64>, rng: &mut dyn RngCore) {
        let tails = rng.random::<f64>() < TAILS;
        let mut normal = || rng.sample::<f64, _>(StandardNormal);
        let square: f64 = if tails { (0..FREEDOM).map(|_| normal().powi(2)).sum() } else { FREEDOM as f64 };
        let stretch = (FREEDOM as f64 / square).sqrt();
        let z: Vec<f64> = self.mean.iter().map(|_| normal() * stretch).collect();
        for ((i, row), mean) in rows(z.len()).zip(&self.mean) {
            let inner: f64 = (0..i).map(|j| self.factor[row + j] * z[j]).sum();
            to.push(mean + inner + z[i] / self.factor[row + i]);
        }
    }
}

/// Yields the rows of a lower triangle with the place of their first number.
fn rows(dim: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..dim).map(|i| (i, i * (i + 1) / 2))
}

/// Points in D coordinates, row by row, with weights of the sum 1 that count for `size` equal ones.
pub(super) struct Points {
    pub(super) dim: usize,
    pub(super) values: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) size: f64,
}

impl Points {
    /// Fits a mixture of `count` components by expectation and maximisation. Returns them with their
    /// probabilities. No standard deviation in Σ exceeds its element of `most`.
    pub(super) fn fit(&self, count: usize, most: &[f64], rng: &mut dyn RngCore) -> Vec<(f64, Component)> {
        let mut z = vec![0.0; self.dim];
        let mut mixture = self.start(count, most, rng);
        let mut found = vec![(0.0, 0.0); count];
        for _ in 0..STEPS {
            let mut moments: Vec<Moments> =
                mixture.iter().map(|(_, component)| Moments::new(component.mean.clone())).collect();
            for (y, weight) in self.iter() {
                let mut sum = f64::MIN_POSITIVE;
                for ((share, component), (p, scale)) in mixture.iter().zip(&mut found) {
                    let distance = component.distance(y, &mut z);
                    let [body, tails] = component.parts(distance);
                    // Expectation of the inverse of the factor on Σ that makes this part Gaussian.
                    let inverse = (FREEDOM + self.dim) as f64 / (FREEDOM as f64 + distance);
                    (*p, *scale) = (share * (body + tails), share * (body + tails * inverse));
                    sum += *p;
                }
                for (moments, (p, scale)) in moments.iter_mut().zip(&found) {
                    moments.add(y, weight * p / sum, weight * scale / sum);
                }
            }
            mixture = moments.into_iter().map(|moments| moments.component(self.size, most)).collect();
        }
        mixture
    }

    /// Returns components of the covariance of all points. The mean of each but the first is a point that is
    /// drawn by its weight times its squared distance from the nearest mean before it.
    fn start(&self, count: usize, most: &[f64], rng: &mut dyn RngCore) -> Vec<(f64, Component)> {
        let mut z = vec![0.0; self.dim];
        let mut whole = Moments::new(vec![0.0; self.dim]);
        self.iter().for_each(|(y, weight)| whole.add(y, weight, weight));
        let (_, mut component) = whole.component(self.size, most);
        let mut chances = self.weights.clone();
        let mut nearest = vec![f64::INFINITY; chances.len()];
        let mut mixture = Vec::with_capacity(count);
        for k in 0..count {
            if count > 1 {
                let mut left = rng.random::<f64>() * chances.iter().sum::<f64>();
                let chosen = chances.iter().position(|chance| {
                    left -= chance;
                    left < 0.0
                });
                component.mean = self
                    .values
                    .chunks_exact(self.dim)
                    .nth(chosen.unwrap_or(k))
                    .map_or_else(Vec::new, <[f64]>::to_vec);
                for (((y, weight), chance), near) in self.iter().zip(&mut chances).zip(&mut nearest) {
                    *near = component.distance(y, &mut z).min(*near);
                    *chance = weight * *near;
                }
            }
            mixture.push((1.0 / count as f64, component.clone()));
        }
        mixture
    }

    fn iter(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.values.chunks_exact(self.dim).zip(self.weights.iter().copied())
    }
}

/// Sums over weighted points of their offsets from `origin` and of the products of these.
struct Moments {
    origin: Vec<f64>,
    share: f64,
    weight: f64,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Moments {
    fn new(origin: Vec<f64>) -> Self {
        let dim = origin.len();
        let [first, second] = [dim, dim * (dim + 1) / 2].map(|count| vec![0.0; count]);
        Self { origin, share: 0.0, weight: 0.0, first, second }
    }

    /// Adds a point that belongs to the component with the probability `share` and counts `weight` in Σ.
    fn add(&mut self, y: &[f64], share: f64, weight: f64) {
        self.share += share;
        self.weight += weight;
        let mut row = 0;
        for i in 0..y.len() {
            let offset = weight * (y[i] - self.origin[i]);
            self.first[i] += offset;
            for (second, (y, origin)) in self.second[row..=row + i].iter_mut().zip(y.iter().zip(&self.origin))
            {
                *second += offset * (y - origin);
            }
            row += i + 1;
        }
    }

    /// Returns the component with these moments, and its probability; the weights of all components count for
    /// `size` points. As the points are few, Σ is wider than theirs and less correlated.
    fn component(mut self, size: f64, most: &[f64]) -> (f64, Component) {
        let dim = self.origin.len();
        let weight = self.weight.max(f64::MIN_POSITIVE);
        self.first.iter_mut().for_each(|first| *first /= weight);
        let size = size * self.share;
        let (kept, wider) = (size / (size + SHRINKAGE), 1.0 + dim as f64 / size.max(1.0));
        for (i, row) in rows(dim) {
            for j in 0..=i {
                let value = (self.second[row + j] / weight - self.first[i] * self.first[j]) * wider;
                self.second[row + j] = if i == j { value.max(LEAST_VARIANCE) } else { value * kept };
            }
        }
        let scales = rows(dim).map(|(i, row)| (most[i] / self.second[row + i].sqrt()).min(1.0));
        let scales: Vec<f64> = scales.collect();
        for (i, row) in rows(dim) {
            (0..=i).for_each(|j| self.second[row + j] *= scales[i] * scales[j]);
        }
        let mean = self.origin.iter().zip(&self.first).map(|(origin, first)| origin + first).collect();
        (self.share, Component::new(mean, self.second))
    }
}
