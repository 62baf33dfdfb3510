//! Scores and calibration of predicted densities, against closed forms and simulations.

use ebm_base::{Key, Rng};
use ebm_eval::Error;
use ebm_eval::calibration::{
    PitHistogram, SplitConformal, calibration_curve, calibration_error, coverage, crps_of_cdf, mean_width,
    nll, risk_at_coverage,
};
use proptest::prelude::*;
use rand::Rng as _;
use rand_distr::StandardNormal;

fn normal(rng: &mut Rng) -> f64 {
    rng.sample(StandardNormal)
}

/// Returns φ(z), the standard normal density.
fn pdf(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// Returns Φ(z) by Simpson's rule.
fn phi(z: f64) -> f64 {
    let n = 400;
    let h = z / n as f64;
    let weight = |i| if i == 0 || i == n { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
    0.5 + (0..=n).map(|i| weight(i) * pdf(h * f64::from(i))).sum::<f64>() * h / 3.0
}

/// Returns the CRPS of N(mean, sigma²): σ (z (2 Φ(z) − 1) + 2 φ(z) − 1/√π).
fn gaussian_crps(mean: f64, sigma: f64, y: f64) -> f64 {
    let z = (y - mean) / sigma;
    sigma * (z * (2.0 * phi(z) - 1.0) + 2.0 * pdf(z) - 1.0 / std::f64::consts::PI.sqrt())
}

#[test]
fn nll_is_the_mean_surprise() {
    assert_eq!(nll(&[-1.0, -3.0, 1.0]).unwrap(), 1.0);
    assert_eq!(nll(&[-1.0, f64::NEG_INFINITY]).unwrap(), f64::INFINITY);
    assert!(matches!(nll(&[]), Err(Error::Empty { .. })));
    assert!(matches!(nll(&[0.0, f64::NAN]), Err(Error::Value { index: 1, .. })));
    assert!(matches!(nll(&[f64::INFINITY]), Err(Error::Value { index: 0, .. })));
}

#[test]
fn crps_of_a_gaussian_is_its_closed_form() {
    let (mean, sigma, n) = (0.5, 0.7, 2001);
    let points: Vec<f64> = (0..n).map(|i| mean + sigma * (16.0 * i as f64 / (n - 1) as f64 - 8.0)).collect();
    let cdf: Vec<f64> = points.iter().map(|t| phi((t - mean) / sigma).clamp(0.0, 1.0)).collect();
    let cdf: Vec<f64> = cdf
        .iter()
        .scan(0.0f64, |max, f| {
            *max = max.max(*f);
            Some(*max)
        })
        .collect();
    for y in [-0.9, 0.5, 0.8, 3.0] {
        let (got, want) = (crps_of_cdf(&points, &cdf, y).unwrap(), gaussian_crps(mean, sigma, y));
        assert!((got - want).abs() < 2e-5, "{y}: {got}, expected {want}");
    }
}

#[test]
fn crps_of_simple_distributions_is_exact() {
    // Uniform on [0, 1] at y inside: ∫ = y³/3 + (1 − y)³/3.
    let y = 0.3f64;
    let want = (y.powi(3) + (1.0 - y).powi(3)) / 3.0;
    assert!((crps_of_cdf(&[0.0, 1.0], &[0.0, 1.0], y).unwrap() - want).abs() < 1e-15);
    // Outside of the grid, each unit of distance counts in full.
    for y in [-2.0, 3.0] {
        assert!((crps_of_cdf(&[0.0, 1.0], &[0.0, 1.0], y).unwrap() - (2.0 + 1.0 / 3.0)).abs() < 1e-15);
    }
    // A point: the absolute error.
    assert_eq!(crps_of_cdf(&[2.0], &[0.5], 5.0).unwrap(), 3.0);
}

#[test]
fn crps_refuses_what_is_no_distribution() {
    let refuse = |points: &[f64], cdf: &[f64], y| crps_of_cdf(points, cdf, y).unwrap_err();
    assert!(matches!(refuse(&[], &[], 0.0), Error::Empty("grid points")));
    assert!(matches!(refuse(&[0.0, 1.0], &[0.0], 0.0), Error::Lengths { found: 1, expected: 2, .. }));
    assert!(matches!(
        refuse(&[0.0, 0.0], &[0.0, 1.0], 0.0),
        Error::Value { what: "grid points", index: 1, .. }
    ));
    assert!(matches!(refuse(&[0.0, f64::NAN], &[0.0, 1.0], 0.0), Error::Value { index: 1, .. }));
    assert!(matches!(refuse(&[0.0, 1.0], &[0.5, 0.4], 0.0), Error::Value { index: 1, .. }));
    assert!(matches!(refuse(&[0.0, 1.0], &[0.0, 1.1], 0.0), Error::Value { index: 1, .. }));
    for y in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = refuse(&[0.0, 1.0], &[0.0, 1.0], y);
        assert!(matches!(error, Error::Value { what: "the observed y", .. }), "{error}");
    }
}

#[test]
fn coverage_and_width_of_unions_of_intervals() {
    let regions: [Vec<[f64; 2]>; 4] =
        [vec![[0.0, 1.0], [2.0, 3.0]], vec![[0.0, 1.0]], vec![], vec![[f64::NEG_INFINITY, 0.0]]];
    assert_eq!(coverage(&regions, &[2.5, 1.0, 0.0, -9.0]).unwrap(), 0.75);
    assert_eq!(coverage(&regions, &[1.5, 1.1, 0.0, 0.1]).unwrap(), 0.0);
    assert_eq!(mean_width(&regions[..3]).unwrap(), 1.0);
    assert_eq!(mean_width(&regions).unwrap(), f64::INFINITY);
    assert_eq!(mean_width(&[[[1.0, 1.5]], [[0.0, 0.0]]]).unwrap(), 0.25);

    assert!(matches!(coverage(&regions, &[0.0]), Err(Error::Lengths { found: 4, expected: 1, .. })));
    assert!(matches!(coverage(&[[[0.0, 1.0]]], &[f64::NAN]), Err(Error::Value { .. })));
    assert!(matches!(coverage::<[[f64; 2]; 1]>(&[], &[]), Err(Error::Empty { .. })));
    assert!(matches!(mean_width::<[[f64; 2]; 1]>(&[]), Err(Error::Empty { .. })));
    for bad in [
        vec![[1.0, 0.0]],
        vec![[0.0, 2.0], [1.0, 3.0]],
        vec![[2.0, 3.0], [0.0, 1.0]],
        vec![[f64::NAN, 1.0]],
        vec![[0.0, f64::NAN]],
        vec![[f64::INFINITY; 2]],
        vec![[f64::NEG_INFINITY; 2]],
    ] {
        let regions = [vec![], bad];
        assert!(matches!(mean_width(&regions), Err(Error::Value { what: "regions", index: 1, .. })));
        assert!(matches!(coverage(&regions, &[0.0; 2]), Err(Error::Value { what: "regions", index: 1, .. })));
    }
    // The value that an error names is the end that does not ascend.
    let error = mean_width(&[[[0.0, 2.0], [1.0, 3.0]]]).unwrap_err();
    assert!(matches!(error, Error::Value { value: 1.0, .. }), "{error}");
    // A region includes both ends, and may be all numbers.
    assert_eq!(coverage(&[[[0.0, 1.0]]; 2], &[0.0, 1.0]).unwrap(), 1.0);
    assert_eq!(coverage(&[[[f64::NEG_INFINITY, f64::INFINITY]]], &[9.0]).unwrap(), 1.0);
}

#[test]
fn errors_are_averaged_over_the_most_certain() {
    let (errors, widths) = ([4.0, 1.0, 3.0, 2.0], [8.0, 1.0, f64::INFINITY, 2.0]);
    let risk = |fractions: &[f64]| risk_at_coverage(&errors, &widths, fractions);
    assert_eq!(risk(&[0.25, 0.5, 0.75, 1.0]).unwrap(), [1.0, 1.5, 7.0 / 3.0, 2.5]);
    // At least one, and never fewer than the share.
    assert_eq!(risk(&[1e-9, 0.26]).unwrap(), [1.0, 1.5]);
    // Equal widths keep their order.
    assert_eq!(risk_at_coverage(&errors, &[5.0; 4], &[0.25, 0.5]).unwrap(), [4.0, 2.5]);
    // 0.07 · 100 is above 7 in floating point.
    let ascending: Vec<f64> = (0..100).map(f64::from).collect();
    assert_eq!(risk_at_coverage(&ascending, &ascending, &[0.07]).unwrap(), [3.0]);
    assert!(matches!(risk_at_coverage(&[f64::INFINITY], &[1.0], &[0.5]), Err(Error::Value { .. })));
    // An ideal uncertainty of |N(0, 1)| errors: over the half below the median m of |z|, E = 2 (φ(0) − φ(m))
    // / 0.5.
    let mut rng = Key::new(5).rng();
    let errors: Vec<f64> = (0..20_000).map(|_| normal(&mut rng).abs()).collect();
    let found = risk_at_coverage(&errors, &errors, &[0.5, 1.0]).unwrap();
    let expected = [4.0 * (pdf(0.0) - pdf(0.674_489_75)), 2.0 * pdf(0.0)];
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02), "{found:?}");
    assert!(
        matches!(risk(&[0.0]), Err(Error::Value { .. })) && matches!(risk(&[1.1]), Err(Error::Value { .. }))
    );
    assert!(matches!(risk_at_coverage(&errors, &[1.0], &[0.5]), Err(Error::Lengths { .. })));
    assert!(matches!(risk_at_coverage(&[1.0], &[f64::NAN], &[0.5]), Err(Error::Value { .. })));
    assert!(matches!(risk_at_coverage(&[], &[], &[0.5]), Err(Error::Empty { .. })));
}

#[test]
fn exact_transforms_have_no_calibration_error() {
    let pit: Vec<f64> = (0..200).map(|i| (f64::from(i) + 0.5) / 200.0).rev().collect();
    let levels: Vec<f64> = (1..20).map(|k| f64::from(k) / 20.0).collect();
    assert!(calibration_error(&pit, &levels).unwrap() < 1e-15);
    assert_eq!(PitHistogram::new(&pit, 8).unwrap().counts, [25; 8]);

    // All predictions too high: every transform is 0. The error is the mean level.
    assert_eq!(calibration_curve(&[0.0; 5], &[0.0, 0.5, 1.0]).unwrap(), [1.0, 1.0, 1.0]);
    assert!((calibration_error(&[0.0; 5], &[0.25, 0.5]).unwrap() - 0.625).abs() < 1e-15);
    // All too low: every transform is 1, and the error is the mean of the levels' distances from 0.
    assert!((calibration_error(&[1.0; 5], &[0.25, 0.5]).unwrap() - 0.375).abs() < 1e-15);
    assert_eq!(PitHistogram::new(&[0.0, 1.0, 0.6, 0.5], 2).unwrap().counts, [1, 3]);

    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(calibration_curve(&[0.5, bad], &[0.5]), Err(Error::Value { index: 1, .. })));
        assert!(matches!(calibration_error(&[0.5], &[bad]), Err(Error::Value { what: "levels", .. })));
        assert!(matches!(PitHistogram::new(&[bad], 2), Err(Error::Value { .. })));
    }
    assert!(matches!(calibration_error(&[], &[0.5]), Err(Error::Empty { .. })));
    assert!(matches!(calibration_error(&[0.5], &[]), Err(Error::Empty("levels"))));
    assert!(matches!(PitHistogram::new(&[0.5], 0), Err(Error::Empty("bins"))));
}

#[test]
fn the_shape_of_the_histogram_tells_what_is_wrong() {
    let mut rng = Key::new(3).rng();
    let y: Vec<f64> = (0..4000).map(|_| normal(&mut rng)).collect();
    let levels: Vec<f64> = (1..10).map(|k| f64::from(k) / 10.0).collect();
    // The error of each bar, relative to their mean.
    let heights = |pit: &[f64]| {
        let counts = PitHistogram::new(pit, 5).unwrap().counts;
        counts.into_iter().map(|count| count as f64 / 800.0).collect::<Vec<_>>()
    };
    let of = |sigma: f64| {
        let pit: Vec<f64> = y.iter().map(|y| phi(y / sigma).clamp(0.0, 1.0)).collect();
        (heights(&pit), calibration_error(&pit, &levels).unwrap())
    };
    let ((good, good_error), (narrow, narrow_error), (wide, wide_error)) = (of(1.0), of(0.5), of(2.0));
    assert!(
        good.iter().all(|height| (height - 1.0).abs() < 0.15) && good_error < 0.02,
        "{good:?} {good_error}"
    );
    assert!(narrow[0] > 1.5 && narrow[4] > 1.5 && narrow[2] < 0.7 && narrow_error > 0.05, "{narrow:?}");
    assert!(wide[0] < 0.5 && wide[4] < 0.5 && wide[2] > 1.5 && wide_error > 0.05, "{wide:?}");
}

#[test]
fn the_conformal_rank_is_that_of_finite_samples() {
    let scores: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let threshold = |n: usize, alpha| SplitConformal::calibrate(&scores[100 - n..], alpha).unwrap().threshold;
    // ⌈0.9 · 101⌉ = 91 and ⌈0.9 · 20⌉ = 18; ⌈0.9 · 99⌉ = 90, where ⌊0.9 · 98⌋ + 1 would be 89.
    assert_eq!((threshold(100, 0.1), threshold(19, 0.1), threshold(98, 0.1)), (91.0, 18.0, 90.0));
    // (1 − 0.7) · 10 is above 3 in floating point.
    assert_eq!(threshold(9, 0.7), 3.0);
    assert_eq!((threshold(9, 0.1), threshold(1, 0.5), threshold(5, 0.99)), (9.0, 1.0, 1.0));

    let refuse = |n: usize, alpha| SplitConformal::calibrate(&scores[..n], alpha).unwrap_err();
    assert!(matches!(refuse(8, 0.1), Error::TooFew(_, 8, 9)));
    assert!(matches!(refuse(18, 0.05), Error::TooFew(_, 18, 19)));
    // (1 − 1/3) / (1/3) is above 2 in floating point.
    assert!(matches!(refuse(1, 1.0 / 3.0), Error::TooFew(_, 1, 2)));
    // A score that equals the threshold is in the region, one that is larger is not.
    let conformal = SplitConformal { threshold: 2.0 };
    assert!(conformal.contains(2.0) && !conformal.contains(2.0 + 1e-12));
    assert!(matches!(refuse(0, 0.1), Error::Empty("scores")));
    for alpha in [0.0, 1.0, -0.1, f64::NAN] {
        assert!(matches!(refuse(9, alpha), Error::Value { what: "alpha", .. }));
    }
    assert!(matches!(
        SplitConformal::calibrate(&[0.0, f64::NAN], 0.5),
        Err(Error::Value { what: "scores", index: 1, .. })
    ));
    assert_eq!(SplitConformal::calibrate(&[f64::INFINITY; 3], 0.5).unwrap().threshold, f64::INFINITY);
}

/// Returns the mean over `trials` of the coverage of 100 new examples after calibration on 58, and its standard
/// error.
fn conformal_coverage(trials: u64, alpha: f64, draw: impl Fn(&mut Rng) -> f64) -> (f64, f64) {
    let coverages: Vec<f64> = (0..trials)
        .map(|trial| {
            let mut rng = Key::new(9).index(trial).rng();
            let scores: Vec<f64> = (0..58).map(|_| draw(&mut rng)).collect();
            let conformal = SplitConformal::calibrate(&scores, alpha).unwrap();
            (0..100).filter(|_| conformal.contains(draw(&mut rng))).count() as f64 / 100.0
        })
        .collect();
    let n = coverages.len() as f64;
    let mean = coverages.iter().sum::<f64>() / n;
    (mean, (coverages.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n / n).sqrt())
}

#[test]
fn conformal_regions_hold_y_as_often_as_promised_even_for_wrong_models() {
    // ⌈0.9 · 59⌉ = 54: 54/59 exactly, on average.
    let want = 54.0 / 59.0;
    // The interval is too narrow by far and off centre, and the noise depends on x.
    let intervals = conformal_coverage(600, 0.1, |rng| {
        let x = rng.random::<f64>();
        let y = x + (0.1 + x) * normal(rng);
        (x - 0.05 - y).max(y - x - 0.2)
    });
    // −log p of a mixture whose weights and widths are wrong; y itself is bimodal.
    let densities = conformal_coverage(600, 0.1, |rng| {
        let side = if rng.random::<f64>() < 0.8 { 1.0 } else { -1.0 };
        let y = side + 0.3 * normal(rng);
        -(0.5 * pdf((y - 1.0) / 0.2) + 0.5 * pdf((y + 1.0) / 0.2)).ln()
    });
    for (mean, error) in [intervals, densities] {
        assert!((mean - want).abs() < 4.0 * error && error < 0.004, "{mean} ± {error}, expected {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn crps_of_a_cdf_is_the_integral(
        steps in prop::collection::vec((0.05..1.0f64, 0.0..1.0f64), 1..8), start in 0.0..0.2f64, y in -4.0..8.0f64,
    ) {
        let total: f64 = steps.iter().map(|step| step.1).sum::<f64>() + start + 0.1;
        let (mut points, mut cdf) = (vec![-1.0], vec![start / total]);
        for (length, mass) in steps {
            points.push(points[points.len() - 1] + length);
            cdf.push(cdf[cdf.len() - 1] + mass / total);
        }
        let value = |t: f64| {
            let k = points.partition_point(|point| *point <= t);
            if k == 0 { return 0.0 }
            if k == points.len() { return 1.0 }
            cdf[k - 1] + (cdf[k] - cdf[k - 1]) * (t - points[k - 1]) / (points[k] - points[k - 1])
        };
        // The midpoint rule, with an error of at most a step at each jump.
        let (lo, hi, n) = (-5.0, 9.0, 100_000);
        let h = (hi - lo) / f64::from(n);
        let integrand = |i| {
            let t = lo + (f64::from(i) + 0.5) * h;
            (value(t) - f64::from(t >= y)).powi(2)
        };
        let want = (0..n).map(integrand).sum::<f64>() * h;
        prop_assert!((crps_of_cdf(&points, &cdf, y).unwrap() - want).abs() < 4.0 * h);
    }
}
