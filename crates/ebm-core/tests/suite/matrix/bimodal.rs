//! Conditional mixture of two Gaussians. An objective that sees a single mode cannot find its weights.

use ebm_core::{
    DenoisingScoreMatching, Directions, GaussianMixture, InfoNce, KullbackLeibler, MonteCarloNll,
    NoiseContrastive, NoiseContrastivePlus, Objective, ScoreMatching, Uniform,
};

use super::families::Bimodal;
use super::{
    FEW_SAMPLES, FEW_SAMPLES_BIAS, MANY_SAMPLES, SCORES, Training, WAYS, assert_recovers, assert_recovers_by,
    independent,
};

fn wide() -> GaussianMixture {
    GaussianMixture::isotropic(&[0.4, 2.0], 1).unwrap()
}

#[track_caller]
fn check(what: &str, training: Training, objective: &impl Objective, noise: f64) {
    let bias = if training.batch == MANY_SAMPLES.batch { FEW_SAMPLES_BIAS } else { 0.0 };
    assert_recovers(what, training, &Bimodal::new(), objective, &Bimodal::expected(noise), bias);
}

#[test]
fn ml_is() {
    check("ML-IS", MANY_SAMPLES, &MonteCarloNll { proposal: wide(), num_samples: 128 }, 0.0);
}

#[test]
fn kld_is() {
    let label = GaussianMixture::isotropic(&[0.3], 1).unwrap();
    let objective = KullbackLeibler { proposal: wide(), num_samples: 128, label, normalize_weights: false };
    check("KLD-IS", MANY_SAMPLES, &objective, 0.09);
}

#[test]
fn nce() {
    let family = Bimodal::new();
    let loss = |x: &_, y: &_, rng: &mut dyn rand::RngCore| {
        NoiseContrastive { proposal: independent(y, 0.0, 1.5)?, num_samples: 4 }.loss(&family, x, y, rng)
    };
    assert_recovers_by("NCE, q(y | x), M = 4", FEW_SAMPLES, &family, loss, &Bimodal::expected(0.0), 0.0);
    check("NCE", MANY_SAMPLES, &NoiseContrastive { proposal: wide(), num_samples: 256 }, 0.0);
}

#[test]
fn nce_plus() {
    // One σ, so that the noise is Gaussian and the family still holds the result.
    let proposal = GaussianMixture::isotropic(&[1.5], 1).unwrap();
    let objective = NoiseContrastivePlus { proposal, num_samples: 256, beta: 0.2 };
    check("NCE+", MANY_SAMPLES, &objective, 0.09);
}

#[test]
fn score_matching() {
    for (way, derivatives) in WAYS {
        let objective = ScoreMatching { derivatives, directions: Directions::Coordinates };
        check(&format!("SM, {way}"), SCORES, &objective, 0.0);
    }
}

#[test]
fn denoising_score_matching() {
    for (way, derivatives) in WAYS {
        let directions = Directions::Coordinates;
        let objective = DenoisingScoreMatching { sigma: 0.3, num_samples: 4, derivatives, directions };
        check(&format!("DSM, {way}"), FEW_SAMPLES, &objective, 0.09);
    }
}

#[test]
fn info_nce() {
    let proposal = Uniform::new(vec![-4.0], vec![4.0]).unwrap();
    let objective = InfoNce { proposal, num_samples: 16, temperature: 1.0 };
    check("InfoNCE, uniform q", FEW_SAMPLES, &objective, 0.0);
}
