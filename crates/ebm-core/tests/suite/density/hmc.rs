//! Hamiltonian Monte Carlo.

use candle_core::{DType, Device, Tensor};
use ebm_core::{Chains, EnergyModel, Error, Hmc, hmc};

use super::assert_moments;
use super::langevin::{close_mixture, nowhere};
use crate::zoo::{Counted, Function, assert_close, candidates, flat, gaussian, rng};

fn settings(steps: usize, leapfrog_steps: usize, step_size: f64) -> Hmc {
    Hmc { steps, leapfrog_steps, step_size }
}

fn run(model: &impl EnergyModel<Features = ()>, y0: &Tensor, settings: &Hmc, seed: u64) -> Chains {
    hmc(model, &(), y0, settings, &mut rng(seed)).unwrap()
}

#[test]
fn chains_reach_the_moments_of_a_gaussian() {
    let y0 = Tensor::zeros((2, 4000, 2), DType::F64, &Device::Cpu).unwrap();
    let model = gaussian(&[1.0, -2.0], &[1.0, 1.5], 0.0);
    // Steps so long that the leapfrog rule alone would be off by tens of percent.
    let chains = run(&model, &y0, &settings(25, 2, 1.1), 1);
    assert!(chains.acceptance_rate > 0.5 && chains.acceptance_rate < 0.97, "{}", chains.acceptance_rate);
    for (d, (mean, sigma)) in [(1.0, 1.0f64), (-2.0, 1.5)].into_iter().enumerate() {
        assert_moments(&flat(&chains.y.narrow(2, d, 1).unwrap()), mean, sigma.powi(2));
    }
}

#[test]
fn short_steps_conserve_the_energy_and_are_accepted() {
    // Over the same length of a trajectory the energy error of the leapfrog rule goes as ε².
    let y0 = Tensor::zeros((1, 2000, 1), DType::F64, &Device::Cpu).unwrap();
    let rejected = |leapfrog_steps, step_size| {
        let settings = settings(5, leapfrog_steps, step_size);
        1.0 - run(&gaussian(&[0.0], &[1.0], 0.0), &y0, &settings, 2).acceptance_rate
    };
    let (long, short) = (rejected(2, 1.2), rejected(20, 0.12));
    assert!(long > 0.05 && short < 0.03 * long, "{long} {short}");
}

#[test]
fn chains_visit_both_modes_of_a_close_mixture() {
    let y0 = Tensor::full(0.4, (1, 6000, 1), &Device::Cpu).unwrap();
    let draws = flat(&run(&close_mixture(), &y0, &settings(60, 4, 0.12), 3).y);
    assert_moments(&draws, 0.24, 0.04 + 4.0 * 0.16 * 0.16);
    assert!(draws.iter().any(|y| *y < -0.6));
}

#[test]
fn the_cost_is_one_gradient_per_leapfrog_step() {
    let model = Counted::new(gaussian(&[0.0], &[1.0], 0.0));
    run(&model, &candidates(1, &[&[0.0], &[1.0]]), &settings(3, 5, 0.1), 0);
    assert_eq!((model.gradients.get(), model.values.get()), (16, 0));
}

#[test]
fn no_chain_leaves_the_support_nor_the_numbers() {
    // p = 2 (1 − y) on [0, 1], with f = −∞ outside.
    let model = Function(|y: &Tensor| {
        let inside = (y.ge(0.0)? * y.lt(1.0)?)?;
        let f = y.affine(-1.0, 1.0)?.clamp(1e-300, 2.0)?.log()?;
        Ok(inside.where_cond(&f, &nowhere(y)?)?.sum(2)?)
    });
    let y0 = Tensor::full(0.5, (1, 3000, 1), &Device::Cpu).unwrap();
    let draws = flat(&run(&model, &y0, &settings(100, 2, 0.15), 4).y);
    assert!(draws.iter().all(|y| (0.0..1.0).contains(y)));
    assert_moments(&draws, 1.0 / 3.0, 1.0 / 18.0);

    let steep = Function(|y: &Tensor| {
        assert!(flat(y).iter().all(|y| y.is_finite()));
        Ok((y * 1e200)?.mul(y)?.sum(2)?)
    });
    let chains = run(&steep, &candidates(1, &[&[1.0], &[0.0]]), &settings(2, 4, 1e30), 0);
    assert_eq!(flat(&chains.y), [1.0, 0.0]);
    assert_eq!(chains.acceptance_rate, 0.0);
}

#[test]
fn f32_agrees_with_f64_and_bad_settings_have_typed_errors() {
    let model = gaussian(&[0.2], &[0.7], 0.0);
    let y0 = candidates(2, &[&[0.1], &[0.5], &[-1.0], &[0.0]]);
    let double = run(&model, &y0, &settings(4, 3, 0.2), 1);
    let single = run(&model, &y0.to_dtype(DType::F32).unwrap(), &settings(4, 3, 0.2), 1);
    assert_eq!((single.y.dtype(), single.y.dims()), (DType::F32, &[2, 2, 1][..]));
    assert_close(&flat(&single.y), &flat(&double.y), 1e-5);

    for (bad, name) in [
        (settings(0, 1, 0.1), "steps"),
        (settings(1, 0, 0.1), "leapfrog_steps"),
        (settings(1, 1, 0.0), "step_size"),
        (settings(1, 1, f64::NAN), "step_size"),
    ] {
        let error = hmc(&model, &(), &y0, &bad, &mut rng(0)).unwrap_err();
        assert!(matches!(error, Error::Setting { name: got, .. } if got == name), "{error}");
    }
    let empty = Tensor::zeros((1, 0, 1), DType::F32, &Device::Cpu).unwrap();
    let error = hmc(&model, &(), &empty, &settings(1, 1, 0.1), &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::Empty { what: "y0", .. }), "{error}");
}
