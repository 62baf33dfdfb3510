//! Objectives against independent golden values and gradients.

use candle_core::{Device, Tensor, Var};
use ebm_core::{
    Derivatives, Directions, InfoNce, KullbackLeibler, MonteCarloNll, NoiseContrastive, Objective, Proposal,
    Result, ScoreMatching, SelfNormalized,
};
use rand::RngCore;
use serde::Deserialize;

use crate::network::Network;
use crate::zoo::{Table, assert_close, flat, rng};

/// Samples (B, M, D) and their log q, (B, M) that are given, with log q of the targets, (B, 1).
struct Given {
    samples: Tensor,
    log_q: Tensor,
    log_q_target: Tensor,
}

impl Proposal for Given {
    fn sample(&self, _: &Tensor, _: usize, _: &mut dyn RngCore) -> Result<Tensor> {
        Ok(self.samples.clone())
    }
    fn log_prob(&self, y: &Tensor, _: &Tensor) -> Result<Tensor> {
        Ok(if y.dim(1)? == 1 { &self.log_q_target } else { &self.log_q }.clone())
    }
}

fn rows<const N: usize>(values: &[f64; N]) -> Tensor {
    Tensor::new(&[*values], &Device::Cpu).unwrap()
}

/// Densities as logarithms, with samples that are all zero.
fn densities(q: &[f64; 4], q_target: f64) -> Given {
    Given {
        samples: Tensor::zeros((1, 4, 1), candle_core::DType::F64, &Device::Cpu).unwrap(),
        log_q: rows(&q.map(f64::ln)),
        log_q_target: rows(&[q_target.ln()]),
    }
}

/// The value for one target at 0 and its gradient in the scores that the model gives.
fn of_scores<const N: usize>(objective: &impl Objective, scores: [f64; N]) -> (f64, Vec<f64>) {
    let table = Var::from_tensor(&rows(&scores)).unwrap();
    let loss = objective.loss(&Table, &table, &rows(&[0.0]), &mut rng(0)).unwrap();
    (loss.to_scalar().unwrap(), flat(loss.backward().unwrap().get(&table).unwrap()))
}

// f = (.2, −1, .5, 1.5) of the samples and f₀ = .7, q = (2, .5, 1, .1) and q₀ = 2.2.
const F: [f64; 5] = [0.7, 0.2, -1.0, 0.5, 1.5];
const Q: [f64; 4] = [2.0, 0.5, 1.0, 0.1];
const Q_TARGET: f64 = 2.2;
/// e^f / q over its sum.
const WEIGHTS: [f64; 4] = [0.01277295, 0.01538856, 0.03448337, 0.93735512];

#[test]
fn nce() {
    let objective = NoiseContrastive { proposal: densities(&Q, Q_TARGET), num_samples: 4 };
    let (loss, gradient) = of_scores(&objective, F);
    assert!((loss - 3.9746991555875018).abs() < 1e-14, "{loss}");
    assert!((gradient[0] + 0.9812150480074726).abs() < 1e-14);
    assert_close(&gradient[1..], &[0.01253301, 0.01509949, 0.0338356, 0.91974695], 5e-9);
}

#[test]
fn kld_is_does_not_look_at_the_target() {
    let label = densities(&[1.0, 0.2, 0.7, 0.05], 1.0);
    let proposal = densities(&Q, Q_TARGET);
    let samples = [F[1], F[2], F[3], F[4]];
    let objective = KullbackLeibler { proposal, num_samples: 4, label, normalize_weights: false };
    let (loss, gradient) = of_scores(&objective, samples);
    assert!((loss - 2.2809838037184234).abs() < 1e-14, "{loss}");
    // The weights are (.5, .4, .7, .5), with the mean .525.
    let w = [0.5, 0.4, 0.7, 0.5];
    let want: Vec<f64> = WEIGHTS.iter().zip(w).map(|(p, w)| p - w / 4.0).collect();
    assert_close(&gradient, &want, 5e-9);

    let objective = KullbackLeibler { normalize_weights: true, ..objective };
    let (loss, gradient) = of_scores(&objective, samples);
    let cross: f64 = samples.iter().zip(w).map(|(f, w)| f * w / 2.1).sum();
    // log of the mean of e^f / q, 1.78… + f₀ of ML-IS.
    assert!((loss - (1.7809838037184236 + 0.7 - cross)).abs() < 1e-14, "{loss}");
    let want: Vec<f64> = WEIGHTS.iter().zip(w).map(|(p, w)| p - w / 2.1).collect();
    assert_close(&gradient, &want, 5e-9);
}

#[test]
fn info_nce() {
    for temperature in [1.0, 0.25, 10.0] {
        let objective = InfoNce { proposal: densities(&Q, Q_TARGET), num_samples: 4, temperature };
        let (loss, gradient) = of_scores(&objective, F);
        let exp = F.map(|f| (f / temperature).exp());
        let sum: f64 = exp.iter().sum();
        assert!((loss + (exp[0] / sum).ln()).abs() < 1e-13, "{loss}");
        let want: Vec<f64> = exp
            .iter()
            .enumerate()
            .map(|(m, e)| (e / sum - f64::from(u8::from(m == 0))) / temperature)
            .collect();
        assert_close(&gradient, &want, 1e-13);
    }
}

/// f and b are given: the features are f (B, 1 + M) and b (B).
struct TableWithB;

impl ebm_core::EnergyModel for TableWithB {
    type Features = (Tensor, Var);
    fn score(&self, (f, _): &(Tensor, Var), _: &Tensor) -> Result<Tensor> {
        Ok(f.clone())
    }
    fn log_normalizer(&self, (_, b): &(Tensor, Var)) -> Result<Tensor> {
        Ok(b.as_tensor().clone())
    }
}

#[test]
fn snl_is_above_ml_is_and_touches_it_at_the_estimated_log_z() {
    let log_z = 1.7809838037184236 + 0.7;
    for shift in [-3.0f64, -0.5, 0.0, 0.1, 5.0] {
        let b = Var::new(&[log_z + shift], &Device::Cpu).unwrap();
        let objective = SelfNormalized { proposal: densities(&Q, Q_TARGET), num_samples: 4 };
        let features = (rows(&F), b);
        let loss = objective.loss(&TableWithB, &features, &rows(&[0.0]), &mut rng(0)).unwrap();
        // b − f₀ + e^(log Z − b) − 1, whose slope in b is 1 − e^(log Z − b).
        let want = log_z + shift - 0.7 + (-shift).exp() - 1.0;
        assert_close(&[loss.to_scalar().unwrap()], &[want], 1e-14);
        let excess = want - 1.7809838037184236;
        assert!(if shift == 0.0 { excess.abs() < 1e-15 } else { excess > 1e-3 }, "{shift}: {excess}");
        let slope = flat(loss.backward().unwrap().get(&features.1).unwrap());
        assert_close(&slope, &[1.0 - (-shift).exp()], 1e-14);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    x: Vec<Vec<f64>>,
    y: Vec<Vec<f64>>,
    samples: Vec<Vec<Vec<f64>>>,
    log_q: Vec<Vec<f64>>,
    log_q_target: Vec<Vec<f64>>,
    log_label: Vec<Vec<f64>>,
    w: Vec<Vec<f64>>,
    b: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    u: Vec<Vec<f64>>,
    ml_is: Case,
    kld_is: Case,
    kld_is_normalized: Case,
    nce: Case,
    info_nce: Case,
    info_nce_temperature: Case,
    snl: Case,
    sm: Case,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    loss: f64,
    w: Vec<f64>,
    b: Vec<f64>,
    v: Vec<f64>,
    u: Option<Vec<f64>>,
}

fn tensor2(rows: &[Vec<f64>]) -> Tensor {
    Tensor::new(rows.to_vec(), &Device::Cpu).unwrap()
}

#[test]
fn values_and_gradients_of_pytorch() {
    let golden: Golden = toml::from_str(include_str!("../golden/objectives.toml")).unwrap();
    let network = Network::new();
    for (var, want) in
        [(&network.w, &golden.w), (&network.b, &golden.b), (&network.v, &golden.v), (&network.u, &golden.u)]
    {
        assert_close(&flat(var), &want.concat(), 1e-15);
    }
    let (x, y) = (tensor2(&golden.x).unsqueeze(1).unwrap(), tensor2(&golden.y));
    let given = |log_q: &[Vec<f64>]| Given {
        samples: Tensor::new(golden.samples.clone(), &Device::Cpu).unwrap(),
        log_q: tensor2(log_q),
        log_q_target: tensor2(&golden.log_q_target),
    };
    let (proposal, num_samples) = (&given(&golden.log_q), 3);

    let agrees = |loss: Result<Tensor>, want: &Case, tolerance: f64| {
        let loss = loss.unwrap();
        assert_close(&flat(&loss), &[want.loss], tolerance);
        let gradients = loss.backward().unwrap();
        for (var, want) in [(&network.w, &want.w), (&network.b, &want.b), (&network.v, &want.v)] {
            assert_close(&flat(gradients.get(var).unwrap()), want, tolerance);
        }
        match &want.u {
            Some(want) => assert_close(&flat(gradients.get(&network.u).unwrap()), want, tolerance),
            None => assert!(gradients.get(&network.u).is_none()),
        }
    };
    macro_rules! check {
        ($objective:expr, $case:ident, $tolerance:expr) => {
            agrees($objective.loss(&network, &x, &y, &mut rng(0)), &golden.$case, $tolerance)
        };
    }
    check!(MonteCarloNll { proposal, num_samples }, ml_is, 1e-14);
    let label = given(&golden.log_label);
    let kld = KullbackLeibler { proposal, num_samples, label, normalize_weights: false };
    check!(kld, kld_is, 1e-14);
    check!(KullbackLeibler { normalize_weights: true, ..kld }, kld_is_normalized, 1e-14);
    check!(NoiseContrastive { proposal, num_samples }, nce, 1e-14);
    check!(InfoNce { proposal, num_samples, temperature: 1.0 }, info_nce, 1e-14);
    check!(InfoNce { proposal, num_samples, temperature: 0.3 }, info_nce_temperature, 1e-14);
    check!(SelfNormalized { proposal, num_samples }, snl, 1e-13);
    let directions = Directions::Coordinates;
    check!(ScoreMatching { derivatives: Derivatives::Exact, directions }, sm, 1e-14);
    // The error of the differences is of order h²: twice the step gives four times the error.
    let derivatives = Derivatives::Differences { step: 1e-3 };
    check!(ScoreMatching { derivatives, directions }, sm, 1e-5);
}
