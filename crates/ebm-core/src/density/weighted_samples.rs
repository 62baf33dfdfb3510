//! Weighted samples in any coordinates, and their kernel density estimates.

use super::{Grid, GridDensity, ImportanceDensity};
use crate::{Error, Result};

/// Half the width of a kernel, in standard deviations.
const REACH: f64 = 3.0;
/// Probability beyond each end of the grids.
const TAIL: f64 = 0.0005;
/// Number of points of a marginal density.
const POINTS: usize = 512;

/// Samples of p(y | x) with their weights, as N numbers that follow from y: for instance the edges of a box, when
/// y is its centre and the logarithms of its sides.
///
/// A marginal leaves coordinates out, and a kernel turns the weighted points into a density. The widths of the
/// kernels follow Silverman's rule for the effective sample size, which broadens the density by a few per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedSamples<const N: usize> {
    values: Vec<[f64; N]>,
    /// Weights of the samples, with the sum 1.
    weights: Vec<f64>,
    effective_sample_size: f64,
}

impl<const N: usize> WeightedSamples<N> {
    /// Creates weighted samples from `density`; row k of `values` holds the numbers of sample k.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `values` has one row per sample.
    pub fn new(density: &ImportanceDensity, values: Vec<[f64; N]>) -> Result<Self> {
        let weights = density.weights().to_vec();
        if values.len() != weights.len() {
            let (expected, actual) = (format!("({}, {N})", weights.len()), vec![values.len(), N]);
            return Err(Error::Shape { what: "the values of weighted samples", expected, actual });
        }
        Ok(Self { values, weights, effective_sample_size: density.effective_sample_size() })
    }

    /// Converts the numbers of every sample with `of`; the weights stay.
    #[must_use]
    pub fn map<const M: usize>(self, of: impl FnMut([f64; N]) -> [f64; M]) -> WeightedSamples<M> {
        let Self { values, weights, effective_sample_size } = self;
        WeightedSamples { values: values.into_iter().map(of).collect(), weights, effective_sample_size }
    }

    /// Returns the effective sample size, from 1 to M: about as many independent draws from p would give the same
    /// accuracy.
    pub fn effective_sample_size(&self) -> f64 {
        self.effective_sample_size
    }

    /// Returns the samples with their weights, whose sum is 1.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64; N], f64)> {
        self.values.iter().zip(self.weights.iter().copied())
    }

    /// Returns the self-normalised estimate of E\[g\].
    pub fn expectation(&self, g: impl Fn(&[f64; N]) -> f64) -> f64 {
        self.iter().filter(|(_, weight)| *weight > 0.0).map(|(values, weight)| weight * g(values)).sum()
    }

    /// Returns the marginal density of number `place`. Its
    /// [`highest_density_region`](GridDensity::highest_density_region) has several intervals if the density is
    /// multimodal.
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

    /// Returns the joint density of two numbers, `places`, on a grid of `size` points along each side of the
    /// range of the samples.
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

    /// Returns the range of the density of number `place`, and the width of its kernel. The width shrinks with
    /// the `root`-th root of the effective sample size; `root` is 4 plus the number of coordinates of the
    /// density.
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
        // The quartiles of a normal distribution are 1.349 standard deviations apart; with long tails they are
        // closer.
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

/// Range of one coordinate, and the standard deviation of the kernel along it.
struct Axis {
    low: f64,
    high: f64,
    width: f64,
}

impl Axis {
    fn step(&self, points: usize) -> f64 {
        (self.high - self.low) / (points - 1) as f64
    }

    /// Calls `each` with every point near `value` and the kernel's value there. The values sum to 1 unless an end
    /// of the grid cuts the kernel off.
    fn spread(&self, value: f64, points: usize, mut each: impl FnMut(usize, f64)) {
        let step = self.step(points);
        // The kernel is at least as wide as the distance of the points.
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

/// Joint density of two coordinates on a grid in the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct DensityMap {
    /// Point (x, y) in the first row and column.
    pub first: [f64; 2],
    /// Distance (x, y) between neighbouring points.
    pub step: [f64; 2],
    /// Number of points along each side.
    pub size: usize,
    /// Probability of each point's cell, row by row, with the sum 1.
    pub p: Vec<f64>,
}

impl DensityMap {
    /// Returns the level of the smallest set of probability `mass`: the points whose p is at least this level
    /// have a total probability of `mass` or a little more.
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

    /// Returns the area of the smallest set of probability `mass`, in the unit of x times the unit of y.
    pub fn area(&self, mass: f64) -> f64 {
        let level = self.level(mass);
        self.p.iter().filter(|p| **p >= level).count() as f64 * self.step[0] * self.step[1]
    }
}
