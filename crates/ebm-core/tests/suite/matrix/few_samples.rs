//! Bias of the ranking losses with few samples of noise that is centred on the target.
//!
//! The data are N(0, 1) and the noise is N(y_i, σ²), one sample for each target; f = −y²/(2t).

use candle_core::{Device, Tensor, Var};
use ebm_core::{EnergyModel, GaussianMixture, InfoNce, NoiseContrastive, Objective, Result};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use super::{Training, assert_found, train};
use crate::zoo::flat;

/// The targets of one step.
const TARGETS: usize = 64;

struct Centred {
    precision: Var,
}

impl EnergyModel for Centred {
    type Features = ();
    fn score(&self, (): &(), y: &Tensor) -> Result<Tensor> {
        Ok(y.sqr()?.broadcast_mul(&self.precision)?.sum(2)?.affine(-0.5, 0.0)?)
    }
}

fn found(objective: &impl Objective) -> Vec<[f64; 2]> {
    let model = Centred { precision: Var::new(0.7, &Device::Cpu).unwrap() };
    let loss = |rng: &mut dyn RngCore| {
        let y = (0..TARGETS).map(|_| rng.sample::<f64, _>(StandardNormal)).collect();
        objective.loss(&model, &(), &Tensor::from_vec(y, (TARGETS, 1), &Device::Cpu)?, rng)
    };
    train(Training { batch: TARGETS, steps: 480 }, &[&model.precision], loss, || flat(&model.precision))
}

/// Returns the precision 1/t that minimises the population's NCE loss, by quadrature over the target and the
/// noise.
fn least_nce(sigma: f64) -> f64 {
    let nodes: Vec<f64> = (-60..=60).map(|i| f64::from(i) * 0.1).collect();
    let slope = |precision: f64| -> f64 {
        let pairs = nodes.iter().flat_map(|y| nodes.iter().map(move |e| (y, e)));
        let terms = pairs.map(|(y, e)| {
            let rival = y + sigma * e;
            let rise = 0.5 * (y * y - rival * rival);
            // The rival's score less the target's: f(y') − log q(y' | y) − f(y) + log q(y | y).
            let d = precision * rise + 0.5 * e * e;
            (-0.5 * (y * y + e * e)).exp() * rise / (1.0 + (-d).exp())
        });
        terms.sum()
    };
    let (mut low, mut high) = (0.1, 10.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 { low = middle } else { high = middle }
    }
    low
}

#[test]
fn nce_with_one_centred_sample_is_not_consistent() {
    let expected = least_nce(1.0);
    assert!(expected > 1.3, "there is no effect to see: {expected}");
    let proposal = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let found = found(&NoiseContrastive { proposal, num_samples: 1 });
    assert_found("NCE, Eq. 5, M = 1", &["1/t"], &found, &[expected], 0.0);
}

#[test]
fn info_nce_with_one_centred_sample_is_conditional_nce() {
    // The noise is symmetric in y and y_i, so that the ratio of the densities is f's difference itself.
    let proposal = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let found = found(&InfoNce { proposal, num_samples: 1, temperature: 1.0 });
    assert_found("InfoNCE, Eq. 5, M = 1", &["1/t"], &found, &[1.0], 0.0);
}

#[test]
fn info_nce_with_many_centred_samples_is_neither_the_density_nor_the_ratio() {
    // As M → ∞, with u the variance of q(y | y_i) e^f: u + u² = 1, and 1/t = 1/u − 1.
    let u = (5f64.sqrt() - 1.0) / 2.0;
    let proposal = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let found = found(&InfoNce { proposal, num_samples: 128, temperature: 1.0 });
    assert_found("InfoNCE, Eq. 5, M = 128", &["1/t"], &found, &[1.0 / u - 1.0], 0.0);
}
