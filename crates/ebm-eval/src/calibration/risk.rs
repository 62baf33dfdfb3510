//! Errors of those predictions alone that are certain enough.

use super::check;
use crate::error::Result;

/// The risk-coverage curve: for each of the `fractions`, the mean of the `errors` over the ⌈fraction · n⌉
/// examples with the smallest `uncertainty`, such as the width of a predicted region. Of equal uncertainties
/// the earlier comes first. Where the uncertainty tells nothing, all are the mean error.
///
/// # Errors
/// [`Error::Empty`](crate::Error::Empty), [`Error::Lengths`](crate::Error::Lengths), and
/// [`Error::Value`](crate::Error::Value) for an error or an uncertainty that is no number, or a fraction
/// outside (0, 1\].
pub fn risk_at_coverage(errors: &[f64], uncertainty: &[f64], fractions: &[f64]) -> Result<Vec<f64>> {
    check::values("errors", errors, "finite", f64::is_finite)?;
    check::lengths("uncertainties", uncertainty.len(), errors.len())?;
    check::values("uncertainties", uncertainty, "a number", |value| !value.is_nan())?;
    check::values("fractions", fractions, "in (0, 1]", |fraction| fraction > 0.0 && fraction <= 1.0)?;
    let mut order: Vec<usize> = (0..errors.len()).collect();
    order.sort_by(|&a, &b| uncertainty[a].total_cmp(&uncertainty[b]));
    let risk = |fraction: &f64| {
        // A product that is a whole number must not become the next one by rounding.
        let count = ((fraction * errors.len() as f64 - 1e-9).ceil() as usize).max(1);
        order.iter().take(count).map(|&index| errors[index]).sum::<f64>() / count as f64
    };
    Ok(fractions.iter().map(risk).collect())
}
