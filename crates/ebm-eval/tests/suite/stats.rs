//! Comparison of the statistics with closed forms.

use ebm_eval::{Error, Spread, Summary};
use proptest::prelude::*;

#[test]
fn summary_of_known_values() {
    // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32, so the sample deviation is √(32/7).
    let summary = Summary::new(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!((summary.count, summary.mean), (8, 5.0));
    assert!((summary.standard_deviation.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-15);
    assert!((summary.standard_error().unwrap() - (32.0f64 / 56.0).sqrt()).abs() < 1e-15);
    assert_eq!(summary.cell(Spread::StandardDeviation, 2), "5.00 ± 2.14");
    assert_eq!(summary.cell(Spread::StandardError, 3), "5.000 ± 0.756");
}

#[test]
fn one_seed_has_no_spread() {
    let summary = Summary::new(&[38.25]).unwrap();
    assert_eq!((summary.standard_deviation, summary.standard_error()), (None, None));
    assert_eq!(summary.cell(Spread::StandardError, 1), "38.2");
}

#[test]
fn empty_and_non_finite_values_are_refused() {
    assert!(matches!(Summary::new(&[]), Err(Error::Empty { .. })));
    assert!(matches!(Summary::new(&[1.0, f64::NAN]), Err(Error::Value { index: 1, .. })));
    assert!(matches!(Summary::new(&[f64::INFINITY]), Err(Error::Value { index: 0, .. })));
}

#[test]
fn a_small_spread_beside_a_large_mean_survives() {
    let summary = Summary::new(&[1e9, 1e9 + 1.0, 1e9 + 2.0]).unwrap();
    assert_eq!(summary.standard_deviation, Some(1.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn shift_moves_the_mean_and_scale_the_spread(
        values in prop::collection::vec(-100.0..100.0f64, 2..10), shift in -50.0..50.0f64, scale in 0.1..5.0f64,
    ) {
        let before = Summary::new(&values).unwrap();
        let moved: Vec<f64> = values.iter().map(|value| value * scale + shift).collect();
        let after = Summary::new(&moved).unwrap();
        prop_assert!((after.mean - (before.mean * scale + shift)).abs() < 1e-9);
        let (before, after) = (before.standard_deviation.unwrap(), after.standard_deviation.unwrap());
        prop_assert!((after - before * scale).abs() < 1e-9);
    }
}
