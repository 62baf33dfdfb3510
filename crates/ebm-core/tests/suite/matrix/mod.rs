//! Objectives × densities: each objective, trained by gradient descent on fresh data with its own noise, finds
//! the parameters of the density that it should converge to.
//!
//! The expected values are closed forms (see the single tests). The tolerance is measured in the same run: the
//! iterates after a first phase are averaged in blocks much longer than their memory, and the spread of the
//! blocks' means gives the standard error of the average.

mod bimodal;
mod families;
mod few_samples;
mod gaussian;
mod normalizer;
mod quartic;
mod scores;

use candle_core::{Device, Tensor, Var};
use ebm_core::parametric::GaussianMixtureDensity;
use ebm_core::{Derivatives, Objective, Result};
use rand::RngCore;

use crate::zoo::{flat, rng};
use families::Family;

/// Length of a training.
#[derive(Clone, Copy)]
pub struct Training {
    pub batch: usize,
    pub steps: usize,
}

const MANY_SAMPLES: Training = Training { batch: 16, steps: 480 };
const FEW_SAMPLES: Training = Training { batch: 64, steps: 480 };
/// Of score matching, which has no samples.
const SCORES: Training = Training { batch: 256, steps: 480 };

/// Ways to the derivatives that score matching needs.
const WAYS: [(&str, Derivatives); 2] =
    [("exact", Derivatives::Exact), ("differences", Derivatives::Differences { step: 0.01 })];

/// Number of blocks of iterates whose means are compared.
const BLOCKS: usize = 8;
/// Largest error of a result, in standard errors.
const SIGMAS: f64 = 5.0;
/// Largest distance between the fixed points with M and with infinitely many samples around the target. It is of
/// order 1/M: 2/128 for a likelihood, 4/256 for a ranking.
pub const FEW_SAMPLES_BIAS: f64 = 0.016;

/// Adam (Kingma and Ba, 2015) with β = (0.9, 0.99).
struct Adam {
    moments: Vec<Vec<[f64; 2]>>,
    step: i32,
}

impl Adam {
    fn new(variables: &[&Var]) -> Self {
        Self { moments: variables.iter().map(|v| vec![[0.0; 2]; v.elem_count()]).collect(), step: 0 }
    }

    fn step(&mut self, variables: &[&Var], loss: &Tensor, rate: f64) -> Result<()> {
        self.step += 1;
        let gradients = loss.backward()?;
        for (variable, moments) in variables.iter().zip(&mut self.moments) {
            let gradient = flat(gradients.get(variable).unwrap());
            let mut values = flat(variable);
            for ((value, g), [m, v]) in values.iter_mut().zip(gradient).zip(moments) {
                *m = 0.9 * *m + 0.1 * g;
                *v = 0.99 * *v + 0.01 * g * g;
                let (m, v) = (*m / (1.0 - 0.9f64.powi(self.step)), *v / (1.0 - 0.99f64.powi(self.step)));
                *value -= rate * m / (v.sqrt() + 1e-12);
            }
            variable.set(&Tensor::from_vec(values, variable.shape(), &Device::Cpu)?)?;
        }
        Ok(())
    }
}

/// Returns the means of the quantities that `state` reads over the iterates of the second half, and their
/// standard errors.
pub fn train(
    training: Training,
    variables: &[&Var],
    mut loss: impl FnMut(&mut dyn RngCore) -> Result<Tensor>,
    state: impl Fn() -> Vec<f64>,
) -> Vec<[f64; 2]> {
    let (mut adam, mut rng) = (Adam::new(variables), rng(17));
    let block = training.steps / 2 / BLOCKS;
    let first = training.steps - BLOCKS * block;
    let mut means = vec![vec![0.0; state().len()]; BLOCKS];
    for step in 0..training.steps {
        let rate = if step < first * 2 / 3 { 0.05 } else { 0.02 };
        adam.step(variables, &loss(&mut rng).unwrap(), rate).unwrap();
        if step >= first {
            let mean = &mut means[(step - first) / block];
            mean.iter_mut().zip(state()).for_each(|(mean, value)| *mean += value / block as f64);
        }
    }
    let n = BLOCKS as f64;
    let summary = |index: usize| {
        let mean = means.iter().map(|block| block[index]).sum::<f64>() / n;
        let spread: f64 = means.iter().map(|block| (block[index] - mean).powi(2)).sum();
        [mean, (spread / (n - 1.0) / n).sqrt()]
    };
    (0..means[0].len()).map(summary).collect()
}

/// Asserts that each mean is within its error and `bias` of the expected value, and that no error is too large
/// for the test to mean anything.
#[track_caller]
pub fn assert_found(what: &str, names: &[&str], found: &[[f64; 2]], expected: &[f64], bias: f64) {
    assert_eq!((names.len(), found.len()), (expected.len(), expected.len()));
    let mut wrong = Vec::new();
    for ((name, [mean, error]), expected) in names.iter().zip(found).zip(expected) {
        println!("{what}: {name} = {mean:.4} ± {error:.4}, expected {expected:.4}");
        let informative = *error > 0.0 && *error < 0.02 * (1.0 + expected.abs());
        if !informative || (mean - expected).abs() > SIGMAS * error + bias {
            wrong.push(format!("{name} = {mean} ± {error}, expected {expected} ± {bias}"));
        }
    }
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

/// Trains `family` from its start by `objective`, for which the right parameters are `expected`. `bias` is the
/// largest distance of the objective's own fixed point.
#[track_caller]
pub fn assert_recovers<F: Family>(
    what: &str,
    training: Training,
    family: &F,
    objective: &impl Objective,
    expected: &[f64],
    bias: f64,
) {
    let loss = |x: &Tensor, y: &Tensor, rng: &mut dyn RngCore| objective.loss(family, x, y, rng);
    assert_recovers_by(what, training, family, loss, expected, bias);
}

/// Tests like [`assert_recovers`] with a loss of x (B, 1, 1) and y (B, D), for objectives that are made again for each
/// batch.
#[track_caller]
pub fn assert_recovers_by<F: Family>(
    what: &str,
    training: Training,
    family: &F,
    mut loss: impl FnMut(&Tensor, &Tensor, &mut dyn RngCore) -> Result<Tensor>,
    expected: &[f64],
    bias: f64,
) {
    let batch_loss = |rng: &mut dyn RngCore| {
        let (x, y) = family.data(training.batch, rng)?;
        loss(&x, &y, rng)
    };
    let found = train(training, &family.variables(), batch_loss, || family.parameters());
    assert_found(what, &family.names(), &found, expected, bias);
}

/// q(y | x) = N(center, sigma²) for every input of the batch of `y`, in each coordinate.
pub fn independent(y: &Tensor, center: f64, sigma: f64) -> Result<GaussianMixtureDensity> {
    let (batch, dim) = y.dims2()?;
    let full = |value: f64| Tensor::full(value, (batch, 1, dim), y.device());
    GaussianMixtureDensity::new(
        &Tensor::zeros((batch, 1), y.dtype(), y.device())?,
        full(center)?,
        full(2.0 * sigma.ln())?,
    )
}
