//! Percentages of frames over thresholds.

/// Largest threshold of the precision curve, in pixels; the thresholds are the integers from 0.
pub(super) const MAX_CENTER_ERROR: usize = 50;

/// Centre error in pixels at which precision is read off.
pub(super) const PRECISION_AT: usize = 20;

/// Largest threshold of the normalised precision curve.
pub(super) const MAX_NORMALIZED_ERROR: f64 = 0.5;
/// Number of thresholds of the normalised precision curve.
pub(super) const NORMALIZED_THRESHOLDS: usize = 51;

/// Normalised error at which normalised precision is read off.
pub(super) const NORMALIZED_PRECISION_AT: f64 = 0.2;

/// Returns `count` evenly spaced thresholds from 0 to `last`, at least these two.
pub(super) fn thresholds(count: usize, last: f64) -> impl Iterator<Item = f64> {
    let count = count.max(2);
    let steps = (count - 1) as f64;
    (0..count).map(move |i| last * i as f64 / steps)
}

/// Returns the percentage of `values` for which `hit` holds.
pub(super) fn percentage(values: &[f64], hit: impl Fn(f64) -> bool) -> f64 {
    100.0 * values.iter().filter(|&&value| hit(value)).count() as f64 / values.len() as f64
}

/// Returns the percentage of overlaps above each of `count` thresholds from 0 to 1.
pub(super) fn success(overlaps: &[f64], count: usize) -> Vec<f64> {
    thresholds(count, 1.0).map(|threshold| percentage(overlaps, |overlap| overlap > threshold)).collect()
}

/// Returns the percentage of errors not above each of `count` thresholds from 0 to `last`.
pub(super) fn precision(errors: &[f64], count: usize, last: f64) -> Vec<f64> {
    thresholds(count, last).map(|threshold| percentage(errors, |error| error <= threshold)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_curve_in_closed_form() {
        // 52 of 105 are above: 20 + 16 + 10 + 6 thresholds.
        let curve = success(&[1., 0.8, 0.5, 0.3, 0.], 21);
        assert!((curve.iter().sum::<f64>() / 21.0 - 5200.0 / 105.0).abs() < 1e-12);
        assert_eq!((curve[10], curve[15]), (40.0, 40.0));
    }

    #[test]
    fn thresholds_that_figures_are_read_at_are_exact() {
        let at: Vec<f64> = thresholds(21, 1.0).collect();
        assert_eq!((at[10], at[15], at[20]), (0.5, 0.75, 1.0));
        assert_eq!(
            thresholds(NORMALIZED_THRESHOLDS, MAX_NORMALIZED_ERROR).nth(20),
            Some(NORMALIZED_PRECISION_AT)
        );
        assert_eq!(thresholds(51, MAX_CENTER_ERROR as f64).nth(PRECISION_AT), Some(20.0));
    }

    proptest! {
        #[test]
        fn curves_are_monotone(values in proptest::collection::vec(0.0..1.2f64, 1..40)) {
            prop_assert!(success(&values, 21).is_sorted_by(|a, b| a >= b));
            prop_assert!(precision(&values, 51, MAX_NORMALIZED_ERROR).is_sorted());
        }
    }
}
