//! Gradients against central differences, in f64.

use candle_core::{Device, Tensor, Var};
use ebm_core::{EnergyModel, Error, GaussianMixture, MonteCarloNll, Objective, QualityRegression, Result};

use crate::zoo::{Function, assert_close, candidates, central_differences, flat, gaussian, rng};

/// f(x, y) = v · tanh(W [x; y] + b): x (B, 1, 2), y (B, M, 2), three hidden units.
struct Network {
    w: Var,
    b: Var,
    v: Var,
}

impl Network {
    fn new() -> Self {
        let var = |n: usize, shape: (usize, usize), phase: f64| {
            let values: Vec<f64> = (0..n).map(|i| (0.7 * i as f64 + phase).sin()).collect();
            Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
        };
        Self { w: var(12, (4, 3), 0.3), b: var(3, (1, 3), 1.0), v: var(3, (3, 1), 2.0) }
    }

    fn x() -> Tensor {
        candidates(2, &[&[0.4, -0.6], &[1.2, 0.1]])
    }
}

impl EnergyModel for Network {
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = y.dims3()?;
        let x = x.broadcast_as((batch, count, 2))?;
        let input = Tensor::cat(&[&x, y], 2)?.reshape((batch * count, 4))?;
        let hidden = input.matmul(&self.w)?.broadcast_add(&self.b)?.tanh()?;
        Ok(hidden.matmul(&self.v)?.reshape((batch, count))?)
    }
}

fn check_objective(objective: &impl Objective) {
    let network = Network::new();
    let x = Network::x();
    let y = Tensor::new(&[[0.3, -0.2], [-1.0, 0.8]], &Device::Cpu).unwrap();
    // The same seed everywhere: the same samples.
    let loss = || objective.loss(&network, &x, &y, &mut rng(11)).unwrap();
    let gradients = loss().backward().unwrap();
    for parameter in [&network.w, &network.b, &network.v] {
        let numeric = central_differences(parameter, || loss().to_scalar().unwrap());
        assert!(numeric.iter().any(|slope| slope.abs() > 1e-3), "nothing to compare: {numeric:?}");
        assert_close(&flat(gradients.get(parameter).unwrap()), &numeric, 1e-8);
    }
}

#[test]
fn eq4_in_the_parameters() {
    let proposal = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    check_objective(&MonteCarloNll { proposal, num_samples: 24 });
}

#[test]
fn quality_regression_in_the_parameters() {
    let proposal = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    let quality = |candidates: &Tensor, y: &Tensor| -> Result<Tensor> {
        Ok(candidates.broadcast_sub(&y.unsqueeze(1)?)?.sqr()?.sum(2)?.neg()?.exp()?)
    };
    check_objective(&QualityRegression { proposal, num_samples: 24, quality });
}

#[test]
fn score_and_grad_in_y() {
    let network = Network::new();
    let x = Network::x();
    let y =
        Var::from_tensor(&candidates(2, &[&[0.3, -0.2], &[0.0, 0.9], &[-1.0, 0.8], &[2.0, 0.0]])).unwrap();
    let (f, gradient) = network.score_and_grad(&x, &y).unwrap();
    assert_eq!(flat(&f), flat(&network.score(&x, &y).unwrap()));
    let total = || network.score(&x, &y).unwrap().sum_all().unwrap().to_scalar().unwrap();
    assert_close(&flat(&gradient), &central_differences(&y, total), 1e-9);
    assert!(!f.track_op() && !gradient.track_op());
}

#[test]
fn score_and_grad_of_a_gaussian_is_its_closed_form() {
    let y = candidates(1, &[&[1.0, 2.0], &[-0.5, 0.0]]);
    let (_, gradient) = gaussian(&[0.5, 1.0], &[0.5, 2.0], 1.0).score_and_grad(&(), &y).unwrap();
    assert_close(&flat(&gradient), &[-2.0, -0.25, 4.0, 0.25], 1e-14);
}

#[test]
fn a_broken_model_has_a_typed_error() {
    let y = candidates(1, &[&[1.0, 2.0]]);
    let constant = Function(|y: &Tensor| Ok(y.detach().sum(2)?));
    assert!(matches!(constant.score_and_grad(&(), &y), Err(Error::NoGradient)));
    let unsummed = Function(|y: &Tensor| Ok(y.clone()));
    assert!(matches!(unsummed.score_and_grad(&(), &y), Err(Error::Shape { .. })));
}
