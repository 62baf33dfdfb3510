//! Weighted samples in any coordinates, and the densities that a kernel makes of them.

use super::{Grid, GridDensity, ImportanceDensity};
use crate::{Error, Result};

/// Standard deviations of a kernel that are drawn.
const REACH: f64 = 3.0;
/// The mass beyond each end of the samples that the grids leave out.
const TAIL: f64 = 0.0005;
/// Points of a marginal density.
const POINTS: usize = 512;

/// Samples of p(y | x) with their weights, as N numbers that follow from y: the edges of a box, say, where f
/// has its centre and the logarithms of its sides.
///
/// They give every marginal by leaving coordinates out; a kernel makes a density of the weighted points. The
/// widths of the kernels follow Silverman's rule for the effective sample size, which broadens what it shows
/// by a few per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedSamples<const N: usize> {
    values: Vec<[f64; N]>,
    /// Their sum is 1.
    weights: Vec<f64>,
    effective_sample_size: f64,
}

impl<const N: usize> WeightedSamples<N> {
    /// The samples of a density, each as the numbers in the row of `values` of its place.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is a row for each sample.
    pub fn new(density: &ImportanceDensity, values: Vec<[f64; N]>) -> Result<Self> {
        let weights = density.weights().to_vec();
        if values.len() != weights.len() {
            let (expected, actual) = (format!("({}, {N})", weights.len()), vec![values.len(), N]);
            return Err(Error::Shape { what: "the values of weighted samples", expected, actual });
        }
        Ok(Self { values, weights, effective_sample_size: density.effective_sample_size() })
    }

    /// The same samples as other numbers.
    #[must_use]
    pub fn map<const M: usize>(self, of: impl FnMut([f64; N]) -> [f64; M]) -> WeightedSamples<M> {
        let Self { values, weights, effective_sample_size } = self;
        WeightedSamples { values: values.into_iter().map(of).collect(), weights, effective_sample_size }
    }

    /// From 1 to M: as many draws from p itself would be about as good.
    pub fn effective_sample_size(&self) -> f64 {
        self.effective_sample_size
    }

    /// The samples and their weights, whose sum is 1.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64; N], f64)> {
        self.values.iter().zip(self.weights.iter().copied())
    }

    /// E[g], self-normalised.
    pub fn expectation(&self, g: impl Fn(&[f64; N]) -> f64) -> f64 {
        self.iter().filter(|(_, weight)| *weight > 0.0).map(|(values, weight)| weight * g(values)).sum()
    }

    /// The marginal density of the number at `place`. Its
    /// [`highest_density_region`](GridDensity::highest_density_region) has several intervals where it may lie
    /// in several places.
    ///
    /// # Errors
    /// [`Error::NoSpread`] where all samples agree.
    pub fn marginal(&self, place: usize) -> Result<GridDensity> {
        let axis = self.axis(place, 5.0)?;
        let grid = Grid::new(axis.low, axis.high, POINTS)?;
        let mut p = vec![0.0; POINTS];
        for (values, weight) in self.iter() {
            axis.spread(values[place], POINTS, |point, kernel| p[point] += weight * kernel);
        }
        let log_p: Vec<f64> = p.iter().map(|p| p.ln()).collect();
        GridDensity::from_scores(&grid, &log_p)
    }

    /// The density of the numbers at two `places` together, over `size` points along each side of what the
    /// samples reach.
    ///
    /// # Errors
    /// [`Error::NoSpread`] where all samples agree.
    pub fn joint(&self, places: [usize; 2], size: usize) -> Result<DensityMap> {
        let size = size.max(2);
        let [x, y] = [self.axis(places[0], 6.0)?, self.axis(places[1], 6.0)?];
        let mut p = vec![0.0; size * size];
        let mut columns = Vec::new();
        for (values, weight) in self.iter().filter(|(_, weight)| *weight > 0.0) {
            columns.clear();
            x.spread(values[places[0]], size, |column, kernel| columns.push((column, kernel)));
            y.spread(values[places[1]], size, |row, kernel| {
                for (column, along) in &columns {
                    p[row * size + column] += weight * kernel * along;
                }
            });
        }
        let sum: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= sum);
        Ok(DensityMap { first: [x.low, y.low], step: [x.step(size), y.step(size)], size, p })
    }

    /// Where the density of one number is drawn, and its kernel's width, which shrinks with the `root`-th
    /// root of the effective sample size: 4 more than the number of coordinates that are drawn together.
    fn axis(&self, place: usize, root: f64) -> Result<Axis> {
        let mut order: Vec<(f64, f64)> =
            self.iter().map(|(values, weight)| (values[place], weight)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |probability: f64| {
            let mut sum = 0.0;
            let beyond = order.iter().find(|(_, weight)| {
                sum += weight;
                sum >= probability
            });
            beyond.or(order.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        let mean: f64 = order.iter().map(|(value, weight)| value * weight).sum();
        let deviation =
            order.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum::<f64>().sqrt();
        // Of a normal distribution the quartiles are 1.349 standard deviations apart; of one with long tails,
        // less.
        let spread = deviation.min((quantile(0.75) - quantile(0.25)) / 1.349);
        let spread = if spread > 0.0 { spread } else { deviation };
        let width = 0.9 * spread * self.effective_sample_size.powf(-1.0 / root);
        if !(width > 0.0 && width.is_finite()) {
            return Err(Error::NoSpread(self.effective_sample_size));
        }
        let (low, high) = (quantile(TAIL) - REACH * width, quantile(1.0 - TAIL) + REACH * width);
        Ok(Axis { low, high, width })
    }
}

/// A range of one coordinate, and the standard deviation of the kernel along it.
struct Axis {
    low: f64,
    high: f64,
    width: f64,
}

impl Axis {
    fn step(&self, points: usize) -> f64 {
        (self.high - self.low) / (points - 1) as f64
    }

    /// Calls `each` with the points near `value` and the kernel there, whose values sum to 1 where none is
    /// cut off.
    fn spread(&self, value: f64, points: usize, mut each: impl FnMut(usize, f64)) {
        let step = self.step(points);
        // No narrower than the points are apart.
        let width = self.width.max(step);
        let place = |at: f64| ((at - self.low) / step).clamp(0.0, (points - 1) as f64);
        let (first, last) = (place(value - REACH * width).ceil(), place(value + REACH * width).floor());
        let scale = step / (width * std::f64::consts::TAU.sqrt());
        for point in first as usize..=last as usize {
            let z = (self.low + step * point as f64 - value) / width;
            if z.abs() <= REACH {
                each(point, scale * (-0.5 * z * z).exp());
            }
        }
    }
}

/// p of two coordinates on a grid of points in the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct DensityMap {
    /// The point (x, y) in the first row and column …
    pub first: [f64; 2],
    /// … and the step (x, y) between points.
    pub step: [f64; 2],
    /// Points along each side.
    pub size: usize,
    /// The probability of each point's cell, in rows; the sum is 1.
    pub p: Vec<f64>,
}

impl DensityMap {
    /// The level that the smallest set of probability `mass` exceeds: the points with at least this p have
    /// `mass` or a little more together.
    pub fn level(&self, mass: f64) -> f64 {
        let mut falling = self.p.clone();
        falling.sort_by(|a, b| b.total_cmp(a));
        let mut sum = 0.0;
        let reached = falling.iter().find(|p| {
            sum += **p;
            sum >= mass
        });
        reached.or(falling.last()).copied().unwrap_or(0.0)
    }

    /// The area of that set, in the unit of x times that of y.
    pub fn area(&self, mass: f64) -> f64 {
        let level = self.level(mass);
        self.p.iter().filter(|p| **p >= level).count() as f64 * self.step[0] * self.step[1]
    }
}
