//! The continuous ranked probability score, ∫ (F(t) − 1{t ≥ y})² dt, in the units of y; lower is better.

use super::check;
use crate::error::{Error, Result};

/// The score of the distribution function F that is linear between the values `cdf` at `points`, 0 below the
/// first and 1 above the last, for the observed `y`. Exact.
///
/// # Errors
/// [`Error::Empty`], [`Error::Lengths`], and [`Error::Value`] unless the points are finite and ascend
/// strictly, the values of F ascend within \[0, 1\], and y is finite.
pub fn crps_of_cdf(points: &[f64], cdf: &[f64], y: f64) -> Result<f64> {
    check::values("grid points", points, "finite", f64::is_finite)?;
    check::lengths("values of the distribution function", cdf.len(), points.len())?;
    let within = |value: f64| (0.0..=1.0).contains(&value);
    check::values("values of the distribution function", cdf, "in [0, 1]", within)?;
    ascending("grid points", points, |a, b| a < b)?;
    ascending("values of the distribution function", cdf, |a, b| a <= b)?;
    check::value("the observed y", y, "finite", y.is_finite())?;

    let (first, last) = (points[0], points[points.len() - 1]);
    // Beyond the grid the integrand is 1 up to y.
    let outside = (first - y).max(y - last).max(0.0);
    let inside = points.windows(2).zip(cdf.windows(2)).map(|(t, f)| {
        let at = y.clamp(t[0], t[1]);
        let middle = f[0] + (f[1] - f[0]) * (at - t[0]) / (t[1] - t[0]);
        square(at - t[0], f[0], middle) + square(t[1] - at, 1.0 - middle, 1.0 - f[1])
    });
    Ok(outside + inside.sum::<f64>())
}

/// ∫ g² over `length`, for g that goes linearly from `a` to `b`.
fn square(length: f64, a: f64, b: f64) -> f64 {
    length * (a * a + a * b + b * b) / 3.0
}

fn ascending(what: &'static str, values: &[f64], ok: impl Fn(f64, f64) -> bool) -> Result<()> {
    match values.windows(2).position(|pair| !ok(pair[0], pair[1])) {
        Some(index) => Err(Error::Value {
            what,
            index: index + 1,
            value: values[index + 1],
            expected: "in ascending order",
        }),
        None => Ok(()),
    }
}
