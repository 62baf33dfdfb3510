//! An exponential family with two wells.

use candle_core::{Tensor, Var};
use ebm_core::{
    DirectionalDerivatives, Directions, EnergyModel, GaussianMixture, InfoNce, LangevinNll, MonteCarloNll,
    NoiseContrastive, Objective, Order, Result, ScoreMatching, Uniform,
};
use rand::{Rng, RngCore};

use super::families::{Family, batch, level, var};
use super::{
    FEW_SAMPLES, FEW_SAMPLES_BIAS, MANY_SAMPLES, SCORES, Training, WAYS, assert_recovers, assert_recovers_by,
    independent,
};
use crate::zoo::flat;

/// f = θ₀ x y + θ₁ y² − θ₂ (y² − 1)² + level for x in {−1, 0, 1}: an exponential family with two wells.
pub struct Quartic {
    theta: Var,
}

impl Quartic {
    pub const THETA: [f64; 3] = [1.0, 0.5, 1.0];
    /// Beyond ±`RANGE` the density is below e^-40.
    pub const RANGE: f64 = 3.0;

    pub fn new() -> Self {
        Self { theta: var(&[0.0, 0.0, 0.6], (1, 1, 3)) }
    }

    /// (x y, y², −(y² − 1)²), (B, M, 3): less alike than the powers of y.
    fn statistics(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let square = y.sqr()?;
        Ok(Tensor::cat(&[&y.broadcast_mul(x)?, &square, &(&square - 1.0)?.sqr()?.neg()?], 2)?)
    }

    /// log of ∫ exp f dy at the true parameters, level included.
    pub fn log_z(x: f64) -> f64 {
        Self::table(x).1.ln() + 2.0 + 0.5 * x
    }

    /// The cumulative sums of exp f at 2001 points, and the integral.
    fn table(x: f64) -> (Vec<f64>, f64) {
        let step = Self::RANGE / 1000.0;
        let density = |i: i32| {
            let y = step * f64::from(i - 1000);
            (Self::THETA[0] * x * y + Self::THETA[1] * y * y - Self::THETA[2] * (y * y - 1.0).powi(2)).exp()
        };
        let cumulative: Vec<f64> = (0..2001)
            .scan(0.0, |total, i| {
                *total += density(i);
                Some(*total)
            })
            .collect();
        let total = cumulative[2000];
        (cumulative, total * step)
    }
}

impl EnergyModel for Quartic {
    type Features = Tensor;

    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(Self::statistics(x, y)?.broadcast_mul(&self.theta)?.sum(2)?.broadcast_add(&level(x)?)?)
    }

    fn derivatives_along(
        &self,
        x: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        _: Order,
    ) -> Result<DirectionalDerivatives> {
        let (one, square) = (y.ones_like()?, y.sqr()?);
        let first = [&one.broadcast_mul(x)?, &(y * 2.0)?, &(y * (1.0 - &square)?)?.affine(4.0, 0.0)?];
        let second = [&one.zeros_like()?, &(&one * 2.0)?, &square.affine(-12.0, 4.0)?];
        let along = |t: [&Tensor; 3], v: &Tensor| -> Result<Tensor> {
            Ok((Tensor::cat(&t, 2)?.broadcast_mul(&self.theta)?.sum(2)? * v)?)
        };
        let v = direction.squeeze(2)?;
        Ok(DirectionalDerivatives {
            value: self.score(x, y)?,
            first: along(first, &v)?,
            second: Some(along(second, &v.sqr()?)?),
        })
    }
}

impl Family for Quartic {
    fn names(&self) -> Vec<&'static str> {
        vec!["θ₀", "θ₁", "θ₂"]
    }

    fn data(&self, size: usize, rng: &mut dyn RngCore) -> Result<(Tensor, Tensor)> {
        let tables = [-1.0, 0.0, 1.0].map(|x| (x, Self::table(x).0));
        let draw = |_| {
            let (x, cumulative) = &tables[rng.random_range(0..3)];
            let level = cumulative[2000] * rng.random::<f64>();
            let index = cumulative.partition_point(|c| *c < level) as f64;
            (*x, vec![(index - 1000.5 + rng.random::<f64>()) * Self::RANGE / 1000.0])
        };
        batch(&(0..size).map(draw).collect::<Vec<_>>())
    }

    fn variables(&self) -> Vec<&Var> {
        vec![&self.theta]
    }

    fn parameters(&self) -> Vec<f64> {
        flat(&self.theta)
    }
}

#[track_caller]
fn check(what: &str, training: Training, objective: &impl Objective, bias: f64) {
    assert_recovers(what, training, &Quartic::new(), objective, &Quartic::THETA, bias);
}

#[test]
fn ml_is() {
    let proposal = GaussianMixture::isotropic(&[0.4, 2.0], 1).unwrap();
    check("ML-IS", MANY_SAMPLES, &MonteCarloNll { proposal, num_samples: 128 }, FEW_SAMPLES_BIAS);
}

#[test]
fn nce() {
    let family = Quartic::new();
    let loss = |x: &_, y: &_, rng: &mut dyn RngCore| {
        NoiseContrastive { proposal: independent(y, 0.0, 1.0)?, num_samples: 4 }.loss(&family, x, y, rng)
    };
    assert_recovers_by("NCE, q(y | x), M = 4", FEW_SAMPLES, &family, loss, &Quartic::THETA, 0.0);
}

#[test]
fn ml_mcmc() {
    let objective = LangevinNll { num_samples: 4, steps: 8, step_size: 0.05 };
    // The wells have a variance near 1/8, of which the dynamics' own error λ²/4 is half a percent.
    check("ML-MCMC", FEW_SAMPLES, &objective, 0.01);
}

#[test]
fn score_matching() {
    for (way, derivatives) in WAYS {
        let objective = ScoreMatching { derivatives, directions: Directions::Coordinates };
        check(&format!("SM, {way}"), SCORES, &objective, 0.0);
    }
}

#[test]
fn info_nce() {
    let proposal = Uniform::new(vec![-Quartic::RANGE], vec![Quartic::RANGE]).unwrap();
    let objective = InfoNce { proposal, num_samples: 16, temperature: 1.0 };
    check("InfoNCE, uniform q", FEW_SAMPLES, &objective, 0.0);
}
