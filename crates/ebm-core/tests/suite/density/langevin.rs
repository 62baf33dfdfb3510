//! Langevin dynamics: moments, cost, and what happens to proposals that are not finite.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{Chains, EnergyModel, Error, Langevin, Result, langevin};

use super::assert_moments;
use crate::zoo::{Counted, Function, assert_close, candidates, flat, gaussian, rng};

fn settings(steps: usize, step_size: f64, adjusted: bool) -> Langevin {
    Langevin { steps, step_size, adjusted }
}

fn run(model: &impl EnergyModel<Features = ()>, y0: &Tensor, langevin: &Langevin, seed: u64) -> Chains {
    ebm_core::langevin(model, &(), y0, langevin, &mut rng(seed)).unwrap()
}

/// log of the mixture 0.8 N(0.4, 0.2²) + 0.2 N(−0.4, 0.2²), whose modes are two standard deviations away from
/// the middle.
pub(super) fn close_mixture() -> Function<impl Fn(&Tensor) -> Result<Tensor>> {
    Function(|y: &Tensor| {
        let part = |mean: f64, weight: f64| -> Result<Tensor> {
            Ok((((y - mean)? / 0.2)?.sqr()? * -0.5)?
                .exp()?
                .affine(weight / (0.2 * std::f64::consts::TAU.sqrt()), 0.0)?)
        };
        Ok((part(0.4, 0.8)? + part(-0.4, 0.2)?)?.log()?.sum(2)?)
    })
}

/// f = −∞ everywhere.
pub(super) fn nowhere(y: &Tensor) -> Result<Tensor> {
    Ok(y.zeros_like()?.log()?)
}

#[test]
fn one_unadjusted_step_follows_the_formula() {
    // Without noise the step would be (λ²/2) ∇f; two inputs with the same seed share the noise.
    let model = gaussian(&[1.0, -1.0], &[0.5, 2.0], 3.0);
    let lambda: f64 = 0.3;
    let (a, b) = (candidates(1, &[&[0.0, 0.0]]), candidates(1, &[&[2.0, 5.0]]));
    let step = |y0: &Tensor| flat(&run(&model, y0, &settings(1, lambda, false), 5).y);
    let (from_a, from_b) = (step(&a), step(&b));
    for (d, (mean, sigma)) in [(1.0, 0.5f64), (-1.0, 2.0)].into_iter().enumerate() {
        let drift = |y: f64| y + 0.5 * lambda.powi(2) * (mean - y) / sigma.powi(2);
        let (a, b) = ([0.0, 0.0][d], [2.0, 5.0][d]);
        assert_close(&[from_b[d] - from_a[d]], &[drift(b) - drift(a)], 1e-13);
    }
    // The noise itself has the standard deviation λ.
    let many = Tensor::zeros((2, 10_000, 2), DType::F64, &Device::Cpu).unwrap();
    let y = run(&model, &many, &settings(1, lambda, false), 6).y;
    let first = flat(&y.narrow(2, 0, 1).unwrap());
    assert_moments(&first, 0.5 * lambda.powi(2) / 0.25, lambda.powi(2));
}

#[test]
fn unadjusted_chains_reach_the_stationary_moments_of_the_discretised_dynamics() {
    // y ← a y + λ ε with a = 1 − λ²/(2 σ²) has the variance λ² / (1 − a²), larger than σ² = 1.
    let lambda: f64 = 0.5;
    let a = 1.0 - lambda.powi(2) / 2.0;
    let y0 = Tensor::full(3.0, (1, 8000, 1), &Device::Cpu).unwrap();
    let chains = run(&gaussian(&[0.0], &[1.0], 0.0), &y0, &settings(100, lambda, false), 1);
    assert_eq!(chains.acceptance_rate, 1.0);
    assert_moments(&flat(&chains.y), 0.0, lambda.powi(2) / (1.0 - a * a));
}

#[test]
fn adjusted_chains_reach_the_moments_of_the_gaussian_itself() {
    // λ is large enough for the unadjusted chains to be wrong by 19 %.
    let y0 = Tensor::zeros((2, 4000, 2), DType::F64, &Device::Cpu).unwrap();
    let model = gaussian(&[1.0, -2.0], &[1.0, 1.5], 0.0);
    let chains = run(&model, &y0, &settings(80, 1.1, true), 2);
    assert!(chains.acceptance_rate > 0.5 && chains.acceptance_rate < 0.99, "{}", chains.acceptance_rate);
    for (d, (mean, sigma)) in [(1.0, 1.0f64), (-2.0, 1.5)].into_iter().enumerate() {
        assert_moments(&flat(&chains.y.narrow(2, d, 1).unwrap()), mean, sigma.powi(2));
    }
}

#[test]
fn chains_visit_both_modes_of_a_close_mixture() {
    let y0 = Tensor::full(0.4, (1, 6000, 1), &Device::Cpu).unwrap();
    let chains = run(&close_mixture(), &y0, &settings(300, 0.2, true), 3);
    let draws = flat(&chains.y);
    // Mean 0.8·0.4 − 0.2·0.4, variance 0.04 + 0.16·0.64.
    assert_moments(&draws, 0.24, 0.04 + 4.0 * 0.16 * 0.16);
    assert!(draws.iter().any(|y| *y < -0.6));
}

#[test]
fn the_cost_is_one_gradient_per_step() {
    let y0 = candidates(1, &[&[0.0], &[1.0]]);
    for (adjusted, evaluations) in [(false, 16), (true, 17)] {
        let model = Counted::new(gaussian(&[0.0], &[1.0], 0.0));
        run(&model, &y0, &settings(16, 0.1, adjusted), 0);
        assert_eq!((model.gradients.get(), model.values.get()), (evaluations, 0));
    }
}

#[test]
fn the_result_is_detached_has_the_type_of_y0_and_repeats_with_the_seed() {
    let weight = Var::new(1.0, &Device::Cpu).unwrap();
    let model =
        Function(|y: &Tensor| Ok(y.sqr()?.neg()?.broadcast_mul(&weight.to_dtype(y.dtype())?)?.sum(2)?));
    let y0 = Var::from_tensor(&candidates(2, &[&[0.1, 0.2], &[0.3, -1.0]])).unwrap();
    for adjusted in [false, true] {
        let settings = settings(5, 0.2, adjusted);
        let double = run(&model, &y0, &settings, 1);
        assert!(!double.y.track_op());
        assert_eq!(flat(&double.y), flat(&run(&model, &y0, &settings, 1).y));
        assert_ne!(flat(&double.y), flat(&run(&model, &y0, &settings, 2).y));
        let single = run(&model, &y0.to_dtype(DType::F32).unwrap(), &settings, 1);
        assert_eq!((single.y.dtype(), single.y.dims()), (DType::F32, &[2, 1, 2][..]));
        assert_close(&flat(&single.y), &flat(&double.y), 1e-5);
    }
}

#[test]
fn no_chain_leaves_the_support() {
    // f = log of y over (0, 1): NaN or −∞ at y ≤ 0, and −∞ above 1.
    let model = Function(|y: &Tensor| Ok(y.le(1.0)?.where_cond(&y.log()?, &nowhere(y)?)?.sum(2)?));
    let y0 = Tensor::full(0.5, (1, 2000, 1), &Device::Cpu).unwrap();
    let chains = run(&model, &y0, &settings(200, 0.3, true), 4);
    let draws = flat(&chains.y);
    assert!(draws.iter().all(|y| *y > 0.0 && *y <= 1.0) && chains.acceptance_rate < 0.95);
    // p = 2 y: mean 2/3, variance 1/18.
    assert_moments(&draws, 2.0 / 3.0, 1.0 / 18.0);
    // Unadjusted, all steps but the last are judged: the chains are inside or one step away.
    let plain = run(&model, &y0, &settings(50, 0.05, false), 4);
    let near = flat(&plain.y).iter().filter(|y| **y > -0.2 && **y < 1.2).count();
    assert!(near >= 1990 && plain.acceptance_rate < 1.0, "{near}, {}", plain.acceptance_rate);
}

#[test]
fn a_step_that_overflows_is_not_taken_and_the_model_does_not_see_it() {
    // The gradient is 1e200 y: a step of λ²/2 of it is beyond f64 at the second at the latest.
    let model = Function(|y: &Tensor| {
        assert!(flat(y).iter().all(|y| y.is_finite()));
        Ok((y * 1e200)?.mul(y)?.sum(2)?)
    });
    let y0 = candidates(1, &[&[1.0], &[0.0]]);
    for adjusted in [false, true] {
        let chains = run(&model, &y0, &settings(4, 1e30, adjusted), 0);
        assert!(flat(&chains.y).iter().all(|y| y.is_finite()), "{:?}", flat(&chains.y));
        assert!(chains.acceptance_rate < 1.0);
        // With λ² beyond f64 there is no step at all.
        let chains = run(&model, &y0, &settings(4, 1e160, adjusted), 0);
        assert_eq!((flat(&chains.y), chains.acceptance_rate), (vec![1.0, 0.0], 0.0));
    }
}

#[test]
fn chains_that_start_without_density_find_it() {
    let model = Function(|y: &Tensor| Ok(y.ge(0.0)?.where_cond(&y.neg()?, &nowhere(y)?)?.sum(2)?));
    let y0 = Tensor::full(-0.2, (1, 200, 1), &Device::Cpu).unwrap();
    // A random walk of 300 steps misses 0 with a probability of 0.07; the adjusted chains wait until a step
    // hits.
    for (adjusted, expected) in [(false, 170), (true, 200)] {
        let chains = run(&model, &y0, &settings(300, 0.2, adjusted), 0);
        let inside = flat(&chains.y).iter().filter(|y| **y > -0.7).count();
        assert!(inside >= expected, "adjusted: {adjusted}, {inside}");
    }
}

#[test]
fn bad_settings_and_inputs_have_typed_errors() {
    let model = gaussian(&[0.0], &[1.0], 0.0);
    let y0 = candidates(1, &[&[0.0]]);
    let refuse =
        |y0: &Tensor, settings: &Langevin| langevin(&model, &(), y0, settings, &mut rng(0)).unwrap_err();
    for step_size in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        let error = refuse(&y0, &settings(1, step_size, false));
        assert!(matches!(error, Error::Setting { name: "step_size", .. }), "{error}");
    }
    assert!(matches!(refuse(&y0, &settings(0, 0.1, true)), Error::Setting { name: "steps", .. }));
    let ok = settings(1, 0.1, false);
    for shape in [[0, 3, 1], [2, 0, 1]] {
        let empty = Tensor::zeros(&shape, DType::F32, &Device::Cpu).unwrap();
        assert!(matches!(refuse(&empty, &ok), Error::Empty { what: "y0", .. }));
    }
    assert!(matches!(refuse(&candidates(1, &[&[0.0], &[f64::NAN]]), &ok), Error::NonFinite { index: 1, .. }));
    assert!(matches!(refuse(&Tensor::new(&[[0.0]], &Device::Cpu).unwrap(), &ok), Error::Shape { .. }));
    let constant = Function(|y: &Tensor| Ok(y.detach().sum(2)?));
    let error = langevin(&constant, &(), &y0, &ok, &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::NoGradient), "{error}");
}
