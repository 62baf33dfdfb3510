//! How narrow the regions are.

use super::check;
use crate::error::Result;

/// The mean total length of regions of one level, in the units of y: of two predictions with the same
/// coverage the one with the smaller width says more. Infinite if one of the regions is.
///
/// # Errors
/// [`Error::Empty`](crate::Error::Empty), and [`Error::Value`](crate::Error::Value) for a region that is not
/// made of disjoint intervals in ascending order.
pub fn mean_width<R: AsRef<[[f64; 2]]>>(regions: &[R]) -> Result<f64> {
    check::regions(regions)?;
    let width = |region: &R| region.as_ref().iter().map(|[from, to]| to - from).sum::<f64>();
    Ok(regions.iter().map(width).sum::<f64>() / regions.len() as f64)
}
