//! p(y | x) of a scalar y on a grid: normalisation and moments.

use super::grid_error::log_trapezoid;
use super::scores::is_score;
use super::{Grid, GridError};
use crate::{Error, Result};

/// `p(y | x) = exp f(x, y) / Z(x)` (Eq. 1) of one input x and a scalar y, known on a [`Grid`].
///
/// Between its points the density is the linear interpolant of `exp f / Z`, beyond them it is zero. The
/// trapezoid rule gives that interpolant the mass 1, and [`log_prob`](Self::log_prob), [`cdf`](Self::cdf),
/// [`quantile`](Self::quantile), the regions and the samples are exact for it. Expectations (mean, variance,
/// entropy) are trapezoid sums over the points, which for a smooth density are closer to the truth than the
/// interpolant is.
#[derive(Clone, Debug, PartialEq)]
pub struct GridDensity {
    pub(super) grid: Grid,
    /// log p at the points.
    pub(super) log_prob: Vec<f64>,
    /// p at the points.
    pub(super) prob: Vec<f64>,
    /// P(Y ≤ y) at the points, from exactly 0 to exactly 1.
    pub(super) cdf: Vec<f64>,
    log_z: f64,
    error: GridError,
}

impl GridDensity {
    /// The density whose unnormalised logarithm is `f` at the grid's N points; any other distribution on the
    /// same footing, for instance a parametric baseline or the truth.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are N values, [`Error::NonFiniteScore`] and [`Error::NoMass`] as
    /// [`Conditional::grid`](crate::Conditional::grid), with x = 0.
    pub fn from_scores(grid: &Grid, f: &[f64]) -> Result<Self> {
        if f.len() != grid.num_points() {
            let expected = format!("(N) = [{}]", grid.num_points());
            return Err(Error::Shape { what: "f on the grid", expected, actual: vec![f.len()] });
        }
        if let Some(index) = f.iter().position(|&f| !is_score(f)) {
            return Err(Error::NonFiniteScore { x: 0, y: vec![grid.point(index)], value: f[index] });
        }
        Self::normalise(*grid, f.to_vec(), 0)
    }

    /// Normalises the values `f` of input `x`, none of them NaN or +∞.
    pub(super) fn normalise(grid: Grid, f: Vec<f64>, x: usize) -> Result<Self> {
        let log_z = log_trapezoid(&grid, &f, 1);
        if log_z == f64::NEG_INFINITY {
            return Err(Error::NoMass { x });
        }
        let error = GridError::estimate(&grid, &f, log_z)?;
        let log_prob: Vec<f64> = f.into_iter().map(|f| f - log_z).collect();
        let prob: Vec<f64> = log_prob.iter().map(|log_prob| log_prob.exp()).collect();
        let mut cdf = Vec::with_capacity(prob.len());
        let mut mass = 0.0;
        cdf.push(mass);
        for cell in prob.windows(2) {
            mass += 0.5 * grid.step() * (cell[0] + cell[1]);
            cdf.push(mass);
        }
        for value in &mut cdf {
            *value /= mass; // 1 up to rounding
        }
        Ok(Self { grid, log_prob, prob, cdf, log_z, error })
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// log Z(x), in nats, by the trapezoid rule.
    pub fn log_z(&self) -> f64 {
        self.log_z
    }

    /// How far [`log_z`](Self::log_z) can be trusted.
    pub fn error(&self) -> &GridError {
        &self.error
    }

    /// log p at the N points.
    pub fn log_prob_values(&self) -> &[f64] {
        &self.log_prob
    }

    /// log p(y | x), in nats per unit of y; −∞ where there is no density and outside the grid, NaN for NaN.
    /// It is computed from logarithms, so that it stays finite where p itself is below the smallest number.
    pub fn log_prob(&self, y: f64) -> f64 {
        match self.grid.locate(y) {
            Some((cell, t)) => {
                let (left, right) = ((1.0 - t).ln() + self.log_prob[cell], t.ln() + self.log_prob[cell + 1]);
                let max = left.max(right);
                if max == f64::NEG_INFINITY { max } else { max + (left.min(right) - max).exp().ln_1p() }
            }
            None if y.is_nan() => y,
            None => f64::NEG_INFINITY,
        }
    }

    /// E[g(Y)]; points without density do not count, whatever g is there.
    pub fn expectation(&self, g: impl Fn(f64) -> f64) -> f64 {
        self.grid.trapezoid(|index| match self.prob[index] {
            0.0 => 0.0,
            p => p * g(self.grid.point(index)),
        })
    }

    /// E\[Y\].
    pub fn mean(&self) -> f64 {
        self.expectation(|y| y)
    }

    /// E\[(Y − E\[Y\])²\].
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        self.expectation(|y| (y - mean).powi(2))
    }

    /// The differential entropy −E\[log p(Y)\], in nats.
    pub fn entropy(&self) -> f64 {
        -self.grid.trapezoid(|index| match self.prob[index] {
            0.0 => 0.0,
            p => p * self.log_prob[index],
        })
    }
}
