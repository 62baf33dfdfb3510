//! An exponential family with two wells.

use ebm_core::{
    Derivatives, Directions, GaussianMixture, InfoNce, LangevinNll, MonteCarloNll, NoiseContrastive,
    Objective, ScoreMatching, Uniform,
};

use super::families::Quartic;
use super::{FEW_SAMPLES_BIAS, Training, assert_recovers, assert_recovers_by, independent};

const MANY_SAMPLES: Training = Training { batch: 16, steps: 480 };
const FEW_SAMPLES: Training = Training { batch: 64, steps: 480 };

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
    let loss = |x: &_, y: &_, rng: &mut dyn rand::RngCore| {
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
    for (way, derivatives) in
        [("exact", Derivatives::Exact), ("differences", Derivatives::Differences { step: 0.01 })]
    {
        let objective = ScoreMatching { derivatives, directions: Directions::Coordinates };
        check(&format!("SM, {way}"), Training { batch: 256, steps: 480 }, &objective, 0.0);
    }
}

#[test]
fn info_nce() {
    let proposal = Uniform::new(vec![-Quartic::RANGE], vec![Quartic::RANGE]).unwrap();
    let objective = InfoNce { proposal, num_samples: 16, temperature: 1.0 };
    check("InfoNCE, uniform q", FEW_SAMPLES, &objective, 0.0);
}
