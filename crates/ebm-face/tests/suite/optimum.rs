//! Trainings whose result is known: the minimum of every loss where a formula gives it, and a density that f
//! has to find.

use crate::common::{CPU, OneBatch, config, set, train};
use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::{AnyObjective, AnyProposal, GaussianMixture, Grid, MonteCarloNll};
use ebm_face::config::{MethodConfig, TrainingConfig};
use ebm_face::evaluation::{densities, estimates};
use ebm_face::network::{ENERGY, Head, Network};
use ebm_face::training::FaceTask;
use ebm_nn::params::ParamStore;

const STEPS: usize = 1200;

/// A rate that falls until the optimum is reached; an epoch is a step.
fn settings(weight_decay: f64) -> TrainingConfig {
    TrainingConfig {
        epochs: STEPS as f64,
        batch_size: 4,
        learning_rate: 0.03,
        weight_decay,
        milestones: vec![800.0, 1000.0],
        trunk_rate: 1.0,
    }
}

/// A baseline's head on one feature that its hidden layer, one unit, hands on as it is; the rest learns `y`
/// of `x`. The last loss, and the estimate for each x.
fn linear(baseline: &str, x: &[f32; 4], y: &[f32; 4], weight_decay: f64) -> (f64, Vec<f64>) {
    let mut config = config();
    config.head.hidden = 1;
    let baseline = serde_json::from_str(baseline).unwrap();
    config.methods = vec![MethodConfig { baseline, ..config.methods[0].clone() }];
    let store = ParamStore::new(Key::new(4));
    store.freeze(|name| name.contains("fc1"));
    let head = Head::of(&config, &config.methods[0].key, 1, &store, &CPU).unwrap();
    for name in store.names().iter().filter(|name| name.contains("fc1")) {
        set(&store, name, &[if name.ends_with("weight") { 1.0 } else { 0.0 }]);
    }
    let column = |values: &[f32; 4]| Tensor::from_slice(values, (4, 1), &CPU).unwrap();
    let source = OneBatch { x: column(x), y: column(y) };
    let network = Network::new(&config, None, head).unwrap();
    let mut task = FaceTask::new(network, store, source, &settings(weight_decay), Key::new(2));
    let losses = train(&mut task, STEPS);
    let head = task.into_network().0.head;
    let estimates = estimates(&head, &head.features(&column(x)).unwrap()).unwrap();
    assert_eq!(estimates.dims(), [4, 1]);
    let estimates = estimates.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap();
    (*losses.last().unwrap(), estimates)
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], bound: f64) {
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < bound);
    assert!(near && found.len() == expected.len(), "{found:?} instead of {expected:?}");
}

const L2: &str = r#"{"kind": "direct", "dim": 1, "loss": "l2"}"#;

#[test]
fn l2_finds_the_least_squares_line_and_weight_decay_the_ridge() {
    // Σx = 6, Σx² = 14, Σy = 12, Σxy = 25.
    let (x, y) = ([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 2.0, 6.0]);
    // w = (4·25 − 6·12) / (4·14 − 6²) = 1.4 and b = 3 − 1.5 w = 0.9; the residuals are 0.1, 0.7, −1.7 and 0.9.
    let (loss, line) = linear(L2, &x, &y, 0.0);
    assert_near(&line, &[0.9, 2.3, 3.7, 5.1], 1e-3);
    assert_near(&[loss], &[(0.01 + 0.49 + 2.89 + 0.81) / 4.0], 1e-4);
    // With decay 1: (2/4)(14 w + 6 b − 25) + w = 0 and (2/4)(6 w + 4 b − 12) + b = 0, so w = 1.3 and b = 0.7.
    let (_, line) = linear(L2, &x, &y, 1.0);
    assert_near(&line, &[0.7, 2.0, 3.3, 4.6], 1e-3);
}

#[test]
fn every_loss_reaches_its_minimum() {
    // Where all x are the same, the best density is that of the y's: 1, 2, 3 and 6.
    let (x, y) = ([1.0; 4], [1.0, 3.0, 2.0, 6.0]);
    let bins = r#"{"uniform": {"first": 1.0, "step": 1.0, "count": 6}}"#;
    let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
    // P(y above rank) of the ranks 1 to 5: 3/4, 1/2, 1/4, 1/4, 1/4; the estimate is 1 and their sum.
    let ranks = 4.0 * entropy(0.25) + entropy(0.5);
    for (baseline, loss, estimate) in [
        // The mean, and the variance (4 + 1 + 0 + 9) / 4.
        (L2.to_owned(), 3.5, 3.0),
        (r#"{"kind": "gaussian", "dim": 1}"#.to_owned(), 1.0 + 3.5f64.ln(), 3.0),
        // |d| − 1/2 beyond 1 and d²/2 within: the slope (μ − 2) + (μ − 3) + 1 − 1 is 0 at 2.5.
        (
            r#"{"kind": "direct", "dim": 1, "loss": {"huber": {"beta": 1.0}}}"#.to_owned(),
            (1.0 + 0.125 + 0.125 + 3.0) / 4.0,
            2.5,
        ),
        // −log p of a quarter each; the estimate is their mean.
        (
            format!(
                r#"{{"kind": "softmax", "dim": 1, "l2_weight": 0.0, "variance_weight": 0.0, "bins": {bins}}}"#
            ),
            4f64.ln(),
            3.0,
        ),
        (format!(r#"{{"kind": "ordinal", "head": "niu", "ranks": {bins}}}"#), ranks, 3.0),
        (format!(r#"{{"kind": "ordinal", "head": "coral", "ranks": {bins}}}"#), ranks, 3.0),
    ] {
        let (found, estimates) = linear(&baseline, &x, &y, 0.0);
        assert!((found - loss).abs() < 2e-3, "{baseline}: {found} instead of {loss}");
        assert_near(&estimates, &[estimate; 4], 5e-3);
    }
    // Any median is best, and the mean distance to it, 6/4, is the scale: |d| / s + log s.
    let (found, estimates) = linear(r#"{"kind": "laplace", "dim": 1}"#, &x, &y, 0.0);
    assert!((found - 1.0 - 1.5f64.ln()).abs() < 2e-3, "{found}");
    assert!((1.99..3.01).contains(&estimates[0]), "{estimates:?}");
}

#[test]
fn the_energy_model_finds_the_density_of_its_data() {
    // 64 quantiles of N(40, 5²) where the feature is 0, of N(30, 3²) where it is 1.
    let truth = [(40.0, 5.0), (30.0, 3.0)];
    let standard = |count: usize| -> Vec<f64> {
        let step = 16.0 / 16000.0;
        let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        let (mut below, mut found) = (0.0, Vec::new());
        for k in 0..16000 {
            below += density(-8.0 + (k as f64 + 0.5) * step) * step;
            while found.len() < count && below > (found.len() as f64 + 0.5) / count as f64 {
                found.push(-8.0 + (k + 1) as f64 * step);
            }
        }
        found
    };
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (feature, (mean, deviation)) in truth.into_iter().enumerate() {
        for z in standard(64) {
            x.push(feature as f32);
            y.push((mean + deviation * z) as f32);
        }
    }
    let mut config = config();
    config.head.hidden = 32;
    config.head.y_layers = vec![16, 32];
    let proposal = AnyProposal::Gaussian(GaussianMixture::isotropic(&[1.0, 20.0], 1).unwrap());
    config.energy.objective = AnyObjective::MlIs(MonteCarloNll { proposal, num_samples: 128 });
    let store = ParamStore::new(Key::new(4));
    let head = Head::of(&config, ENERGY, 1, &store, &CPU).unwrap();
    let tensor = |values: Vec<f32>| Tensor::from_vec(values, (128, 1), &CPU).unwrap();
    let source = OneBatch { x: tensor(x), y: tensor(y) };
    let network = Network::new(&config, None, head).unwrap();
    let training = TrainingConfig {
        batch_size: 128,
        learning_rate: 0.01,
        milestones: vec![200.0, 270.0],
        trunk_rate: 1.0,
        ..settings(0.0)
    };
    let mut task = FaceTask::new(network, store, source, &training, Key::new(2));
    train(&mut task, 300);
    let constants = task.into_network().1.constants().unwrap();
    let head = Head::of(&config, ENERGY, 1, &constants, &CPU).unwrap();
    let g_x = Tensor::new(&[[0f32], [1.0]], &CPU).unwrap();
    let densities = densities(&head, &g_x, &[Grid::new(0.0, 100.0, 1001).unwrap()]).unwrap().unwrap();
    for (p, (mean, deviation)) in densities.iter().flatten().zip(truth) {
        assert!((p.mean() - mean).abs() < 0.5, "mean {} instead of {mean}", p.mean());
        // The cross-entropy is never below the entropy, ½ log 2πe σ², and near it; 101 quantiles stand for it
        // up to 0.01.
        let points = standard(101).into_iter().map(|z| p.log_prob(mean + deviation * z));
        let found = -points.sum::<f64>() / 101.0;
        let entropy = 0.5 + (deviation * std::f64::consts::TAU.sqrt()).ln();
        assert!((entropy - 0.02..entropy + 0.08).contains(&found), "{found} for {entropy}");
    }
}
