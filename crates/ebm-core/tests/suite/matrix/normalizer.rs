//! Objectives that train more than f: SNL also trains log Z(x), and joint NCE its proposal.

use candle_core::{Tensor, Var};
use ebm_core::parametric::GaussianMixtureDensity;
use ebm_core::{EnergyModel, GaussianMixture, JointNce, Objective, Result, SelfNormalized};
use rand::RngCore;

use super::families::{Bimodal, Family, Gaussian, var};
use super::quartic::Quartic;
use super::{Training, assert_found, assert_recovers, train};
use crate::zoo::flat;

/// A family with b(x) = b₀ + b₁ x + b₂ x².
struct Normalized<F> {
    family: F,
    b: Var,
}

impl<F> Normalized<F> {
    fn new(family: F) -> Self {
        // It starts too high rather than too low.
        Self { family, b: var(&[4.0, 0.0, 0.0], (1, 3)) }
    }
}

impl<F: Family> EnergyModel for Normalized<F> {
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.family.score(x, y)
    }
    fn log_normalizer(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.squeeze(2)?;
        let powers = Tensor::cat(&[&x.ones_like()?, &x, &x.sqr()?], 1)?;
        Ok(powers.broadcast_mul(&self.b)?.sum(1)?)
    }
}

impl<F: Family> Family for Normalized<F> {
    fn names(&self) -> Vec<&'static str> {
        [self.family.names(), vec!["b₀", "b₁", "b₂"]].concat()
    }
    fn data(&self, batch: usize, rng: &mut dyn RngCore) -> Result<(Tensor, Tensor)> {
        self.family.data(batch, rng)
    }
    fn variables(&self) -> Vec<&Var> {
        [self.family.variables(), vec![&self.b]].concat()
    }
    fn parameters(&self) -> Vec<f64> {
        [self.family.parameters(), flat(&self.b)].concat()
    }
}

#[track_caller]
fn check_snl<F: Family>(family: F, sigmas: &[f64], dim: usize, expected: &[f64], log_z: [f64; 3]) {
    let proposal = GaussianMixture::isotropic(sigmas, dim).unwrap();
    let objective = SelfNormalized { proposal, num_samples: 32 };
    let training = Training { batch: 32, steps: 640 };
    let expected = [expected, &log_z].concat();
    assert_recovers("SNL", training, &Normalized::new(family), &objective, &expected, 0.0);
}

#[test]
fn snl_recovers_the_density_and_its_normalisation() {
    // log Z = level + ½ log det (2π Σ), with the level 2 + x/2.
    let one = Gaussian::expected(1, 0.0);
    let log_z = 0.5 * (std::f64::consts::TAU * one[2]).ln();
    check_snl(Gaussian::new(1), &[0.4, 1.0], 1, &one, [2.0 + log_z, 0.5, 0.0]);
    let two = Gaussian::expected(2, 0.0);
    let log_z = std::f64::consts::TAU.ln() + 0.5 * (two[4] * two[5] - two[6] * two[6]).ln();
    check_snl(Gaussian::new(2), &[0.4, 1.0], 2, &two, [2.0 + log_z, 0.5, 0.0]);
    check_snl(Bimodal::new(), &[0.4, 2.0], 1, &Bimodal::expected(0.0), [2.0, 0.5, 0.0]);
    // The parabola through log Z at the three values of x.
    let [left, middle, right] = [-1.0, 0.0, 1.0].map(Quartic::log_z);
    let parabola = [middle, 0.5 * (right - left), 0.5 * (right + left) - middle];
    check_snl(Quartic::new(), &[0.4, 1.5], 1, &Quartic::THETA, parabola);
}

/// Trains `family` and a mixture of `signs.len()` Gaussians with the means ±(m₀ + m₁ x).
#[track_caller]
fn check_joint<F: Family>(family: &F, signs: &[f64], expected: &[f64], q_expected: &[f64]) {
    let k = signs.len();
    let logits = var(&vec![0.0; k], (1, k));
    let [offset, slope] = [0.5, 0.0].map(|value| var(&[value], (1, 1, 1)));
    let log_variance = var(&[0.5], (1, 1, 1));
    let signs = Tensor::from_vec(signs.to_vec(), (1, k, 1), &candle_core::Device::Cpu).unwrap();
    let proposal = |x: &Tensor| -> Result<GaussianMixtureDensity> {
        let batch = x.dim(0)?;
        let means = x.broadcast_mul(&slope)?.broadcast_add(&offset)?.broadcast_mul(&signs)?;
        let log_variances = log_variance.broadcast_as((batch, k, 1))?;
        GaussianMixtureDensity::new(&logits.broadcast_as((batch, k))?, means, log_variances)
    };
    let variables = [family.variables(), vec![&logits, &offset, &slope, &log_variance]].concat();
    let loss = |rng: &mut dyn RngCore| {
        let (x, y) = family.data(32, rng)?;
        JointNce { proposal: &proposal(&x)?, num_samples: 32 }.loss(family, &x, &y, rng)
    };
    let state = || {
        let mut q = vec![flat(&offset)[0], flat(&slope)[0], flat(&log_variance)[0].exp()];
        if let [first, second] = flat(&logits)[..] {
            q.push(1.0 / (1.0 + (second - first).exp()));
        }
        [family.parameters(), q].concat()
    };
    let found = train(Training { batch: 32, steps: 480 }, &variables, loss, state);
    let names = [family.names(), ["q: offset", "q: slope", "q: σ²", "q: w"][..2 + k].to_vec()].concat();
    assert_found("joint NCE", &names, &found, &[expected, q_expected].concat(), 0.0);
}

#[test]
fn joint_nce_recovers_the_density_and_teaches_it_to_the_proposal() {
    let [a, c] = [Gaussian::SLOPE[0], Gaussian::OFFSET[0]];
    let expected = Gaussian::expected(1, 0.0);
    check_joint(&Gaussian::new(1), &[1.0], &expected, &[c, a, expected[2]]);
    // q's means are ±(1 + x/2).
    let expected = Bimodal::expected(0.0);
    check_joint(&Bimodal::new(), &[1.0, -1.0], &expected, &[1.0, 0.5, expected[2], expected[1]]);
}
