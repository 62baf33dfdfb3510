//! The objectives with samples on a conditional Gaussian, of one and of two coordinates.

use ebm_core::{
    GaussianMixture, InfoNce, KullbackLeibler, LangevinNll, MonteCarloNll, NoiseContrastive,
    NoiseContrastivePlus, SharedOffsets, Uniform,
};

use super::families::Gaussian;
use super::{FEW_SAMPLES_BIAS, Training, assert_recovers, assert_recovers_by, independent};

const MANY_SAMPLES: Training = Training { batch: 16, steps: 480 };
const FEW_SAMPLES: Training = Training { batch: 64, steps: 480 };

/// Eq. 5 with a component inside and one around the density.
fn wide(dim: usize) -> GaussianMixture {
    GaussianMixture::isotropic(&[0.4, 1.0], dim).unwrap()
}

#[test]
fn ml_is_recovers_the_density() {
    for dim in [1, 2] {
        let objective = MonteCarloNll { proposal: wide(dim), num_samples: 128 };
        let expected = Gaussian::expected(dim, 0.0);
        assert_recovers("ML-IS", MANY_SAMPLES, &Gaussian::new(dim), &objective, &expected, FEW_SAMPLES_BIAS);
    }
}

#[test]
fn ml_is_with_shared_offsets_recovers_the_same() {
    let objective = MonteCarloNll { proposal: SharedOffsets(wide(1)), num_samples: 128 };
    let expected = Gaussian::expected(1, 0.0);
    assert_recovers(
        "ML-IS, shared offsets",
        MANY_SAMPLES,
        &Gaussian::new(1),
        &objective,
        &expected,
        FEW_SAMPLES_BIAS,
    );
}

#[test]
fn kld_is_recovers_the_density_of_noisy_labels() {
    for dim in [1, 2] {
        for normalize_weights in [false, true] {
            let label = GaussianMixture::isotropic(&[0.4], dim).unwrap();
            let objective =
                KullbackLeibler { proposal: wide(dim), num_samples: 128, label, normalize_weights };
            let expected = Gaussian::expected(dim, 0.16);
            assert_recovers(
                "KLD-IS",
                MANY_SAMPLES,
                &Gaussian::new(dim),
                &objective,
                &expected,
                FEW_SAMPLES_BIAS,
            );
        }
    }
}

#[test]
fn nce_recovers_the_density() {
    for dim in [1, 2] {
        // Noise that depends on x alone: for any M.
        let family = Gaussian::new(dim);
        let loss = |x: &_, y: &_, rng: &mut dyn rand::RngCore| {
            let proposal = independent(y, 0.1, 1.2)?;
            ebm_core::Objective::loss(&NoiseContrastive { proposal, num_samples: 4 }, &family, x, y, rng)
        };
        let expected = Gaussian::expected(dim, 0.0);
        assert_recovers_by("NCE, q(y | x), M = 4", FEW_SAMPLES, &family, loss, &expected, 0.0);
        // Eq. 5: for many samples.
        let objective = NoiseContrastive { proposal: wide(dim), num_samples: 256 };
        assert_recovers("NCE", MANY_SAMPLES, &Gaussian::new(dim), &objective, &expected, FEW_SAMPLES_BIAS);
    }
}

#[test]
fn nce_plus_recovers_the_density_of_moved_targets() {
    for dim in [1, 2] {
        let objective = NoiseContrastivePlus { proposal: wide(dim), num_samples: 256, beta: 0.5 };
        // A Gaussian f has the moments of the moved targets: the noise has the mean of the β² σ_l² as its
        // variance.
        let expected = Gaussian::expected(dim, 0.25 * (0.16 + 1.0) / 2.0);
        assert_recovers("NCE+", MANY_SAMPLES, &Gaussian::new(dim), &objective, &expected, FEW_SAMPLES_BIAS);
    }
}

#[test]
fn ml_mcmc_recovers_the_density_that_its_chains_have_for_the_datas() {
    // Chains on N(0, t) that have not left the data's variance v: λ² / (1 − a²) = v with a = 1 − λ²/(2t), for
    // any L.
    let (lambda, v) = (0.3f64, 0.25f64);
    let t = 0.5 * (v + (v * v - v * lambda * lambda).sqrt());
    for steps in [1, 8] {
        let objective = LangevinNll { num_samples: 4, steps, step_size: lambda };
        let mut expected = Gaussian::expected(1, 0.0);
        expected[2] = t;
        assert_recovers("ML-MCMC", FEW_SAMPLES, &Gaussian::new(1), &objective, &expected, 0.0);
    }
    // To first order in λ², t = v − λ²/4; the next term is λ⁴/(16 v).
    let objective = LangevinNll { num_samples: 4, steps: 8, step_size: 0.1 };
    let expected = Gaussian::expected(2, -0.0025);
    assert_recovers("ML-MCMC", FEW_SAMPLES, &Gaussian::new(2), &objective, &expected, 1e-4);
}

#[test]
fn info_nce_recovers_the_density_from_uniform_noise() {
    for dim in [1, 2] {
        let proposal = Uniform::new(vec![-3.0; dim], vec![3.0; dim]).unwrap();
        let objective = InfoNce { proposal, num_samples: 16, temperature: 1.0 };
        let expected = Gaussian::expected(dim, 0.0);
        assert_recovers("InfoNCE, uniform q", FEW_SAMPLES, &Gaussian::new(dim), &objective, &expected, 0.0);
    }
}

#[test]
fn info_nce_recovers_the_ratio_to_the_noise_times_the_temperature() {
    let family = Gaussian::new(1);
    let (center, sigma, temperature) = (0.5, 1.0, 0.5);
    let loss = |x: &_, y: &_, rng: &mut dyn rand::RngCore| {
        let proposal = independent(y, center, sigma)?;
        let objective = InfoNce { proposal, num_samples: 8, temperature };
        ebm_core::Objective::loss(&objective, &family, x, y, rng)
    };
    // log N(y; a x + c, 1/4) − log N(y; 1/2, 1) is Gaussian in shape, with the precision 4 − 1 = 3.
    let [a, c] = [Gaussian::SLOPE[0] * 4.0 / 3.0, (Gaussian::OFFSET[0] * 4.0 - center) / 3.0];
    assert_recovers_by(
        "InfoNCE, Gaussian q(y | x), τ = 1/2",
        FEW_SAMPLES,
        &family,
        loss,
        &[a, c, 1.0 / (3.0 * temperature)],
        0.0,
    );
}
