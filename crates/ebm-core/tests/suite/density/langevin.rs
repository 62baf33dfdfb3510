//! Langevin dynamics: moments, cost, and proposals that are not finite.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{EnergyModel, Error, Result, langevin};

use super::assert_moments;
use crate::zoo::{Counted, Function, assert_close, candidates, flat, gaussian, rng};

fn run(
    model: &impl EnergyModel<Features = ()>,
    y0: &Tensor,
    steps: usize,
    step_size: f64,
    seed: u64,
) -> Tensor {
    langevin(model, &(), y0, steps, step_size, &mut rng(seed)).unwrap()
}

/// f = −∞ everywhere.
fn nowhere(y: &Tensor) -> Result<Tensor> {
    Ok(y.zeros_like()?.log()?)
}

#[test]
fn one_step_follows_the_formula() {
    // Without noise the step would be (λ²/2) ∇f; two inputs with the same seed share the noise.
    let model = gaussian(&[1.0, -1.0], &[0.5, 2.0], 3.0);
    let lambda: f64 = 0.3;
    let (a, b) = (candidates(1, &[&[0.0, 0.0]]), candidates(1, &[&[2.0, 5.0]]));
    let step = |y0: &Tensor| flat(&run(&model, y0, 1, lambda, 5));
    let (from_a, from_b) = (step(&a), step(&b));
    for (d, (mean, sigma)) in [(1.0, 0.5f64), (-1.0, 2.0)].into_iter().enumerate() {
        let drift = |y: f64| y + 0.5 * lambda.powi(2) * (mean - y) / sigma.powi(2);
        let (a, b) = ([0.0, 0.0][d], [2.0, 5.0][d]);
        assert_close(&[from_b[d] - from_a[d]], &[drift(b) - drift(a)], 1e-13);
    }
    // The noise itself has the standard deviation λ.
    let many = Tensor::zeros((2, 10_000, 2), DType::F64, &Device::Cpu).unwrap();
    let y = run(&model, &many, 1, lambda, 6);
    let first = flat(&y.narrow(2, 0, 1).unwrap());
    assert_moments(&first, 0.5 * lambda.powi(2) / 0.25, lambda.powi(2));
}

#[test]
fn chains_reach_the_stationary_moments_of_the_discretised_dynamics() {
    // y ← a y + λ ε with a = 1 − λ²/(2 σ²) has the variance λ² / (1 − a²), larger than σ² = 1.
    let lambda: f64 = 0.5;
    let a = 1.0 - lambda.powi(2) / 2.0;
    let y0 = Tensor::full(3.0, (1, 8000, 1), &Device::Cpu).unwrap();
    let chains = run(&gaussian(&[0.0], &[1.0], 0.0), &y0, 100, lambda, 1);
    assert_moments(&flat(&chains), 0.0, lambda.powi(2) / (1.0 - a * a));
}

#[test]
fn the_cost_is_one_gradient_per_step() {
    let y0 = candidates(1, &[&[0.0], &[1.0]]);
    let model = Counted::new(gaussian(&[0.0], &[1.0], 0.0));
    run(&model, &y0, 16, 0.1, 0);
    assert_eq!((model.gradients.get(), model.values.get()), (16, 0));
}

#[test]
fn the_result_is_detached_has_the_type_of_y0_and_repeats_with_the_seed() {
    let weight = Var::new(1.0, &Device::Cpu).unwrap();
    let model = Function::new(|y: &Tensor| {
        Ok(y.sqr()?.neg()?.broadcast_mul(&weight.to_dtype(y.dtype())?)?.sum(2)?)
    });
    let y0 = Var::from_tensor(&candidates(2, &[&[0.1, 0.2], &[0.3, -1.0]])).unwrap();
    let double = run(&model, &y0, 5, 0.2, 1);
    assert!(!double.track_op());
    assert_eq!(flat(&double), flat(&run(&model, &y0, 5, 0.2, 1)));
    assert_ne!(flat(&double), flat(&run(&model, &y0, 5, 0.2, 2)));
    let single = run(&model, &y0.to_dtype(DType::F32).unwrap(), 5, 0.2, 1);
    assert_eq!((single.dtype(), single.dims()), (DType::F32, &[2, 1, 2][..]));
    assert_close(&flat(&single), &flat(&double), 1e-5);
}

#[test]
fn no_chain_leaves_the_support_for_long() {
    // f = log of y over (0, 1): NaN or −∞ at y ≤ 0, and −∞ above 1.
    let model = Function::new(|y: &Tensor| Ok(y.le(1.0)?.where_cond(&y.log()?, &nowhere(y)?)?.sum(2)?));
    let y0 = Tensor::full(0.5, (1, 2000, 1), &Device::Cpu).unwrap();
    // All steps but the last are judged: the chains are inside or one step away.
    let chains = flat(&run(&model, &y0, 50, 0.05, 4));
    let near = chains.iter().filter(|y| **y > -0.2 && **y < 1.2).count();
    assert!(near >= 1990, "{near}");
}

#[test]
fn a_step_that_overflows_is_not_taken_and_the_model_does_not_see_it() {
    // The gradient is 1e200 y: a step of λ²/2 of it is beyond f64 at the second at the latest.
    let model = Function::new(|y: &Tensor| {
        assert!(flat(y).iter().all(|y| y.is_finite()));
        Ok((y * 1e200)?.mul(y)?.sum(2)?)
    });
    let y0 = candidates(1, &[&[1.0], &[0.0]]);
    let chains = flat(&run(&model, &y0, 4, 1e30, 0));
    assert!(chains.iter().all(|y| y.is_finite()), "{chains:?}");
    // With λ² beyond f64 there is no step at all.
    assert_eq!(flat(&run(&model, &y0, 4, 1e160, 0)), [1.0, 0.0]);
}

#[test]
fn a_chain_beside_one_that_overflows_moves_as_it_does_alone() {
    // The slope is 1e110 above 1, where λ²/2 times it is beyond f64, and 0.3 below.
    let model = Function::new(|y: &Tensor| Ok(y.gt(1.0)?.where_cond(&(y * 1e110)?, &(y * 0.3)?)?.sum(2)?));
    let second = |first: f64| flat(&run(&model, &candidates(1, &[&[first], &[0.5]]), 1, 1e100, 3));
    let (beside, alone) = (second(2.0), second(0.0));
    assert_eq!((beside[0], beside[1]), (2.0, alone[1]));
    assert_close(&[alone[1] / 1e199], &[1.5], 1e-12);
}

#[test]
fn chains_without_density_follow_the_noise_alone() {
    let model = Function::new(|y: &Tensor| Ok(y.ge(1e9)?.where_cond(&y.neg()?, &nowhere(y)?)?.sum(2)?));
    let y0 = Tensor::zeros((1, 4000, 1), DType::F64, &Device::Cpu).unwrap();
    assert_moments(&flat(&run(&model, &y0, 4, 0.5, 2)), 0.0, 1.0);
}

#[test]
fn chains_that_start_without_density_find_it() {
    let model = Function::new(|y: &Tensor| Ok(y.ge(0.0)?.where_cond(&y.neg()?, &nowhere(y)?)?.sum(2)?));
    let y0 = Tensor::full(-0.2, (1, 200, 1), &Device::Cpu).unwrap();
    // A random walk of 300 steps misses 0 with a probability of 0.07.
    let inside = flat(&run(&model, &y0, 300, 0.2, 0)).iter().filter(|y| **y > -0.7).count();
    assert!(inside >= 170, "{inside}");
}

#[test]
fn bad_settings_and_inputs_have_typed_errors() {
    let model = gaussian(&[0.0], &[1.0], 0.0);
    let y0 = candidates(1, &[&[0.0]]);
    let refuse =
        |y0: &Tensor, steps, step_size| langevin(&model, &(), y0, steps, step_size, &mut rng(0)).unwrap_err();
    for step_size in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        let error = refuse(&y0, 1, step_size);
        assert!(matches!(error, Error::Setting { name: "step_size", .. }), "{error}");
    }
    assert!(matches!(refuse(&y0, 0, 0.1), Error::Setting { name: "steps", .. }));
    for shape in [[0, 3, 1], [2, 0, 1]] {
        let empty = Tensor::zeros(&shape, DType::F32, &Device::Cpu).unwrap();
        assert!(matches!(refuse(&empty, 1, 0.1), Error::Empty { what: "y0", .. }));
    }
    let bad = candidates(1, &[&[0.0], &[f64::NAN]]);
    assert!(matches!(refuse(&bad, 1, 0.1), Error::NonFinite { index: 1, .. }));
    assert!(matches!(refuse(&Tensor::new(&[[0.0]], &Device::Cpu).unwrap(), 1, 0.1), Error::Shape { .. }));
    let constant = Function::new(|y: &Tensor| Ok(y.detach().sum(2)?));
    let error = langevin(&constant, &(), &y0, 1, 0.1, &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::NoGradient), "{error}");
}
