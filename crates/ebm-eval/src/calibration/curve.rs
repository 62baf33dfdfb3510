//! Observed against nominal frequencies.

use super::check;
use crate::error::Result;

/// For each of the `levels`, the fraction of `pit` values that are not above it. `pit` has F(y_i | x_i), the
/// predicted distribution functions at the observed y, for quantiles; or the masses of the smallest
/// highest-density regions that hold the observed y, for regions. The predictions are calibrated if each
/// fraction is its level.
///
/// # Errors
/// [`Error::Empty`](crate::Error::Empty), and [`Error::Value`](crate::Error::Value) for numbers outside \[0,
/// 1\].
pub fn calibration_curve(pit: &[f64], levels: &[f64]) -> Result<Vec<f64>> {
    check::pit(pit)?;
    check::values("levels", levels, "in [0, 1]", |level| (0.0..=1.0).contains(&level))?;
    let mut sorted = pit.to_vec();
    sorted.sort_by(f64::total_cmp);
    let observed = |level: &f64| sorted.partition_point(|value| value <= level) as f64 / pit.len() as f64;
    Ok(levels.iter().map(observed).collect())
}

/// The expected calibration error: the mean over the `levels` of |observed − nominal|, from 0 to 1. Perfect
/// predictions of n examples still have one of the order `1/√n`.
///
/// # Errors
/// Those of [`calibration_curve`].
pub fn calibration_error(pit: &[f64], levels: &[f64]) -> Result<f64> {
    let observed = calibration_curve(pit, levels)?;
    let differences = observed.iter().zip(levels).map(|(observed, level)| (observed - level).abs());
    Ok(differences.sum::<f64>() / levels.len() as f64)
}
