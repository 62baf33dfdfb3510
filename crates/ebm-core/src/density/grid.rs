//! Equally spaced points of a scalar y.

use ebm_base::settings;
use serde::{Deserialize, Serialize};

use crate::{Result, check};

/// Grid of N ≥ 2 equally spaced points from `lo` to `hi`, both included, in the units of y.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Grid {
    lo: f64,
    hi: f64,
    num_points: usize,
}

settings! {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Unchecked {
        lo: f64 where -1e6..=1e6,
        hi: f64 where -1e6..=1e6,
        num_points: usize where 2..=10_000,
    }
}

settings!(Grid as Unchecked);

impl TryFrom<Unchecked> for Grid {
    type Error = crate::Error;

    fn try_from(unchecked: Unchecked) -> Result<Self> {
        Self::new(unchecked.lo, unchecked.hi, unchecked.num_points)
    }
}

impl Grid {
    /// Creates the grid of `num_points` points from `lo` to `hi`.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) unless `lo < hi`, both are finite, and N ≥ 2.
    pub fn new(lo: f64, hi: f64, num_points: usize) -> Result<Self> {
        check::setting("num_points", num_points >= 2, num_points, "at least 2")?;
        // The width must be finite too, and neighbouring points must differ.
        let grid = Self { lo, hi, num_points };
        let ok = lo < hi && (hi - lo).is_finite() && lo + grid.step() > lo && hi - grid.step() < hi;
        check::setting(
            "[lo, hi]",
            ok,
            format!("[{lo}, {hi}]"),
            "finite, with lo < hi and distinct grid points",
        )?;
        Ok(grid)
    }

    /// Returns the first point.
    pub fn lo(&self) -> f64 {
        self.lo
    }

    /// Returns the last point.
    pub fn hi(&self) -> f64 {
        self.hi
    }

    /// Returns N, the number of points.
    pub fn num_points(&self) -> usize {
        self.num_points
    }

    /// Returns the distance h between neighbouring points.
    pub fn step(&self) -> f64 {
        (self.hi - self.lo) / (self.num_points - 1) as f64
    }

    /// Returns point `index`, counted from 0. An index beyond the last point continues the spacing.
    pub fn point(&self, index: usize) -> f64 {
        if index + 1 == self.num_points { self.hi } else { self.lo + index as f64 * self.step() }
    }

    /// Returns all N points in ascending order.
    pub fn points(&self) -> Vec<f64> {
        (0..self.num_points).map(|index| self.point(index)).collect()
    }
}
