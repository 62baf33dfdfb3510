//! Importance sampling against closed forms.

use candle_core::{DType, Device, Tensor};
use ebm_core::{Anchored, EnergyModel, Error, GaussianMixture, ImportanceDensity, Tempered};

use crate::zoo::{Function, TableProposal, assert_close, candidates, flat, gaussian, rng};

fn draw(
    model: &impl EnergyModel<Features = ()>,
    q: &GaussianMixture,
    center: &[[f64; 2]],
    count: usize,
    seed: u64,
) -> Vec<ImportanceDensity> {
    let center = Tensor::from_vec(center.concat(), (center.len(), 2), &Device::Cpu).unwrap();
    ImportanceDensity::from_model(model, &(), q, &center, count, &mut rng(seed)).unwrap()
}

#[test]
fn with_the_density_itself_as_proposal_every_weight_is_the_same() {
    let q = GaussianMixture::isotropic(&[0.5], 2).unwrap();
    let p = &draw(&gaussian(&[1.0, -1.0], &[0.5, 0.5], 7.0), &q, &[[1.0, -1.0]], 100, 0)[0];
    assert_close(&[p.log_z(), p.effective_sample_size(), p.standard_error()], &[7.0, 100.0, 0.0], 1e-12);
    assert_close(p.weights(), &[0.01; 100], 1e-12);
    assert_close(&[p.log_prob(3.0)], &[-4.0], 1e-12);
}

#[test]
fn a_temperature_multiplies_the_variance() {
    // exp(-y²/2σ²)^(1/T) is a Gaussian of variance T σ².
    let cold = gaussian(&[1.0, -1.0], &[0.5, 0.25], 7.0);
    let q = GaussianMixture::new(vec![vec![1.0, 0.5]]).unwrap();
    let p = &draw(&Tempered::new(&cold, 4.0).unwrap(), &q, &[[1.0, -1.0]], 100, 0)[0];
    assert_close(&[p.effective_sample_size()], &[100.0], 1e-9);
    // Z is the peak exp(f/T) times the volume: 7 is the log of the cold one's integral.
    let peak = 7.0 - (std::f64::consts::TAU * 0.5 * 0.25).ln();
    assert_close(&[p.log_z()], &[peak / 4.0 + (std::f64::consts::TAU * 1.0 * 0.5).ln()], 1e-9);
    assert!(Tempered::new(&cold, 0.0).is_err());
    let y = candidates(1, &[&[1.2, -0.5]]);
    let ((hot_f, hot), (f, gradient)) = (
        Tempered::new(&cold, 4.0).unwrap().score_and_grad(&(), &y).unwrap(),
        cold.score_and_grad(&(), &y).unwrap(),
    );
    for (hot, cold) in [(hot_f, f), (hot, gradient)] {
        let apart = ((hot * 4.0).unwrap() - cold).unwrap().abs().unwrap().max_all().unwrap();
        assert!(apart.to_scalar::<f64>().unwrap() < 1e-12);
    }
}

#[test]
fn a_quadratic_term_multiplies_the_density_by_a_gaussian() {
    // N(y; μ, s²) exp(−(y − c)² / 2a²) is a Gaussian of precision 1/s² + 1/a² with the integral √(2π) a N(μ; c, s² + a²).
    let (model, a2) = (gaussian(&[1.0, -1.0], &[0.5, 0.5], 7.0), 0.75);
    let center = Tensor::new(&[[0.0, 0.0]], &Device::Cpu).unwrap();
    let q = GaussianMixture::isotropic(&[(1.0f64 / (4.0 + 1.0 / a2)).sqrt()], 2).unwrap();
    let anchored = Anchored::new(&model, &center, &[f64::sqrt(a2); 2]).unwrap();
    let p = &draw(&anchored, &q, &[[0.75, -0.75]], 100, 0)[0];
    assert_close(&[p.effective_sample_size()], &[100.0], 1e-9);
    assert_close(&[p.log_z()], &[7.0 + a2.ln() - 1.0], 1e-9);
    for wrong in [&[1.0, 0.0][..], &[1.0]] {
        assert!(Anchored::new(&model, &center, wrong).is_err());
    }
}

#[test]
fn log_z_and_moments_agree_within_their_standard_errors() {
    // Two inputs whose proposals sit differently; D = 2.
    let (mean, sigma) = ([1.0, -1.0], [0.3, 0.6]);
    let model = gaussian(&[1.0, -1.0], &[0.3, 0.6], 2.5);
    let q = GaussianMixture::isotropic(&[0.3, 1.2], 2).unwrap();
    let n = 20_000;
    for p in draw(&model, &q, &[[1.0, -1.0], [1.3, -0.5]], n, 1) {
        let error = p.standard_error();
        assert!((p.log_z() - 2.5).abs() < 4.0 * error && error < 0.02, "{} ± {error}", p.log_z());
        let ess = p.effective_sample_size();
        assert!(ess > 0.1 * n as f64 && ess < n as f64, "{ess}");
        assert_eq!((p.samples().len(), p.weights().len()), (n, n));
        assert_close(&[p.weights().iter().sum::<f64>()], &[1.0], 1e-12);
        for d in 0..2 {
            let sd = (sigma[d] * sigma[d] / ess).sqrt();
            assert!((p.mean()[d] - mean[d]).abs() < 5.0 * sd, "{} in {d}", p.mean()[d]);
            let want = sigma[d] * sigma[d];
            assert!((p.variance()[d] - want).abs() < 5.0 * want * (2.0 / ess).sqrt());
        }
        // P(y₀ > 1) = 1/2.
        assert!((p.expectation(|y| f64::from(y[0] > 1.0)) - 0.5).abs() < 2.5 / ess.sqrt());
    }
}

#[test]
fn the_standard_error_is_the_spread_of_repeated_estimates() {
    let model = gaussian(&[0.0, 0.0], &[1.0, 0.5], 0.0);
    let q = GaussianMixture::isotropic(&[1.0], 2).unwrap();
    let runs: Vec<_> = (0..200).map(|seed| draw(&model, &q, &[[0.5, 0.0]], 400, seed).remove(0)).collect();
    let mean = runs.iter().map(ImportanceDensity::log_z).sum::<f64>() / 200.0;
    let spread = (runs.iter().map(|p| (p.log_z() - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
    let claimed = runs.iter().map(ImportanceDensity::standard_error).sum::<f64>() / 200.0;
    // A standard deviation from 200 runs is known to 5 %.
    assert!((claimed / spread - 1.0).abs() < 0.2, "{claimed}, observed {spread}");
    assert!(mean.abs() < 4.0 * spread / 200f64.sqrt() + spread * spread);
}

#[test]
fn weights_follow_f_and_q_exactly() {
    // log q = (0, log 2, log 4), f = (0, log 6, −∞): w = (1, 3, 0).
    let q = TableProposal(Tensor::new(&[[0.0, 2f64.ln(), 4f64.ln()]], &Device::Cpu).unwrap());
    let f = Tensor::new(&[[0.0, 6f64.ln(), f64::NEG_INFINITY]], &Device::Cpu).unwrap();
    let model = Function::new(move |_: &Tensor| Ok(f.clone()));
    let center = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let p = &ImportanceDensity::from_model(&model, &(), &q, &center, 3, &mut rng(0)).unwrap()[0];
    assert_close(p.weights(), &[0.25, 0.75, 0.0], 1e-14);
    // Mean weight 4/3; Σ (w − 4/3)² = 14/3, of a mean of three: (14/3) / (3·2), over (4/3)².
    let error = (14.0f64 / 3.0 / 6.0).sqrt() / (4.0 / 3.0);
    assert_close(
        &[p.log_z(), p.effective_sample_size(), p.standard_error()],
        &[(4.0f64 / 3.0).ln(), 1.6, error],
        1e-14,
    );
    // A sample without density does not count, even if g is not finite there.
    let mut calls = std::cell::Cell::new(0);
    p.expectation(|_| {
        calls.set(calls.get() + 1);
        1.0
    });
    assert_eq!(*calls.get_mut(), 2);
}

#[test]
fn f32_agrees_with_f64() {
    let model = gaussian(&[1.0, -1.0], &[0.3, 0.6], 0.0);
    let q = GaussianMixture::isotropic(&[0.8], 2).unwrap();
    let center = Tensor::new(&[[0.8, -1.0]], &Device::Cpu).unwrap();
    let run = |dtype: DType| {
        let center = center.to_dtype(dtype).unwrap();
        ImportanceDensity::from_model(&model, &(), &q, &center, 500, &mut rng(1)).unwrap().remove(0)
    };
    let (double, single) = (run(DType::F64), run(DType::F32));
    assert_close(&[single.log_z(), single.mean()[0]], &[double.log_z(), double.mean()[0]], 1e-5);
}

#[test]
fn bad_inputs_have_typed_errors() {
    let q = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let refuse = |f: fn(&Tensor) -> ebm_core::Result<Tensor>, center: &Tensor, count| {
        ImportanceDensity::from_model(&Function::new(f), &(), &q, center, count, &mut rng(0)).unwrap_err()
    };
    let center = Tensor::new(&[[3.0], [-3.0]], &Device::Cpu).unwrap();
    let log = |y: &Tensor| Ok(y.sum(2)?.log()?);
    let error = refuse(log, &center, 3);
    assert!(matches!(&error, Error::NonFiniteScore { x: 0 | 1, y, .. } if y[0] < 0.0), "{error}");
    let error = refuse(|y| Ok((flat_zero(y)? - f64::INFINITY)?), &center, 3);
    assert!(matches!(error, Error::NoMass(0)), "{error}");
    let error = refuse(log, &center, 0);
    assert!(matches!(error, Error::Setting { name: "num_samples", .. }), "{error}");
    let error = refuse(log, &Tensor::zeros((0, 1), DType::F64, &Device::Cpu).unwrap(), 3);
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let error = refuse(log, &Tensor::new(&[[f64::NAN]], &Device::Cpu).unwrap(), 3);
    assert!(matches!(error, Error::NonFinite { what: "the centre", .. }), "{error}");
    // One sample: no standard error.
    let one = ImportanceDensity::from_model(&gaussian(&[0.0], &[1.0], 0.0), &(), &q, &center, 1, &mut rng(0));
    assert_eq!(one.unwrap()[0].standard_error(), f64::INFINITY);
    assert_eq!(flat(&flat_zero(&candidates(1, &[&[1.0]])).unwrap()), [0.0]);
}

fn flat_zero(y: &Tensor) -> ebm_core::Result<Tensor> {
    Ok((y.sum(2)? * 0.0)?)
}
