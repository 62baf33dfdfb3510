//! Objectives that draw noise themselves, against their formulas for the samples that the model got.

use candle_core::{Device, Tensor};
use ebm_core::{
    DenoisingScoreMatching, Derivatives, Directions, GaussianMixture, LangevinNll, NoiseContrastivePlus,
    Objective, ScoreMatching, Uniform,
};
use ebm_core::{InfoNce, MonteCarloNll, NoiseContrastive};
use rand::Rng;
use rand_distr::StandardNormal;

use crate::network::Network;
use crate::zoo::{Recorded, assert_close, flat, gaussian, rng};

const MEAN: [f64; 2] = [0.3, -1.0];
const SIGMA: [f64; 2] = [0.5, 2.0];
const Y: [[f64; 2]; 2] = [[0.1, 0.4], [-0.7, 2.0]];

fn y() -> Tensor {
    Tensor::new(&Y, &Device::Cpu).unwrap()
}

/// f of the Gaussian model without its constant.
fn f(y: &[f64]) -> f64 {
    (0..2).map(|d| -0.5 * ((y[d] - MEAN[d]) / SIGMA[d]).powi(2)).sum()
}

fn slope(y: &[f64], d: usize) -> f64 {
    (MEAN[d] - y[d]) / SIGMA[d].powi(2)
}

const DIFFERENCES: Derivatives = Derivatives::Differences { step: 1e-3 };

#[test]
fn score_matching_of_a_gaussian() {
    // The trace is −Σ 1/σ², whatever y is; differences of a parabola are exact up to rounding.
    let objective = ScoreMatching { derivatives: DIFFERENCES, directions: Directions::Coordinates };
    let model = gaussian(&MEAN, &SIGMA, 2.0);
    let loss = objective.loss(&model, &(), &y(), &mut rng(0)).unwrap();
    let squares: f64 = Y.iter().map(|y| slope(y, 0).powi(2) + slope(y, 1).powi(2)).sum();
    assert_close(&flat(&loss), &[-4.25 + 0.5 * squares / 2.0], 1e-8);
}

#[test]
fn denoising_score_matching_of_a_gaussian() {
    let sigma = 0.7;
    let model = Recorded::new(gaussian(&MEAN, &SIGMA, 2.0));
    let directions = Directions::Coordinates;
    let objective = DenoisingScoreMatching { sigma, num_samples: 3, derivatives: DIFFERENCES, directions };
    let loss = objective.loss(&model, &(), &y(), &mut rng(4)).unwrap();
    // The middle of the two points of the first difference, (B, 2 M, D).
    let seen = model.seen.borrow();
    assert_eq!((seen.len(), seen[0].dims()), (2, &[2, 6, 2][..]));
    let middle = (seen[0].narrow(1, 0, 3).unwrap() + seen[0].narrow(1, 3, 3).unwrap()).unwrap();
    let noisy = flat(&(middle * 0.5).unwrap());
    let terms = noisy.chunks_exact(2).enumerate().map(|(row, noisy)| {
        let y = Y[row / 3];
        (0..2).map(|d| (slope(noisy, d) + (noisy[d] - y[d]) / sigma.powi(2)).powi(2)).sum::<f64>()
    });
    assert_close(&flat(&loss), &[terms.sum::<f64>() / 6.0], 1e-8);
    // The noise has the standard deviation σ, whatever the target.
    let spread: f64 = noisy
        .iter()
        .zip([Y[0]; 3].into_iter().chain([Y[1]; 3]).flatten())
        .map(|(n, y)| (n - y).powi(2))
        .sum();
    assert!(spread > 12.0 * 0.1 && spread < 12.0 * 1.5, "{spread}");
}

#[test]
fn nce_plus_by_its_formula() {
    let sigmas = [0.2, 1.5];
    let proposal = GaussianMixture::isotropic(&sigmas, 2).unwrap();
    let model = Recorded::new(gaussian(&MEAN, &SIGMA, 2.0));
    let objective = NoiseContrastivePlus { proposal, num_samples: 4, beta: 0.5 };
    let loss = objective.loss(&model, &(), &y(), &mut rng(2)).unwrap();
    let seen = model.seen.borrow();
    assert_eq!((seen.len(), seen[0].dims()), (1, &[2, 5, 2][..]));
    // The density of the proposal itself, for the moved target too.
    let q = |e: [f64; 2]| {
        let part =
            |s: f64| (-0.5 * (e[0] * e[0] + e[1] * e[1]) / (s * s)).exp() / (std::f64::consts::TAU * s * s);
        0.5 * (part(sigmas[0]) + part(sigmas[1]))
    };
    let rows = flat(&seen[0]);
    let terms = rows.chunks_exact(10).zip(Y).map(|(row, y)| {
        let ratios = row.chunks_exact(2).map(|at| f(at).exp() / q([at[0] - y[0], at[1] - y[1]]));
        let ratios: Vec<f64> = ratios.collect();
        -(ratios[0] / ratios.iter().sum::<f64>()).ln()
    });
    assert_close(&flat(&loss), &[terms.sum::<f64>() / 2.0], 1e-13);
}

#[test]
fn nce_plus_moves_each_target_by_the_scaled_noise() {
    let proposal = GaussianMixture::new(vec![vec![0.2, 1.0], vec![0.6, 3.0]]).unwrap();
    let model = Recorded::new(gaussian(&MEAN, &SIGMA, 0.0));
    let objective = NoiseContrastivePlus { proposal, num_samples: 1, beta: 0.1 };
    let n = 4000;
    let y = Tensor::new(&[[3.0, -2.0]], &Device::Cpu).unwrap().broadcast_as((n, 2)).unwrap();
    objective.loss(&model, &(), &y, &mut rng(5)).unwrap();
    let moved = flat(&model.seen.borrow()[0].narrow(1, 0, 1).unwrap());
    for (d, (y, variance)) in
        [(3.0, 0.01 * (0.04 + 0.36) / 2.0), (-2.0, 0.01 * (1.0 + 9.0) / 2.0)].into_iter().enumerate()
    {
        let squares: Vec<f64> = moved.chunks_exact(2).map(|at| (at[d] - y).powi(2)).collect();
        let mean = squares.iter().sum::<f64>() / n as f64;
        let error = (squares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n as f64 / n as f64).sqrt();
        assert!((mean - variance).abs() < 4.0 * error, "{mean} ± {error}, expected {variance}");
    }
}

#[test]
fn ml_mcmc_by_its_chain() {
    let (steps, lambda, count) = (3, 0.4f64, 2);
    let model = Recorded::new(gaussian(&MEAN, &SIGMA, 2.0));
    let objective = LangevinNll { num_samples: count, steps, step_size: lambda };
    let loss = objective.loss(&model, &(), &y(), &mut rng(6)).unwrap();
    // L gradients and the pass of the loss.
    assert_eq!(model.seen.borrow().len(), steps + 1);

    let mut noise = rng(6);
    let mut chains: Vec<[f64; 2]> = Y.iter().flat_map(|y| vec![*y; count]).collect();
    for _ in 0..steps {
        for chain in &mut chains {
            for d in 0..2 {
                let e: f64 = noise.sample(StandardNormal);
                chain[d] += 0.5 * lambda.powi(2) * slope(chain, d) + lambda * e;
            }
        }
    }
    let ends = model.seen.borrow()[steps].clone();
    let at = |index: usize| flat(&ends.narrow(1, index, 1).unwrap());
    assert_close(&at(0), &Y.concat(), 0.0);
    assert_close(&at(2), &[chains[1], chains[3]].concat(), 1e-14);
    let chains = chains.iter().map(|y| f(y)).sum::<f64>() / 4.0;
    assert_close(&flat(&loss), &[chains - (f(&Y[0]) + f(&Y[1])) / 2.0], 1e-13);
}

#[test]
fn a_target_outside_a_uniform_proposal_is_certain_for_nce_alone() {
    // The target's noise density is 0, so NCE has no loss and no gradient. InfoNCE and ML-IS do not use this
    // density.
    let network = Network::new();
    let (x, y) = (Network::x(candle_core::DType::F64), Network::y(candle_core::DType::F64));
    let proposal = &Uniform::new(vec![5.0, 5.0], vec![6.0, 6.0]).unwrap();
    let loss = NoiseContrastive { proposal, num_samples: 4 }.loss(&network, &x, &y, &mut rng(0)).unwrap();
    assert_eq!(flat(&loss), [0.0]);
    assert_eq!(flat(loss.backward().unwrap().get(&network.b).unwrap()), [0.0; 3]);
    for loss in [
        InfoNce { proposal, num_samples: 4, temperature: 1.0 }.loss(&network, &x, &y, &mut rng(0)),
        MonteCarloNll { proposal, num_samples: 4 }.loss(&network, &x, &y, &mut rng(0)),
    ] {
        assert!(flat(&loss.unwrap())[0].is_finite());
    }
}
