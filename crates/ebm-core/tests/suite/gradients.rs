//! Gradients against central differences, in f64.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::parametric::GaussianMixtureDensity;
use ebm_core::{
    DenoisingScoreMatching, Derivatives, Directions, EnergyModel, Error, GaussianMixture, InfoNce, JointNce,
    KullbackLeibler, LangevinNll, MonteCarloNll, NoiseContrastive, NoiseContrastivePlus, Objective,
    QualityRegression, ScoreMatching, SelfNormalized,
};

use crate::network::Network;
use crate::zoo::{Function, Recorded, assert_close, candidates, central_differences, flat, gaussian, rng};

fn check_objective(objective: &impl Objective) {
    let network = Network::new();
    let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
    // The same seed everywhere: the same samples.
    check(&network.parameters(), || objective.loss(&network, &x, &y, &mut rng(11)).unwrap());
}

/// The gradient of the loss in the parameters.
#[track_caller]
fn check(parameters: &[&Var], loss: impl Fn() -> Tensor) {
    let gradients = loss().backward().unwrap();
    for parameter in parameters {
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
    check_objective(&QualityRegression { proposal, num_samples: 24, with_target: true });
}

#[test]
fn the_ranking_losses_in_the_parameters() {
    let proposal = &GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    check_objective(&NoiseContrastive { proposal, num_samples: 24 });
    check_objective(&NoiseContrastivePlus { proposal: proposal.clone(), num_samples: 24, beta: 0.3 });
    check_objective(&InfoNce { proposal, num_samples: 24, temperature: 0.6 });
}

#[test]
fn kld_is_in_the_parameters() {
    let proposal = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    for normalize_weights in [false, true] {
        let label = GaussianMixture::isotropic(&[0.3], 2).unwrap();
        let proposal = &proposal;
        check_objective(&KullbackLeibler { proposal, num_samples: 24, label, normalize_weights });
    }
}

#[test]
fn snl_in_the_parameters_of_f_and_of_log_z() {
    let proposal = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    let objective = SelfNormalized { proposal, num_samples: 24 };
    let network = Network::new();
    let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
    let [w, b, v] = network.parameters();
    check(&[w, b, v, &network.u], || objective.loss(&network, &x, &y, &mut rng(11)).unwrap());
}

#[test]
fn score_matching_in_the_parameters() {
    for derivatives in [Derivatives::Exact, Derivatives::Differences { step: 0.3 }] {
        for directions in [Directions::Coordinates, Directions::Random { count: 3 }] {
            check_objective(&ScoreMatching { derivatives, directions });
            check_objective(&DenoisingScoreMatching { sigma: 0.4, num_samples: 6, derivatives, directions });
        }
    }
}

#[test]
fn ml_mcmc_in_the_parameters_leaves_the_chains_constant() {
    let network = Network::new();
    let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
    let objective = LangevinNll { num_samples: 5, steps: 4, step_size: 0.3 };
    let model = Recorded::new(&network);
    let loss = objective.loss(&model, &x, &y, &mut rng(11)).unwrap();
    // The last pass has the targets and the ends of the chains.
    let ends = model.seen.borrow().last().unwrap().clone();
    assert_eq!(ends.dims(), [2, 6, 2]);
    let again = || {
        let f = network.score(&x, &ends).unwrap();
        let chains = f.narrow(1, 1, 5).unwrap().mean_all().unwrap();
        (chains - f.narrow(1, 0, 1).unwrap().mean_all().unwrap()).unwrap()
    };
    assert_close(&flat(&loss), &flat(&again()), 1e-15);
    let gradients = loss.backward().unwrap();
    for parameter in network.parameters() {
        let numeric = central_differences(parameter, || again().to_scalar().unwrap());
        assert_close(&flat(gradients.get(parameter).unwrap()), &numeric, 1e-8);
    }
}

#[test]
fn joint_nce_trains_each_part_by_its_own_term() {
    let network = Network::new();
    let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
    let var = |values: &[f64], shape: (usize, usize, usize)| {
        Var::from_tensor(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap()).unwrap()
    };
    let logits = Var::new(&[[0.3, -0.2], [0.0, 0.4]], &Device::Cpu).unwrap();
    let means = var(&[0.1, 0.5, -0.7, 0.2, 0.9, -0.3, 0.0, 1.1], (2, 2, 2));
    let log_variances = var(&[-0.3, 0.2, 0.1, -0.5, 0.4, 0.0, -0.2, 0.3], (2, 2, 2));
    let density = || {
        let (means, log_variances) = (means.as_tensor().clone(), log_variances.as_tensor().clone());
        GaussianMixtureDensity::new(&logits, means, log_variances).unwrap()
    };
    let model = Recorded::new(&network);
    let objective = JointNce { proposal: &density(), num_samples: 7 };
    let loss = objective.loss(&model, &x, &y, &mut rng(11)).unwrap();
    let gradients = loss.backward().unwrap();
    assert_eq!(model.seen.borrow().len(), 1);
    let samples = model.seen.borrow()[0].narrow(1, 1, 7).unwrap();

    // f: NCE with q as it is, which draws the same samples.
    let constant = density().detach();
    let nce = || {
        let objective = NoiseContrastive { proposal: &constant, num_samples: 7 };
        objective.loss(&network, &x, &y, &mut rng(11)).unwrap()
    };
    for parameter in network.parameters() {
        let numeric = central_differences(parameter, || nce().to_scalar().unwrap());
        assert_close(&flat(gradients.get(parameter).unwrap()), &numeric, 1e-8);
    }
    // q: log of the mean of e^f / q, with samples and f constant.
    let f = network.score(&x, &samples).unwrap().detach();
    let divergence = || {
        let ratio = (&f - density().log_prob(&samples).unwrap()).unwrap();
        ebm_core::math::log_mean_exp(&ratio, 1).unwrap().mean_all().unwrap()
    };
    for parameter in [&logits, &means, &log_variances] {
        let numeric = central_differences(parameter, || divergence().to_scalar().unwrap());
        assert_close(&flat(gradients.get(parameter).unwrap()), &numeric, 1e-8);
    }
    assert_close(&flat(&loss), &[flat(&nce())[0] + flat(&divergence())[0]], 1e-14);
}

#[test]
fn score_and_grad_in_y() {
    let network = Network::new();
    let x = Network::x(DType::F64);
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
    let constant = Function::new(|y: &Tensor| Ok(y.detach().sum(2)?));
    assert!(matches!(constant.score_and_grad(&(), &y), Err(Error::NoGradient)));
    let unsummed = Function::new(|y: &Tensor| Ok(y.clone()));
    assert!(matches!(unsummed.score_and_grad(&(), &y), Err(Error::Shape { .. })));
}
