//! Gradients in the outputs against central differences, in f64.

use candle_core::{Tensor, Var};
use ebm_core::parametric::{ConditionalVae, Parametric};

use super::{Linear, all, rows, scalar, waves};
use crate::zoo::{assert_close, central_differences, flat, rng};

/// `f` of the outputs has the gradient of its central differences.
fn check(name: &str, outputs: &Tensor, f: impl Fn(&Tensor) -> Tensor) {
    let outputs = Var::from_tensor(outputs).unwrap();
    let gradients = f(&outputs).backward().unwrap();
    let numeric = central_differences(&outputs, || scalar(&f(&outputs)));
    assert!(numeric.iter().any(|slope| slope.abs() > 1e-3), "{name}: nothing to compare: {numeric:?}");
    assert_close(&flat(gradients.get(&outputs).unwrap()), &numeric, 1e-8);
}

#[test]
fn of_every_loss() {
    for dim in [1, 3] {
        for (name, model, outputs) in all(dim) {
            let y = waves((2, dim), 2.0, 1.3);
            check(name, &outputs, |outputs| model.loss(outputs, &y).unwrap());
        }
    }
}

#[test]
fn of_every_density_and_mean() {
    for dim in [1, 3] {
        for (name, model, outputs) in all(dim) {
            let y = waves((2, 4 * dim), 2.0, 1.1).reshape((2, 4, dim)).unwrap();
            if model.log_prob(&outputs, &y).unwrap().is_some() {
                check(name, &outputs, |outputs| {
                    model.log_prob(outputs, &y).unwrap().unwrap().sqr().unwrap().sum_all().unwrap()
                });
            }
            check(name, &outputs, |outputs| model.mean(outputs).unwrap().sqr().unwrap().sum_all().unwrap());
        }
    }
}

#[test]
fn of_a_smooth_density_in_y() {
    let smooth = ["gaussian", "laplace", "joint_laplace", "mixture", "vae"];
    for (name, model, outputs) in all(2).into_iter().filter(|(name, ..)| smooth.contains(name)) {
        let y = waves((2, 6), 2.0, 1.1);
        check(name, &y, |y| {
            model.log_prob(&outputs, &y.reshape((2, 3, 2)).unwrap()).unwrap().unwrap().sum_all().unwrap()
        });
    }
}

#[test]
fn through_the_latent_samples() {
    let networks = Linear::new([0.3, -0.4], [0.5, -0.8], [1.2, -0.1, -0.6]);
    let vae = ConditionalVae::new(1, 1, 8).unwrap();
    let y = rows(&[&[0.7], &[-0.3]]);
    // The same seed everywhere: the same noise.
    let loss = || {
        let outputs = vae.training_outputs(&networks, &2, &y, &mut rng(3)).unwrap();
        vae.loss(&outputs, &y).unwrap()
    };
    let gradients = loss().backward().unwrap();
    for parameter in [&networks.prior, &networks.posterior, &networks.decoder] {
        let numeric = central_differences(parameter, || scalar(&loss()));
        assert!(numeric.iter().any(|slope| slope.abs() > 1e-2), "{numeric:?}");
        assert_close(&flat(gradients.get(parameter).unwrap()), &numeric, 1e-8);
    }
}

#[test]
fn at_kinks_is_zero() {
    for (name, model, outputs) in all(2) {
        if !["l1", "huber", "laplace", "joint_laplace"].contains(&name) {
            continue;
        }
        let outputs = Var::from_tensor(&outputs).unwrap();
        let y = model.predict(&outputs).unwrap().detach();
        let gradients = model.loss(&outputs, &y).unwrap().backward().unwrap();
        let slopes = gradients.get(&outputs).unwrap().narrow(1, 0, 2).unwrap();
        assert_eq!(flat(&slopes), [0.0; 4], "{name}");
    }
}

#[test]
fn never_reach_the_targets() {
    for (name, model, outputs) in all(1) {
        let outputs = Var::from_tensor(&outputs).unwrap();
        let y = Var::from_tensor(&rows(&[&[0.2], &[-0.9]])).unwrap();
        let gradients = model.loss(&outputs, &y).unwrap().backward().unwrap();
        assert!(gradients.get(&outputs).is_some() && gradients.get(&y).is_none(), "{name}");
    }
}
