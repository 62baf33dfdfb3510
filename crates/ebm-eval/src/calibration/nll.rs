//! The negative log-likelihood.

use super::check;
use crate::error::Result;

/// The mean of `−log p(y_i | x_i)`, in nats, from the log densities; +∞ if the density is zero at one of the
/// y.
///
/// # Errors
/// [`Error::Empty`](crate::Error::Empty) or, for NaN and +∞, [`Error::Value`](crate::Error::Value).
pub fn nll(log_probs: &[f64]) -> Result<f64> {
    check::values("log densities", log_probs, "a number or -inf", |value| value < f64::INFINITY)?;
    Ok(-log_probs.iter().sum::<f64>() / log_probs.len() as f64)
}
