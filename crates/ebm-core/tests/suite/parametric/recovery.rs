//! Gradient descent on each loss finds its known minimiser, for a density that does not depend on x.

use candle_core::{Device, Tensor, Var};
use ebm_core::parametric::{
    Bins, ConditionalVae, Direct, DirectLoss, Gaussian, JointLaplace, Laplace, MixtureOfGaussians, Ordinal,
    OrdinalHead, Parametric, Softmax,
};
use rand::Rng;
use rand_distr::StandardNormal;

use super::Linear;
use crate::zoo::{assert_close, flat, rng};

/// Descends `loss` in the variables.
fn descend(variables: &[&Var], rate: f64, steps: usize, loss: impl Fn() -> Tensor) {
    for _ in 0..steps {
        let gradients = loss().backward().unwrap();
        for variable in variables {
            let step = (gradients.get(variable).unwrap() * rate).unwrap();
            variable.set(&(variable.as_tensor() - step).unwrap()).unwrap();
        }
    }
}

/// Returns the outputs, equal for all targets, that gradient descent from `start` reaches.
fn fit(model: &impl Parametric, start: &[f64], y: &[f64], rate: f64, steps: usize) -> Vec<f64> {
    let y = Tensor::from_slice(y, (y.len() / model.dim(), model.dim()), &Device::Cpu).unwrap();
    let phi = Var::new(start, &Device::Cpu).unwrap();
    let shape = (y.dim(0).unwrap(), start.len());
    descend(&[&phi], rate, steps, || model.loss(&phi.as_tensor().broadcast_as(shape).unwrap(), &y).unwrap());
    flat(&phi)
}

const Y: [f64; 5] = [0.1, 0.4, -0.3, 2.0, 0.6];

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn direct_regression_finds_mean_median_and_hubers_location() {
    let fit = |loss, rate, steps| fit(&Direct::new(1, loss).unwrap(), &[0.0], &Y, rate, steps);
    assert_close(&fit(DirectLoss::L2, 0.2, 200), &[mean(Y.into_iter())], 1e-12);
    assert_close(&fit(DirectLoss::L1, 1e-3, 2000), &[0.4], 2e-3);
    // −0.3 and 2.0 are in the linear parts and cancel; what remains is the mean of the others.
    assert_close(&fit(DirectLoss::Huber { beta: 0.5 }, 0.2, 400), &[1.1 / 3.0], 1e-10);
}

#[test]
fn gaussian_finds_mean_and_variance() {
    let m = mean(Y.into_iter());
    let variance = mean(Y.into_iter().map(|y| (y - m).powi(2)));
    let phi = fit(&Gaussian::new(1).unwrap(), &[0.0, 0.0], &Y, 0.2, 600);
    assert_close(&phi, &[m, variance.ln()], 1e-8);
}

#[test]
fn laplace_finds_median_and_mean_distance() {
    let distance = mean(Y.into_iter().map(|y| (y - 0.4).abs()));
    let phi = fit(&Laplace::new(1).unwrap(), &[0.3, 0.0], &Y, 1e-3, 6000);
    assert_close(&phi, &[0.4, distance.ln()], 5e-3);
    // In one coordinate, ½ mean|d| = √β.
    let phi = fit(&JointLaplace::new(1).unwrap(), &[0.3, 0.0], &Y, 2e-3, 6000);
    assert_close(&phi, &[0.4, 2.0 * (0.5 * distance).ln()], 1e-2);
}

#[test]
fn mixture_finds_two_clusters() {
    // One third at −3 ± 0.1, two thirds at 2 ± 0.2 and 5 ± 0.2 in the second coordinate.
    let y: Vec<f64> = [(-3.0, 0.0, 0.1), (2.0, 5.0, 0.2), (2.0, 5.0, 0.2)]
        .into_iter()
        .flat_map(|(a, b, r)| [[a - r, b - r], [a + r, b + r], [a - r, b + r], [a + r, b - r]])
        .flatten()
        .collect();
    let model = MixtureOfGaussians::new(2, 2).unwrap();
    let start = [0.0, 0.0, -1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    let phi = fit(&model, &start, &y, 0.02, 4000);
    assert_close(&[phi[1] - phi[0]], &[2f64.ln()], 1e-2);
    assert_close(&phi[2..6], &[-3.0, 0.0, 2.0, 5.0], 1e-3);
    let (small, large) = (2.0 * 0.1f64.ln(), 2.0 * 0.2f64.ln());
    assert_close(&phi[6..], &[small, small, large, large], 2e-2);
}

#[test]
fn conditional_vae_finds_the_likeliest_gaussian() {
    let mut rng_y = rng(2);
    let y: Vec<f64> = (0..40).map(|_| 1.5 + 0.8 * rng_y.sample::<f64, _>(StandardNormal)).collect();
    let m = mean(y.iter().copied());
    let variance = mean(y.iter().map(|y| (y - m).powi(2)));
    let y = Tensor::from_slice(&y, (40, 1), &Device::Cpu).unwrap();
    let networks = Linear::new([0.0, 0.0], [0.2, 0.0], [0.5, 0.0, 0.0]);
    let vae = ConditionalVae::new(1, 1, 64).unwrap();
    let variables = [&networks.prior, &networks.posterior, &networks.decoder];
    let mut noise = rng(3);
    let mut seeds = (0..).map(|_| noise.random::<u64>());
    let mut run = |rate: f64, steps: usize| {
        for _ in 0..steps {
            let seed = seeds.next().unwrap();
            descend(&variables, rate, 1, || {
                let outputs = vae.training_outputs(&networks, &40, &y, &mut rng(seed)).unwrap();
                vae.loss(&outputs, &y).unwrap()
            });
        }
    };
    run(0.1, 300);
    run(0.02, 200);
    let (got_mean, got_variance) = networks.marginal();
    assert!((got_mean - m).abs() < 0.05, "{got_mean}, expected {m}");
    assert!((got_variance / variance - 1.0).abs() < 0.1, "{got_variance}, expected {variance}");
}

#[test]
fn softmax_finds_the_frequencies() {
    let model = Softmax::new(1, Bins::uniform(0.0, 1.0, 3).unwrap(), 0.0, 0.0).unwrap();
    let phi = fit(&model, &[0.0; 3], &[0.0, 0.1, 1.0, 2.0, 2.2, 1.8, 2.0, 9.0], 1.0, 600);
    let log_p = [2.0f64, 1.0, 5.0].map(|n| (n / 8.0).ln());
    assert_close(&[phi[1] - phi[0], phi[2] - phi[0]], &[log_p[1] - log_p[0], log_p[2] - log_p[0]], 1e-8);
}

#[test]
fn the_terms_of_the_softmax_pull_as_they_should() {
    // Half of the targets at 0 and half at 2. With p_0 = p_2 = q the loss is −log q + 2 w q, so q = 1 / (2
    // w).
    let model = Softmax::new(1, Bins::uniform(0.0, 1.0, 3).unwrap(), 0.1, 2.0).unwrap();
    let phi = fit(&model, &[0.1, 0.0, 0.1], &[0.0, 2.0], 0.3, 600);
    assert_close(&[phi[0] - phi[1], phi[2] - phi[1]], &[0.5f64.ln(); 2], 1e-6);

    // A target of 0.4, whose nearest bin is 0, and p the probability of 1: −log(1 − p) + 10 (p − 0.4)².
    let model = Softmax::new(1, Bins::uniform(0.0, 1.0, 2).unwrap(), 10.0, 0.0).unwrap();
    let phi = fit(&model, &[0.0, 0.0], &[0.4], 0.3, 600);
    let p = 0.7 - 0.14f64.sqrt();
    assert_close(&[phi[1] - phi[0]], &[(p / (1.0 - p)).ln()], 1e-8);
}

#[test]
fn ordinal_regression_finds_how_many_are_above_each_rank() {
    let y = [0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0];
    let logit = |p: f64| (p / (1.0 - p)).ln();
    let want = [7.0, 5.0, 2.0].map(|n| logit(n / 8.0));
    let ranks = Bins::uniform(0.0, 1.0, 4).unwrap();
    let coral = fit(&Ordinal::new(ranks.clone(), OrdinalHead::Coral), &[0.0; 3], &y, 1.0, 500);
    assert_close(&coral, &want, 1e-8);
    let niu = fit(&Ordinal::new(ranks, OrdinalHead::Niu), &[0.0; 6], &y, 1.0, 500);
    let differences: Vec<f64> = niu.chunks_exact(2).map(|pair| pair[1] - pair[0]).collect();
    assert_close(&differences, &want, 1e-8);
}
