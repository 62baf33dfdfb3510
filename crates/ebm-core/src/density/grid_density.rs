//! Density of a scalar y on a grid: normalisation, moments, distribution function, samples and modes.

use rand::{Rng, RngCore};

use super::Grid;
use super::scores::is_score;
use crate::log_sum::LogSum;
use crate::{Error, Result, check};

/// Density `p(y | x) = exp f(x, y) / Z(x)` (Eq. 1) of one input x and a scalar y, evaluated on a [`Grid`] or at points that are
/// closer together where the mass is.
///
/// Between the points the density is the linear interpolant of `exp f / Z`; outside of them it is zero. The
/// trapezoid rule gives the interpolant the mass 1, and [`log_prob`](Self::log_prob), [`cdf`](Self::cdf),
/// [`quantile`](Self::quantile), the regions and the samples are exact for it. Expectations (mean, variance,
/// entropy) are trapezoid sums over the points; for a smooth density on a grid these are more accurate than the
/// expectations of the interpolant.
#[derive(Clone, Debug, PartialEq)]
pub struct GridDensity {
    /// The points, in ascending order.
    points: Vec<f64>,
    /// log p at the points.
    log_prob: Vec<f64>,
    /// p at the points.
    pub(super) prob: Vec<f64>,
    /// P(Y ≤ y) at the points, from exactly 0 to exactly 1.
    cdf: Vec<f64>,
    log_z: f64,
}

impl GridDensity {
    /// Normalises the density whose unnormalised logarithm is `f` at the grid's N points. It makes another
    /// distribution comparable, for instance a parametric baseline or the true density.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are N values; [`Error::NonFiniteScore`] and [`Error::NoMass`] as in
    /// [`Conditional::grid`](crate::Conditional::grid), with x = 0.
    pub fn from_scores(grid: &Grid, f: &[f64]) -> Result<Self> {
        if f.len() != grid.num_points() {
            let expected = format!("(N) = [{}]", grid.num_points());
            return Err(Error::Shape { what: "f on the grid", expected, actual: vec![f.len()] });
        }
        if let Some(index) = f.iter().position(|&f| !is_score(f)) {
            return Err(Error::NonFiniteScore { x: 0, y: vec![grid.point(index)], value: f[index] });
        }
        Self::normalise(grid.points(), f.to_vec(), 0)
    }

    /// Normalises the values `f` of input `x` at ascending `points`; no value may be NaN or +∞.
    pub(super) fn normalise(points: Vec<f64>, f: Vec<f64>, x: usize) -> Result<Self> {
        let terms: Vec<f64> =
            f.iter().zip(log_weights(&points)).map(|(f, log_weight)| f + log_weight).collect();
        let log_z = LogSum::of(&terms);
        if log_z == f64::NEG_INFINITY {
            return Err(Error::NoMass(x));
        }
        let log_prob: Vec<f64> = f.into_iter().map(|f| f - log_z).collect();
        let prob: Vec<f64> = log_prob.iter().map(|log_prob| log_prob.exp()).collect();
        let cdf = running_integral(&points, &prob);
        let mass = cdf[cdf.len() - 1]; // 1 up to rounding
        let cdf = cdf.into_iter().map(|value| value / mass).collect();
        Ok(Self { points, log_prob, prob, cdf, log_z })
    }

    /// Returns the N points, in ascending order.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// Returns the first and the last point.
    pub fn range(&self) -> [f64; 2] {
        [self.points[0], self.points[self.points.len() - 1]]
    }

    /// Returns log Z(x), in nats, by the trapezoid rule.
    pub fn log_z(&self) -> f64 {
        self.log_z
    }

    /// Returns the largest mass between two neighbouring points.
    pub(super) fn largest_cell(&self) -> f64 {
        self.cdf.windows(2).map(|ends| ends[1] - ends[0]).fold(0.0, f64::max)
    }

    /// Returns the density of input `x` from f at further points (y, f), too.
    pub(super) fn with(self, new: impl Iterator<Item = (f64, f64)>, x: usize) -> Result<Self> {
        let known = self.log_prob.iter().map(|log_prob| log_prob + self.log_z);
        let mut all: Vec<(f64, f64)> = self.points.iter().copied().zip(known).chain(new).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by_key(|(y, _)| *y);
        let (points, f) = all.into_iter().unzip();
        Self::normalise(points, f, x)
    }

    /// Returns `count` ascending points that are as close together as √p is high: the root also takes points to the tails, where
    /// p bends.
    pub(super) fn where_mass_is(&self, count: usize) -> Vec<f64> {
        let roots: Vec<f64> = self.prob.iter().map(|p| p.sqrt()).collect();
        let integral = running_integral(&self.points, &roots);
        let share = integral[integral.len() - 1] / count as f64;
        let point = |k: usize| {
            let value = (k as f64 + 0.5) * share;
            let cell = integral.partition_point(|&below| below <= value).clamp(1, integral.len() - 1) - 1;
            self.at(cell, (value - integral[cell]) / (integral[cell + 1] - integral[cell]))
        };
        (0..count).map(point).collect()
    }

    /// Returns log p at the N points.
    pub fn log_prob_values(&self) -> &[f64] {
        &self.log_prob
    }

    /// Returns log p(y | x), in nats per unit of y: −∞ where the density is zero and outside the grid, NaN for
    /// NaN. The computation uses logarithms and stays finite where p itself would underflow.
    pub fn log_prob(&self, y: f64) -> f64 {
        match self.locate(y) {
            Some((cell, t)) => {
                let (left, right) = ((1.0 - t).ln() + self.log_prob[cell], t.ln() + self.log_prob[cell + 1]);
                let max = left.max(right);
                if max == f64::NEG_INFINITY { max } else { max + (left.min(right) - max).exp().ln_1p() }
            }
            None if y.is_nan() => y,
            None => f64::NEG_INFINITY,
        }
    }

    /// Returns E[g(Y)]. Points where the density is zero do not count, even if g is not finite there.
    pub fn expectation(&self, g: impl Fn(f64) -> f64) -> f64 {
        self.sum(|index| g(self.points[index]))
    }

    /// Returns the trapezoid sum of p g(i) over the points with p > 0.
    fn sum(&self, g: impl Fn(usize) -> f64) -> f64 {
        let terms = self.prob.iter().enumerate().filter(|(_, p)| **p > 0.0);
        terms.map(|(index, p)| trapezoid_weight(&self.points, index) * p * g(index)).sum()
    }

    /// Returns the mean E\[Y\].
    pub fn mean(&self) -> f64 {
        self.expectation(|y| y)
    }

    /// Returns the variance E\[(Y − E\[Y\])²\].
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        self.expectation(|y| (y - mean).powi(2))
    }

    /// Returns the differential entropy −E\[log p(Y)\], in nats.
    pub fn entropy(&self) -> f64 {
        -self.sum(|index| self.log_prob[index])
    }

    /// Returns P(Y ≤ y | x), which is piecewise quadratic in y; NaN for NaN.
    pub fn cdf(&self, y: f64) -> f64 {
        match self.locate(y) {
            Some((cell, t)) => {
                let (p, q) = self.ends(cell);
                let inside = self.width(cell) * t * (p + 0.5 * (q - p) * t);
                (self.cdf[cell] + inside).min(self.cdf[cell + 1])
            }
            None if y < self.points[0] => 0.0,
            None if y.is_nan() => y,
            None => 1.0,
        }
    }

    /// Returns P(Y ≤ y | x) at the N points.
    pub fn cdf_values(&self) -> &[f64] {
        &self.cdf
    }

    /// Returns the smallest y with P(Y ≤ y | x) ≥ `probability`; for 0, the lower end of the support.
    ///
    /// # Errors
    /// [`Error::Setting`] unless `probability` is in \[0, 1\].
    pub fn quantile(&self, probability: f64) -> Result<f64> {
        let ok = (0.0..=1.0).contains(&probability);
        check::setting("probability", ok, probability, "in [0, 1]")?;
        Ok(self.inverse(probability))
    }

    /// Draws `count` independent samples of y by the inverse of the distribution function.
    pub fn sample(&self, count: usize, rng: &mut dyn RngCore) -> Vec<f64> {
        (0..count).map(|_| self.inverse(rng.random())).collect()
    }

    fn inverse(&self, probability: f64) -> f64 {
        let below = |&value: &f64| if probability > 0.0 { value < probability } else { value <= 0.0 };
        let cell = self.cdf.partition_point(below).clamp(1, self.cdf.len() - 1) - 1;
        let (p, q) = self.ends(cell);
        // Solves p t + (q − p) t² / 2 = rest in the form without cancellation.
        let rest = (probability - self.cdf[cell]).max(0.0) / self.width(cell);
        let root = (p * p + 2.0 * (q - p) * rest).max(0.0).sqrt();
        let t = if rest > 0.0 { (2.0 * rest / (p + root)).min(1.0) } else { 0.0 };
        self.at(cell, t)
    }

    /// Returns the number of cells, between neighbouring points.
    pub(super) fn cells(&self) -> usize {
        self.points.len() - 1
    }

    /// Returns the width of a cell.
    pub(super) fn width(&self, cell: usize) -> f64 {
        self.points[cell + 1] - self.points[cell]
    }

    /// Returns the y at a share `t` of a cell's width from its first end.
    pub(super) fn at(&self, cell: usize, t: f64) -> f64 {
        (self.points[cell] + t * self.width(cell)).min(self.points[cell + 1])
    }

    /// Returns the cell that contains `y`, and the position of y in it from 0 to 1. Returns `None` outside the points and for
    /// NaN.
    fn locate(&self, y: f64) -> Option<(usize, f64)> {
        let [low, high] = self.range();
        if !(low <= y && y <= high) {
            return None;
        }
        let cell = self.points.partition_point(|&point| point <= y).clamp(1, self.cells()) - 1;
        Some((cell, ((y - self.points[cell]) / self.width(cell)).clamp(0.0, 1.0)))
    }

    /// Returns p at both ends of a cell.
    pub(super) fn ends(&self, cell: usize) -> (f64, f64) {
        (self.prob[cell], self.prob[cell + 1])
    }

    /// Returns the y of the highest density, to the accuracy of the grid, or the middle of a plateau.
    pub fn mode(&self) -> f64 {
        self.modes(0.0).first().copied().unwrap_or(f64::NAN)
    }

    /// Returns the local modes by falling density, to the accuracy of the grid. A plateau counts as one mode at
    /// its middle; an end of the grid counts if the density falls away from it.
    ///
    /// `prominence`, in nats, removes ripples: a mode stays if log p falls by at least this amount on every way
    /// from the mode to a higher point. 0 keeps all modes; f32 causes ripples of about 1e-7 of |f|.
    pub fn modes(&self, prominence: f64) -> Vec<f64> {
        let mut peaks = self.peaks();
        peaks.retain(|peak| self.prominence(peak) >= prominence);
        peaks.sort_by(|a, b| b.height.total_cmp(&a.height));
        peaks.iter().map(|peak| 0.5 * (self.points[peak.first] + self.points[peak.last])).collect()
    }

    fn peaks(&self) -> Vec<Peak> {
        let mut peaks = Vec::new();
        let mut first = 0;
        for run in self.log_prob.chunk_by(|a, b| a == b) {
            let (height, next) = (run[0], first + run.len());
            let lower = |neighbour: Option<&f64>| neighbour.is_none_or(|&value| value < height);
            let left = first.checked_sub(1).and_then(|index| self.log_prob.get(index));
            if height > f64::NEG_INFINITY && lower(left) && lower(self.log_prob.get(next)) {
                peaks.push(Peak { first, last: next - 1, height });
            }
            first = next;
        }
        peaks
    }

    /// Returns the least fall of log p on the way from a peak to a higher point; infinite for the highest peak.
    fn prominence(&self, peak: &Peak) -> f64 {
        let (left, right) = (&self.log_prob[..peak.first], &self.log_prob[peak.last + 1..]);
        peak.height - saddle(left.iter().rev(), peak.height).max(saddle(right.iter(), peak.height))
    }
}

/// Returns the weight of a point in the trapezoid rule.
fn trapezoid_weight(points: &[f64], index: usize) -> f64 {
    0.5 * (points[(index + 1).min(points.len() - 1)] - points[index.saturating_sub(1)])
}

/// Returns the logarithms of the points' weights in the trapezoid rule.
pub(super) fn log_weights(points: &[f64]) -> Vec<f64> {
    (0..points.len()).map(|index| trapezoid_weight(points, index).ln()).collect()
}

/// Returns the integral of the linear interpolant of `values`, from the first point to each.
fn running_integral(points: &[f64], values: &[f64]) -> Vec<f64> {
    let cells = points.windows(2).zip(values.windows(2));
    let mut sum = 0.0;
    let sums = cells.map(|(ends, values)| {
        sum += 0.5 * (ends[1] - ends[0]) * (values[0] + values[1]);
        sum
    });
    std::iter::once(0.0).chain(sums).collect()
}

/// Maximal run of equal values that is higher than its neighbours.
struct Peak {
    first: usize,
    last: usize,
    height: f64,
}

/// Returns the lowest value before the first one that exceeds `height`, or −∞ if none does.
fn saddle<'a>(values: impl Iterator<Item = &'a f64>, height: f64) -> f64 {
    let mut lowest = f64::INFINITY;
    for &value in values {
        if value > height {
            return lowest;
        }
        lowest = lowest.min(value);
    }
    f64::NEG_INFINITY
}
