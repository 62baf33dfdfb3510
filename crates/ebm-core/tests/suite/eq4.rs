//! Eq. 4 against closed forms: the loss must estimate the negative log-likelihood.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, GaussianMixture, MonteCarloNll, Objective, Proposal, Result};

use crate::zoo::{Function, gaussian, rng};

fn loss<M: EnergyModel<Features = ()>>(
    model: &M,
    proposal: impl Proposal,
    num_samples: usize,
    y: &Tensor,
    seed: u64,
) -> f64 {
    let objective = MonteCarloNll { proposal, num_samples };
    let loss = objective.loss(model, &(), y, &mut rng(seed)).unwrap();
    assert_eq!(loss.dims(), [0usize; 0]);
    loss.to_dtype(DType::F64).unwrap().to_scalar().unwrap()
}

/// The mean over repetitions lies within three standard errors of `expected`, which are small.
#[track_caller]
fn assert_estimates<M: EnergyModel<Features = ()>>(
    model: &M,
    q: &GaussianMixture,
    y: &Tensor,
    expected: f64,
) {
    let repetitions = 40;
    let losses: Vec<f64> = (0..repetitions).map(|seed| loss(model, q, 4096, y, seed)).collect();
    let n = repetitions as f64;
    let mean = losses.iter().sum::<f64>() / n;
    let variance = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt();
    assert!(error < 0.02, "the estimate is too noisy to say anything: {error}");
    assert!((mean - expected).abs() < 3.0 * error, "{mean} ± {error}, expected {expected}, for {q:?}");
}

#[test]
fn a_gaussian_energy_gives_the_gaussian_nll_for_any_proposal() {
    // The constant is lost in the normalisation.
    let model = gaussian(&[0.3], &[0.5], 7.0);
    let targets = [0.1, 1.0];
    let y = Tensor::new(&targets, &Device::Cpu).unwrap().unsqueeze(1).unwrap();
    let nll = |y: f64| 0.5 * ((y - 0.3) / 0.5f64).powi(2) + (0.5 * std::f64::consts::TAU.sqrt()).ln();
    let expected = targets.map(nll).iter().sum::<f64>() / 2.0;
    for sigmas in [&[0.1, 0.8][..], &[0.6], &[1.0, 5.0], &[0.0375, 0.5, 2.0]] {
        assert_estimates(&model, &GaussianMixture::isotropic(sigmas, 1).unwrap(), &y, expected);
    }
}

#[test]
fn an_anisotropic_gaussian_in_four_dimensions() {
    let model = gaussian(&[0.5, 0.5, 3.0, 4.0], &[0.05, 0.1, 0.2, 0.1], -3.0);
    let y = Tensor::new(&[[0.52, 0.45, 3.1, 4.0]], &Device::Cpu).unwrap();
    let expected: f64 = [(0.02, 0.05), (0.05, 0.1), (0.1, 0.2), (0.0, 0.1)]
        .map(|(d, s): (f64, f64)| 0.5 * (d / s).powi(2) + (s * std::f64::consts::TAU.sqrt()).ln())
        .iter()
        .sum();
    let q = GaussianMixture::new(vec![vec![0.06, 0.12, 0.25, 0.12], vec![0.1, 0.2, 0.4, 0.2]]).unwrap();
    assert_estimates(&model, &q, &y, expected);
}

#[test]
fn bimodal_and_skewed_energies() {
    let bimodal = Function::new(|y: &Tensor| {
        let mode =
            |at: f64| -> Result<Tensor> { Ok(((y - at)? / 0.2)?.sqr()?.sum(2)?.affine(-0.5, 0.0)?.exp()?) };
        Ok((mode(-1.0)? + mode(1.0)?)?.log()?)
    });
    let y = Tensor::new(&[[1.0]], &Device::Cpu).unwrap();
    let at_a_mode = (2.0 * 0.2 * std::f64::consts::TAU.sqrt()).ln();
    assert_estimates(&bimodal, &GaussianMixture::isotropic(&[0.1, 2.0], 1).unwrap(), &y, at_a_mode);

    // Gumbel: f = -(y + e^-y), whose integral is 1.
    let gumbel = Function::new(|y: &Tensor| Ok((y + y.neg()?.exp()?)?.neg()?.sum(2)?));
    let y = Tensor::new(&[[0.5]], &Device::Cpu).unwrap();
    let q = GaussianMixture::isotropic(&[1.0, 4.0], 1).unwrap();
    assert_estimates(&gumbel, &q, &y, 0.5 + (-0.5f64).exp());
}

#[test]
fn exact_for_every_sample_if_the_model_is_the_proposal() {
    // Then all weights are e^c, so that a single sample gives -log p(y_i) = -log q(y_i | y_i).
    let q = GaussianMixture::new(vec![vec![0.05, 0.2], vec![0.5, 3.0]]).unwrap();
    let y = Tensor::new(&[[0.4, -2.0]], &Device::Cpu).unwrap();
    let model = Function::new(|candidates: &Tensor| Ok((q.log_prob(candidates, &y)? + 12.5)?));
    let at_center: f64 = (0.5 * (1.0 / (0.05 * 0.2) + 1.0 / (0.5 * 3.0)) / std::f64::consts::TAU).ln();
    for (seed, num_samples) in [(0, 1), (1, 1), (2, 7), (3, 100)] {
        let loss = loss(&model, &q, num_samples, &y, seed);
        assert!((loss + at_center).abs() < 1e-12, "{loss}, expected {}", -at_center);
    }
}

#[test]
fn the_level_of_f_does_not_matter() {
    let q = GaussianMixture::isotropic(&[0.1, 0.8], 1).unwrap();
    for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-3)] {
        let y = Tensor::new(&[[0.1], [0.9], [-0.4]], &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let at = |level: f64| loss(&gaussian(&[0.3], &[0.5], level), &q, 256, &y, 5);
        for level in [-1e4, -1.0, 3.0, 1e4] {
            assert!((at(level) - at(0.0)).abs() < tolerance, "{dtype:?} {level}: {} {}", at(level), at(0.0));
        }
    }
}

#[test]
fn f32_agrees_with_f64() {
    let q = GaussianMixture::isotropic(&[0.0375, 0.075, 0.15], 4).unwrap();
    let y = Tensor::new(&[[0.5, 0.75, 3.7, 4.4], [2.5, 1.0, 2.0, 5.0]], &Device::Cpu).unwrap();
    for scale in [1.0, 100.0, 1e4] {
        let model = Function::new(move |y: &Tensor| Ok((y.sin()?.mean(2)? * scale)?));
        let double = loss(&model, &q, 128, &y, 1);
        let single = loss(&model, &q, 128, &y.to_dtype(DType::F32).unwrap(), 1);
        // f itself is rounded: half an ulp of f32 at f, about 6e-8 |f|, and a few for its sine and mean.
        let tolerance = 1e-4 + 4e-7 * scale;
        assert!((double - single).abs() < tolerance, "{scale}: {double} {single}");
    }
}

#[test]
fn the_same_seed_gives_the_same_loss() {
    let q = GaussianMixture::isotropic(&[0.1, 0.8], 1).unwrap();
    let y = Tensor::new(&[[0.1], [0.9]], &Device::Cpu).unwrap();
    let model = gaussian(&[0.3], &[0.5], 0.0);
    assert_eq!(loss(&model, &q, 16, &y, 3), loss(&model, &q, 16, &y, 3));
    assert_ne!(loss(&model, &q, 16, &y, 3), loss(&model, &q, 16, &y, 4));
}
