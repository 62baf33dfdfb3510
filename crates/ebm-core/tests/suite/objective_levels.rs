//! Invariance of the losses to a constant offset of f, and f32 against f64.

use candle_core::{DType, Tensor};
use ebm_core::{
    DenoisingScoreMatching, Derivatives, Directions, GaussianMixture, InfoNce, KullbackLeibler, LangevinNll,
    MonteCarloNll, NoiseContrastive, NoiseContrastivePlus, Objective, ScoreMatching, SelfNormalized,
};

use crate::network::Network;
use crate::zoo::{flat, rng};

/// The loss and its gradient in W, b and v for f + level.
fn outcome(objective: &impl Objective, dtype: DType, level: f64, normalizer_follows: bool) -> Vec<f64> {
    let network = Network { normalizer_follows, ..Network::of(dtype, level) };
    let loss = objective.loss(&network, &Network::x(dtype), &Network::y(dtype), &mut rng(3)).unwrap();
    assert_eq!((loss.dtype(), loss.rank()), (dtype, 0));
    let gradients = loss.backward().unwrap();
    let gradients = network.parameters().map(|parameter| flat(gradients.get(parameter).unwrap()));
    [flat(&loss), gradients.concat()].concat()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f64::max)
}

/// The same at all levels; in f32, f is rounded to 5e-4 at the level 1e4, and so are its differences.
#[track_caller]
fn assert_invariant(objective: &impl Objective) {
    let at_zero = outcome(objective, DType::F64, 0.0, true);
    for (level, [double, single]) in [
        (0.0, [0.0, 2e-5]),
        (1.0, [1e-13, 2e-5]),
        (-300.0, [1e-12, 2e-4]),
        (1e4, [1e-10, 2e-3]),
        (-1e4, [1e-10, 2e-3]),
    ] {
        for (dtype, tolerance) in [(DType::F64, double), (DType::F32, single)] {
            let distance = distance(&outcome(objective, dtype, level, true), &at_zero);
            assert!(distance <= tolerance, "level {level}, {dtype:?}: {distance}");
        }
    }
}

fn proposal() -> GaussianMixture {
    GaussianMixture::isotropic(&[0.3, 0.8], 2).unwrap()
}

fn kld(num_samples: usize, normalize_weights: bool) -> KullbackLeibler<GaussianMixture, GaussianMixture> {
    let label = GaussianMixture::isotropic(&[0.5], 2).unwrap();
    KullbackLeibler { proposal: proposal(), num_samples, label, normalize_weights }
}

#[test]
fn the_level_does_not_matter_to_the_likelihoods() {
    assert_invariant(&MonteCarloNll { proposal: proposal(), num_samples: 32 });
    assert_invariant(&kld(32, true));
    assert_invariant(&LangevinNll { num_samples: 8, steps: 4, step_size: 0.3 });
}

#[test]
fn the_level_does_not_matter_to_the_ranking_losses() {
    assert_invariant(&NoiseContrastive { proposal: proposal(), num_samples: 32 });
    assert_invariant(&NoiseContrastivePlus { proposal: proposal(), num_samples: 32, beta: 0.3 });
    assert_invariant(&InfoNce { proposal: proposal(), num_samples: 32, temperature: 1.0 });
    assert_invariant(&InfoNce { proposal: proposal(), num_samples: 32, temperature: 0.5 });
}

#[test]
fn the_level_does_not_matter_to_exact_derivatives() {
    let (derivatives, directions) = (Derivatives::Exact, Directions::Coordinates);
    assert_invariant(&ScoreMatching { derivatives, directions });
    assert_invariant(&DenoisingScoreMatching { sigma: 0.4, num_samples: 8, derivatives, directions });
}

#[test]
fn differences_lose_the_digits_that_the_level_takes() {
    let directions = Directions::Coordinates;
    let step = 0.1;
    let derivatives = Derivatives::Differences { step };
    for (dtype, epsilon) in [(DType::F64, f64::EPSILON), (DType::F32, f64::from(f32::EPSILON))] {
        for level in [0.0, 1.0, 1e4] {
            // Half an ulp of each of the four values of a second difference; two of a first one.
            let rounding = epsilon * (1.0 + level);
            let second = ScoreMatching { derivatives, directions };
            let first = DenoisingScoreMatching { sigma: 0.4, num_samples: 8, derivatives, directions };
            for (got, want, tolerance) in [
                (
                    outcome(&second, dtype, level, true),
                    outcome(&second, DType::F64, 0.0, true),
                    2.0 * rounding / (step * step),
                ),
                (
                    outcome(&first, dtype, level, true),
                    outcome(&first, DType::F64, 0.0, true),
                    rounding / (2.0 * step),
                ),
            ] {
                // Two coordinates; the derivatives enter with factors below 8, and the other operations round
                // too.
                let distance = distance(&got, &want);
                assert!(
                    distance < 16.0 * tolerance + 100.0 * epsilon,
                    "{dtype:?}, level {level}: {distance}"
                );
            }
        }
    }
}

#[test]
fn snl_follows_if_b_does() {
    let objective = SelfNormalized { proposal: proposal(), num_samples: 32 };
    assert_invariant(&objective);
    // A change of b alone changes the loss.
    let moved = outcome(&objective, DType::F64, 1.0, false);
    assert!(distance(&moved, &outcome(&objective, DType::F64, 0.0, true)) > 0.1);
}

#[test]
fn kld_is_with_plain_weights_is_invariant_in_expectation() {
    // The loss moves by the level times 1 − the mean weight, whose expectation is 0.
    let shifts: Vec<f64> = (0..64)
        .map(|seed| {
            let at = |level: f64| {
                let network = Network::of(DType::F64, level);
                let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
                flat(&kld(256, false).loss(&network, &x, &y, &mut rng(seed)).unwrap())[0]
            };
            at(1.0) - at(0.0)
        })
        .collect();
    let n = shifts.len() as f64;
    let mean = shifts.iter().sum::<f64>() / n;
    let spread = (shifts.iter().map(|shift| (shift - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!(spread > 0.01 && mean.abs() < 4.0 * spread / n.sqrt(), "{mean} ± {spread}");
}

#[test]
fn f32_agrees_with_f64_on_steep_scores() {
    // Values of thousands, as of a detector's log-densities, in the parameters' own scale.
    let loss = |objective: &MonteCarloNll<GaussianMixture>, dtype| {
        let network = Network::of(dtype, 0.0);
        network.v.set(&(network.v.as_tensor() * 1e4).unwrap()).unwrap();
        let (x, y) = (Network::x(dtype), Network::y(dtype));
        let loss: Tensor = objective.loss(&network, &x, &y, &mut rng(3)).unwrap();
        flat(&loss)[0]
    };
    let objective = MonteCarloNll { proposal: proposal(), num_samples: 32 };
    let (double, single) = (loss(&objective, DType::F64), loss(&objective, DType::F32));
    assert!(double > 100.0 && (single / double - 1.0).abs() < 1e-5, "{single} {double}");
}
