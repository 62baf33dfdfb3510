//! The distribution function of a density on a grid, its inverse, and samples.

use rand::{Rng, RngCore};

use super::GridDensity;
use crate::{Result, check};

impl GridDensity {
    /// P(Y ≤ y | x), piecewise quadratic; NaN for NaN.
    pub fn cdf(&self, y: f64) -> f64 {
        match self.grid.locate(y) {
            Some((cell, t)) => {
                let (p, q) = self.ends(cell);
                let inside = self.grid.step() * t * (p + 0.5 * (q - p) * t);
                (self.cdf[cell] + inside).min(self.cdf[cell + 1])
            }
            None if y < self.grid.lo() => 0.0,
            None if y.is_nan() => y,
            None => 1.0,
        }
    }

    /// P(Y ≤ y | x) at the N points.
    pub fn cdf_values(&self) -> &[f64] {
        &self.cdf
    }

    /// The smallest y with P(Y ≤ y | x) ≥ `probability`; for 0 the lower end of the support.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) unless `probability` is in \[0, 1\].
    pub fn quantile(&self, probability: f64) -> Result<f64> {
        let ok = (0.0..=1.0).contains(&probability);
        check::setting("probability", ok, probability, "in [0, 1]")?;
        Ok(self.inverse(probability))
    }

    /// `count` independent draws of y, by the inverse of the distribution function.
    pub fn sample(&self, count: usize, rng: &mut dyn RngCore) -> Vec<f64> {
        (0..count).map(|_| self.inverse(rng.random())).collect()
    }

    fn inverse(&self, probability: f64) -> f64 {
        let below = |&value: &f64| if probability > 0.0 { value < probability } else { value <= 0.0 };
        let cell = self.cdf.partition_point(below).clamp(1, self.cdf.len() - 1) - 1;
        let (p, q) = self.ends(cell);
        // p t + (q − p) t² / 2 = rest, in the form that does not cancel.
        let rest = (probability - self.cdf[cell]).max(0.0) / self.grid.step();
        let root = (p * p + 2.0 * (q - p) * rest).max(0.0).sqrt();
        let t = if rest > 0.0 { (2.0 * rest / (p + root)).min(1.0) } else { 0.0 };
        self.grid.at(cell as f64 + t).min(self.grid.hi())
    }

    /// p at both ends of a cell.
    pub(super) fn ends(&self, cell: usize) -> (f64, f64) {
        (self.prob[cell], self.prob[cell + 1])
    }
}
