//! Density p(y | x) of a model at given features.

use candle_core::{DType, Device, Tensor};

use super::grid_density::log_weights;
use super::scores::{candidates_per_pass, scores};
use super::{Grid, GridDensity};
use crate::log_sum::LogSum;
use crate::{EnergyModel, Error, GradientAscent, Refined, Result, check, refine};

/// Largest number of times that points are added to a grid.
const ROUNDS: usize = 4;
/// Mass between two neighbouring points that is too much: a Gaussian's deviation is then four steps or less.
const COARSE: f64 = 0.1;

/// Density `p(y | x) = exp f(x, y) / Z(x)` of a model at the features of B inputs x, made by
/// [`EnergyModel::bind`].
///
/// ```
/// use ebm_core::candle_core::{Device, Tensor};
/// use ebm_core::{EnergyModel, GradientAscent, Grid, StepRule};
///
/// /// f(x, y) = -(y - x)²: p(y | x) is a Gaussian with mean x and variance 1/2.
/// struct Parabola;
///
/// impl EnergyModel for Parabola {
///     type Features = Tensor; // x (B, 1, 1)
///     fn score(&self, x: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
///         Ok(y.broadcast_sub(x)?.sqr()?.neg()?.sum(2)?)
///     }
/// }
///
/// let x = Tensor::new(&[[[1f32]], [[2.0]]], &Device::Cpu)?;
/// let p = Parabola.bind(&x, 2);
/// let densities = p.grid(&Grid::new(-5.0, 8.0, 2001)?)?;
/// assert!((densities[1].mean() - 2.0).abs() < 1e-6 && (densities[1].variance() - 0.5).abs() < 1e-6);
///
/// let ascent = GradientAscent { steps: 50, step_length: vec![0.25], decay: 0.5, rule: StepRule::Backtracking };
/// let refined = p.refine(&Tensor::zeros_like(&x)?, &ascent)?;
/// assert!((refined.y.flatten_all()?.to_vec1::<f32>()?[0] - 1.0).abs() < 1e-3);
/// # Ok::<(), ebm_core::Error>(())
/// ```
pub struct Conditional<'a, M: EnergyModel> {
    model: &'a M,
    features: &'a M::Features,
    batch: usize,
    dtype: DType,
    device: Device,
}

impl<'a, M: EnergyModel> Conditional<'a, M> {
    pub(crate) fn new(model: &'a M, features: &'a M::Features, batch: usize) -> Self {
        Self { model, features, batch, dtype: DType::F32, device: Device::Cpu }
    }

    /// Sets the type, `f32` or `f64`, and the device of the model's candidates y. The default is `f32` on the
    /// CPU.
    #[must_use]
    pub fn with(self, dtype: DType, device: &Device) -> Self {
        Self { dtype, device: device.clone(), ..self }
    }

    /// Refines the candidates `y0`, `(B, M, D)`, by Algorithm S1 or S2; see [`refine`](fn@refine).
    ///
    /// # Errors
    /// The errors of [`refine`](fn@refine).
    pub fn refine(&self, y0: &Tensor, ascent: &GradientAscent) -> Result<Refined> {
        refine(self.model, self.features, y0, ascent)
    }

    /// Returns the densities of the B inputs, for a model whose y has one coordinate. f is computed in passes, so
    /// that memory does not grow with the number of grid points.
    ///
    /// # Errors
    /// [`Error::Setting`] when B is 0; [`Error::NonFiniteScore`] with the index of x when f is NaN or +∞
    /// anywhere; [`Error::NoMass`] with the index of x when f is −∞ everywhere; otherwise the error of the model.
    pub fn grid(&self, grid: &Grid) -> Result<Vec<GridDensity>> {
        check::at_least_one("batch", self.batch)?;
        let y = self.candidates(grid.points(), (1, grid.num_points(), 1))?;
        let y = y.broadcast_as((self.batch, grid.num_points(), 1))?;
        let rows = scores(self.model, self.features, &y)?;
        rows.into_iter().enumerate().map(|(x, f)| GridDensity::normalise(grid.points(), f, x)).collect()
    }

    /// Returns candidates of this shape with the model's type and device.
    fn candidates(&self, values: Vec<f64>, shape: (usize, usize, usize)) -> Result<Tensor> {
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(&self.device)?)
    }

    /// Returns the densities as [`grid`](Self::grid) does, from the points of `grid` and the same number of further points for
    /// each input, where its mass is. If more than a tenth of a density's mass then lies between two neighbouring points, there
    /// are further ones, up to three times.
    ///
    /// # Errors
    /// The errors of [`grid`](Self::grid).
    pub fn adaptive_grid(&self, grid: &Grid) -> Result<Vec<GridDensity>> {
        let mut densities = self.grid(grid)?;
        for _ in 0..ROUNDS {
            let added = densities.iter().map(|density| density.where_mass_is(grid.num_points()));
            let added = added.collect::<Vec<Vec<f64>>>();
            let y = self.candidates(added.concat(), (self.batch, grid.num_points(), 1))?;
            let f = scores(self.model, self.features, &y)?;
            let with = |(x, (density, new)): (usize, (GridDensity, _))| density.with(new, x);
            let new = added.into_iter().zip(f).map(|(points, f)| points.into_iter().zip(f));
            densities = densities.into_iter().zip(new).enumerate().map(with).collect::<Result<_>>()?;
            if densities.iter().all(|density| density.largest_cell() < COARSE) {
                break;
            }
        }
        Ok(densities)
    }

    /// Returns the marginal densities of the D = 1 to 3 coordinates of y for each of the B inputs, from f on the
    /// product of the D `grids`. All marginals of an x have its log Z. f is computed in passes, so that memory
    /// does not grow with the number of points of the product.
    ///
    /// # Errors
    /// [`Error::Setting`] for another D; otherwise the errors of [`grid`](Self::grid).
    pub fn marginals(&self, grids: &[Grid]) -> Result<Vec<Vec<GridDensity>>> {
        let batch = check::at_least_one("batch", self.batch)?;
        let total = grids.iter().try_fold(1usize, |total, grid| total.checked_mul(grid.num_points()));
        let total = total.filter(|_| (1..=3).contains(&grids.len())).ok_or_else(|| Error::Setting {
            name: "grids",
            value: format!("{grids:?}"),
            expected: "one to three; in more dimensions use ImportanceDensity",
        })?;

        let log_weights: Vec<Vec<f64>> = grids.iter().map(|grid| log_weights(&grid.points())).collect();
        let mut sums: Vec<Vec<Vec<LogSum<f64>>>> =
            vec![grids.iter().map(|grid| vec![LogSum::empty(); grid.num_points()]).collect(); batch];
        let pass = candidates_per_pass(batch);
        for start in (0..total).step_by(pass) {
            let places: Vec<Vec<usize>> =
                (start..total.min(start + pass)).map(|index| place(index, grids)).collect();
            let points =
                places.iter().flat_map(|place| grids.iter().zip(place).map(|(grid, &k)| grid.point(k)));
            let y = self.candidates(points.collect(), (1, places.len(), grids.len()))?;
            let f = scores(self.model, self.features, &y.broadcast_as((batch, places.len(), grids.len()))?)?;
            for (sums, f) in sums.iter_mut().zip(f) {
                for (place, f) in places.iter().zip(f) {
                    let term = f + log_weights.iter().zip(place).map(|(axis, &k)| axis[k]).sum::<f64>();
                    for (axis, &k) in sums.iter_mut().zip(place) {
                        axis[k].add(term);
                    }
                }
            }
        }

        let marginals = |(x, axes): (usize, Vec<Vec<LogSum<f64>>>)| {
            let densities =
                axes.into_iter().zip(grids).zip(&log_weights).map(|((axis, grid), log_weights)| {
                    // `normalise` adds the weight of this coordinate again.
                    let f = axis.iter().zip(log_weights).map(|(sum, log_weight)| sum.value() - log_weight);
                    GridDensity::normalise(grid.points(), f.collect(), x)
                });
            densities.collect()
        };
        sums.into_iter().enumerate().map(marginals).collect()
    }
}

/// Returns the index on each grid of point `index` of the grids' product; the last grid varies fastest.
fn place(mut index: usize, grids: &[Grid]) -> Vec<usize> {
    let mut place = vec![0; grids.len()];
    for (k, grid) in place.iter_mut().zip(grids).rev() {
        *k = index % grid.num_points();
        index /= grid.num_points();
    }
    place
}
