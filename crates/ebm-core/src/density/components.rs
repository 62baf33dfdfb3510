//! Distributions with full covariances and heavy tails, and the mixture of them that fits weighted points.

use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

/// Share of Student's t distribution in a component; the rest is Gaussian.
const TAILS: f64 = 0.2;
/// Degrees of freedom ν of Student's t distribution, and its density at 0 in one dimension.
const FREEDOM: f64 = 3.0;
const PEAK: f64 = 0.367_552_596_947_861_3;
/// Steps of expectation and maximisation in a fit.
const STEPS: usize = 4;
/// Weight of correlations of 0 beside those of the points, in points.
const SHRINKAGE: f64 = 0.5;

/// Distribution `(1 − a) N(μ, Σ) + a t_ν(μ, Σ)` in D coordinates, with Σ = L Lᵀ. The Gaussian part suits most
/// densities; the tails bound the weights of the others.
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
        let (dim, tau) = (mean.len(), std::f64::consts::TAU);
        let mut volume = 1.0;
        for (i, row) in rows(dim) {
            for (j, column) in rows(i + 1) {
                let rest = factor[row + j] - dot(&factor[row..row + j], &factor[column..]);
                factor[row + j] = if i == j { rest.sqrt().recip() } else { rest * factor[column + j] };
            }
            volume /= factor[row + i];
        }
        // Γ((ν + D) / 2) / (Γ(ν / 2) (ν π)^(D/2)), by its recursion from D to D + 2.
        let start = if dim % 2 == 0 { 1.0 } else { PEAK };
        let tails = (dim % 2..dim).step_by(2).fold(start, |t, d| t * (FREEDOM + d as f64) / (FREEDOM * tau));
        let body = tau.powf(-0.5 * dim as f64);
        Self { mean, factor, peaks: [(1.0 - TAILS) * body / volume, TAILS * tails / volume] }
    }

    /// Returns the squared Mahalanobis distance of `y` from the mean; `z` is room for D numbers.
    fn distance(&self, y: &[f64], z: &mut [f64]) -> f64 {
        for (i, row) in rows(y.len()) {
            z[i] = (y[i] - self.mean[i] - dot(&self.factor[row..row + i], z)) * self.factor[row + i];
        }
        dot(z, z)
    }

    /// Returns the density at this squared distance from the mean, and its part that counts for Σ.
    fn parts(&self, distance: f64) -> [f64; 2] {
        let (power, ratio) = (FREEDOM + self.mean.len() as f64, 1.0 + distance / FREEDOM);
        let body = self.peaks[0] * (-0.5 * distance).exp();
        let tails = self.peaks[1] / ratio.sqrt().powi(power as i32);
        [body + tails, body + tails * power / (FREEDOM * ratio)]
    }

    /// Returns the density at `y`; `z` is room for D numbers.
    pub(super) fn density(&self, y: &[f64], z: &mut [f64]) -> f64 {
        self.parts(self.distance(y, z))[0]
    }

    /// Appends a draw to `to`.
    pub(super) fn draw(&self, to: &mut Vec<f64>, rng: &mut dyn RngCore) {
        let tails = rng.random::<f64>() < TAILS;
        let mut normal = || rng.sample::<f64, _>(StandardNormal);
        let square: f64 = (0..FREEDOM as usize).map(|_| normal().powi(2)).sum();
        let stretch = if tails { (FREEDOM / square).sqrt() } else { 1.0 };
        let z: Vec<f64> = self.mean.iter().map(|_| normal() * stretch).collect();
        let at = |(i, row)| self.mean[i] + dot(&self.factor[row..row + i], &z) + z[i] / self.factor[row + i];
        to.extend(rows(z.len()).map(at));
    }
}

/// Yields the rows of a lower triangle with the places of their first numbers.
fn rows(dim: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..dim).map(|i| (i, i * (i + 1) / 2))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Fits `count` components to `points`, D numbers and a positive weight each, by expectation and maximisation.
/// Returns the components with their probabilities. The weights have the sum 1 and count for `size` equal ones.
/// No standard deviation in Σ exceeds its element of `most`, D numbers.
pub(super) fn fit(
    points: &[(&[f64], f64)],
    size: f64,
    count: usize,
    most: &[f64],
    rng: &mut dyn RngCore,
) -> Vec<(f64, Component)> {
    let dim = most.len();
    let mut z = vec![0.0; dim];
    let mut whole = Moments::new(points[0].0.to_vec());
    points.iter().for_each(|(y, weight)| whole.add(y, *weight, *weight));
    let mut mixture = vec![whole.component(size, most)];
    while mixture.len() < count {
        // The next mean is a point, drawn by its weight times its squared distance from the nearest mean.
        let mut near =
            |y: &[f64]| mixture.iter().map(|(_, c)| c.distance(y, &mut z)).fold(f64::INFINITY, f64::min);
        let chances: Vec<f64> = points.iter().map(|(y, weight)| weight * near(y)).collect();
        let mut left = rng.random::<f64>() * chances.iter().sum::<f64>();
        let chosen = points.iter().zip(&chances).find(|(_, chance)| {
            left -= *chance;
            left < 0.0
        });
        let mean = chosen.map_or(points[0].0, |((y, _), _)| y).to_vec();
        mixture.push((1.0, Component { mean, ..mixture[0].1.clone() }));
    }
    let mut parts = vec![[0.0; 2]; count];
    for _ in 0..STEPS {
        let mut moments: Vec<_> =
            mixture.iter().map(|(_, component)| Moments::new(component.mean.clone())).collect();
        for (y, weight) in points {
            let mut sum = f64::MIN_POSITIVE;
            for ((share, component), parts) in mixture.iter().zip(&mut parts) {
                *parts = component.parts(component.distance(y, &mut z)).map(|part| share * part);
                sum += parts[0];
            }
            for (moments, parts) in moments.iter_mut().zip(&parts) {
                moments.add(y, weight * parts[0] / sum, weight * parts[1] / sum);
            }
        }
        mixture = moments.into_iter().map(|moments| moments.component(size, most)).collect();
    }
    mixture
}

/// Sums over weighted points: of the probabilities that they belong to a component, of the weights that they have
/// in its Σ, of their offsets from `origin`, and of the products of these.
struct Moments {
    origin: Vec<f64>,
    share: f64,
    weight: f64,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Moments {
    fn new(origin: Vec<f64>) -> Self {
        let [first, second] = [origin.len(), origin.len() * (origin.len() + 1) / 2].map(|n| vec![0.0; n]);
        Self { origin, share: 0.0, weight: f64::MIN_POSITIVE, first, second }
    }

    fn add(&mut self, y: &[f64], share: f64, weight: f64) {
        self.share += share;
        self.weight += weight;
        for (i, row) in rows(y.len()) {
            let offset = weight * (y[i] - self.origin[i]);
            self.first[i] += offset;
            for ((y, origin), second) in y.iter().zip(&self.origin).zip(&mut self.second[row..=row + i]) {
                *second += offset * (y - origin);
            }
        }
    }

    /// Returns the probability of the component, and the component. As its points are few, Σ is wider than theirs
    /// and less correlated.
    fn component(mut self, size: f64, most: &[f64]) -> (f64, Component) {
        let size = size * self.share;
        let (kept, wider) = (size / (size + SHRINKAGE), 1.0 + most.len() as f64 / size.max(1.0));
        let mut limit = 1.0f64;
        self.first.iter_mut().for_each(|first| *first /= self.weight);
        for (i, row) in rows(most.len()) {
            for j in 0..=i {
                let value = (self.second[row + j] / self.weight - self.first[i] * self.first[j]) * wider;
                self.second[row + j] =
                    if i == j { value.max(1e-20 * most[i] * most[i]) } else { value * kept };
            }
            limit = limit.min(most[i] * most[i] / self.second[row + i]);
        }
        self.second.iter_mut().for_each(|value| *value *= limit);
        let mean = self.origin.iter().zip(&self.first).map(|(origin, first)| origin + first).collect();
        (self.share, Component::new(mean, self.second))
    }
}

#[cfg(test)]
mod tests {
    use ebm_base::Key;

    use super::*;

    /// Density of the tails in up to three dimensions at a squared distance: Student's t with three degrees
    /// of freedom.
    fn student(dim: usize, distance: f64) -> f64 {
        let pi = std::f64::consts::PI;
        let peak = [2.0 / (pi * 3f64.sqrt()), 0.5 / pi, 4.0 / (pi.sqrt() * (3.0 * pi).powf(1.5))][dim - 1];
        peak * (1.0 + distance / 3.0).powf(-0.5 * (3.0 + dim as f64))
    }

    fn mixed(dim: usize, distance: f64) -> f64 {
        let body = (-0.5 * distance).exp() * std::f64::consts::TAU.powf(-0.5 * dim as f64);
        0.8 * body + 0.2 * student(dim, distance)
    }

    /// Squared Mahalanobis distance by the inverse of Σ, which has the variances 4 and 1 and the covariance
    /// 1.2.
    fn distance(y: &[f64]) -> f64 {
        let (a, b) = (y[0] - 5.0, y[1] + 1.0);
        (a * a - 2.4 * a * b + 4.0 * b * b) / 2.56
    }

    #[test]
    fn a_component_is_a_gaussian_with_the_tails_of_students_t() {
        for at in [0.0, 0.5, 2.0, 9.0, 60.0] {
            let one = Component::new(vec![5.0], vec![4.0]).density(&[5.0 + 2.0 * at], &mut [0.0]);
            assert!((2.0 * one / mixed(1, at * at) - 1.0).abs() < 1e-12, "{at}: {one}");
            let y = [5.0 + 2.0 * at, -1.0 - at];
            let two = Component::new(vec![5.0, -1.0], vec![4.0, 1.2, 1.0]).density(&y, &mut [0.0; 2]);
            assert!((1.6 * two / mixed(2, distance(&y)) - 1.0).abs() < 1e-12, "{at}: {two}");
            let sides = Component::new(vec![0.0; 3], vec![1.0, 0.0, 4.0, 0.0, 0.0, 0.25]);
            let three = sides.density(&[at, -2.0 * at, 0.5 * at], &mut [0.0; 3]);
            assert!((three / mixed(3, 3.0 * at * at) - 1.0).abs() < 1e-12, "{at}: {three}");
        }
    }

    /// Beyond a distance r lie `exp(−r²/2)` of a Gaussian in the plane and `(1 + r²/3)^(−3/2)` of Student's
    /// t.
    #[test]
    fn draws_have_the_density() {
        let component = Component::new(vec![5.0, -1.0], vec![4.0, 1.2, 1.0]);
        let (mut rng, mut drawn, count) = (Key::new(1).rng(), Vec::new(), 40_000);
        (0..count).for_each(|_| component.draw(&mut drawn, &mut rng));
        let judge = |what: &str, holds: &dyn Fn(&[f64]) -> bool, p: f64| {
            let share = drawn.chunks_exact(2).filter(|y| holds(y)).count() as f64 / f64::from(count);
            let error = (p * (1.0 - p) / f64::from(count)).sqrt();
            assert!((share - p).abs() < 4.0 * error, "{what}: {share}, not {p}");
        };
        for r in [0.5, 1.0, 2.0, 4.0, 8.0f64] {
            let p = 0.8 * (-0.5 * r * r).exp() + 0.2 * (1.0 + r * r / 3.0).powf(-1.5);
            judge(&format!("beyond {r}"), &|y| distance(y) > r * r, p);
        }
        // The correlation is 0.6.
        judge("same sign", &|y| (y[0] > 5.0) == (y[1] > -1.0), 0.5 + 0.6f64.asin() / std::f64::consts::PI);
        judge("right", &|y| y[0] > 5.0, 0.5);
        judge("above", &|y| y[1] > -1.0, 0.5);
    }

    /// Returns the density of the only component at its mean, by the root of the determinant of Σ.
    fn peak(points: &[(&[f64], f64)], size: f64, most: &[f64], mean: &[f64]) -> f64 {
        let mixture = fit(points, size, 1, most, &mut Key::new(2).rng());
        let [(share, component)] = &mixture[..] else { panic!("{} components", mixture.len()) };
        assert!((share - 1.0).abs() < 1e-12, "{share}");
        component.density(mean, &mut vec![0.0; mean.len()]) / mixed(mean.len(), 0.0)
    }

    /// Points of one distance from the mean all have the same part in Σ.
    #[test]
    fn one_component_has_the_moments_of_few_points() {
        let points = [(&[2.0][..], 0.5), (&[4.0][..], 0.5)];
        // Four points of variance 1 give the variance 1 + 1/4, and the limit is a variance of 0.25.
        assert!((peak(&points, 4.0, &[10.0], &[3.0]) - 1.25f64.sqrt().recip()).abs() < 1e-12);
        assert!((peak(&points, 4.0, &[0.5], &[3.0]) - 2.0).abs() < 1e-12);
        // Variances of 1 + 2/4, and a correlation of 4/4.5 instead of 1.
        let points = [(&[2.0, 7.0][..], 0.5), (&[4.0, 9.0][..], 0.5)];
        let root = 1.5 * (1.0 - (4.0f64 / 4.5).powi(2)).sqrt();
        assert!((peak(&points, 4.0, &[10.0; 2], &[3.0, 8.0]) - root.recip()).abs() < 1e-12);
    }

    /// A point far from the others has the part `ν + D` over `ν` times `1 + d/ν` in Σ if the tails explain
    /// it.
    #[test]
    fn outliers_hardly_widen_a_component() {
        let near: Vec<[f64; 1]> = (0..200).map(|k| [0.01 * f64::from(k) - 0.995]).collect();
        let mut points: Vec<(&[f64], f64)> = near.iter().map(|y| (&y[..], 0.0049)).collect();
        points.extend([(&[-30.0][..], 0.01), (&[30.0][..], 0.01)]);
        // The variance of all points is 18.3, and that of the others 1/3.
        let spread = 1.0 / peak(&points, 1e6, &[100.0], &[0.0]);
        assert!(spread < 1.5, "{spread}");
    }

    #[test]
    fn two_groups_of_points_have_a_component_each() {
        let points = [(&[-5.2][..], 0.15), (&[-4.8][..], 0.15), (&[4.8][..], 0.35), (&[5.2][..], 0.35)];
        for seed in 0..20 {
            let mut mixture = fit(&points, 1e3, 2, &[10.0], &mut Key::new(seed).rng());
            mixture.sort_by(|a, b| a.0.total_cmp(&b.0));
            let [(low, few), (high, many)] = &mixture[..] else { panic!("{} components", mixture.len()) };
            assert!((low - 0.3).abs() < 0.05 && (high - 0.7).abs() < 0.05, "{seed}: {low} {high}");
            for (component, at) in [(few, -5.0), (many, 5.0)] {
                let [near, far] = [at, -at].map(|y| component.density(&[y], &mut [0.0]));
                assert!(near > 10.0 * far, "{seed}: {near} at {at}, {far} at {}", -at);
            }
        }
    }
}
