//! How often y lies in its region.

use super::check;
use crate::error::Result;

/// The fraction of the observed `y` that lie in their own region; the ends belong to it, and an empty region
/// holds nothing.
///
/// # Errors
/// [`Error::Empty`](crate::Error::Empty), [`Error::Lengths`](crate::Error::Lengths) unless there is one
/// region for each y, [`Error::Value`](crate::Error::Value) for a y that is not finite and for a region that
/// is not made of disjoint intervals in ascending order.
pub fn coverage<R: AsRef<[[f64; 2]]>>(regions: &[R], y: &[f64]) -> Result<f64> {
    check::values("observed y", y, "finite", f64::is_finite)?;
    check::lengths("regions", regions.len(), y.len())?;
    check::regions(regions)?;
    let holds = |region: &R, y: f64| region.as_ref().iter().any(|&[from, to]| from <= y && y <= to);
    let held = regions.iter().zip(y).filter(|(region, y)| holds(region, **y)).count();
    Ok(held as f64 / y.len() as f64)
}
