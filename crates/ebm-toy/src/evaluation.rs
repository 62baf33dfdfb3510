//! Evaluation of a model: its divergence from the true density, and its calibration on fresh data.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::Grid;
use ebm_core::math::log_sum_exp;
use ebm_experiment::{Calibration, Predictions};

use crate::Result;
use crate::dataset::{Points, Problem, RANGE};
use crate::experiment::Trained;

/// Number of points of the published evaluation on each axis.
pub const GRID: usize = 2048;
/// Value that the published evaluation adds to a density to keep it above 0.
const FLOOR: f64 = 1e-30;
/// Number of rows of x that are evaluated together.
pub(crate) const ROWS: usize = 64;

/// Returns `count` points from −3 to 3, both included.
pub fn grid(count: usize) -> Vec<f64> {
    let step = (RANGE[1] - RANGE[0]) / (count - 1) as f64;
    (0..count).map(|index| RANGE[0] + step * index as f64).collect()
}

/// True probabilities of a problem on the grid of the published evaluation.
pub struct Truth {
    x: Vec<f64>,
    y: Vec<f64>,
    /// Probabilities of the points of y, for each x.
    probabilities: Vec<f64>,
    /// `Σ p log p` for each x.
    negative_entropies: Vec<f64>,
}

impl Truth {
    /// Computes the probabilities on a grid of `points` × `points`; the published evaluation has [`GRID`].
    pub fn new(problem: Problem, points: usize) -> Self {
        let (x, y) = (grid(points), grid(points));
        let mut probabilities = Vec::with_capacity(points * points);
        let mut negative_entropies = Vec::with_capacity(points);
        for &x in &x {
            let start = probabilities.len();
            probabilities.extend(y.iter().map(|&y| problem.log_prob(x, y).exp() + FLOOR));
            let row = &mut probabilities[start..];
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
            negative_entropies.push(row.iter().map(|p| p * p.ln()).sum());
        }
        Self { x, y, probabilities, negative_entropies }
    }

    /// Computes the mean over x of `KL(truth ‖ model)` on the grid of N × N points, in nats. `log_density` computes the
    /// model's log-densities, up to a constant for each x, (B, N), at `x`, (B, 1), and `y`, (1, N).
    ///
    /// # Errors
    /// The errors of `log_density`.
    pub fn divergence(&self, log_density: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<f64> {
        let y = column(&self.y)?.t()?;
        let mut sum = 0.0;
        for (chunk, x) in self.x.chunks(ROWS).enumerate() {
            let f = log_density(&column(x)?, &y)?.to_dtype(DType::F64)?;
            let log_z: Vec<f64> = log_sum_exp(&f, 1)?.to_vec1()?;
            let rows = f.flatten_all()?.to_vec1::<f64>()?;
            for (offset, (f, log_z)) in rows.chunks_exact(self.y.len()).zip(log_z).enumerate() {
                let row = chunk * ROWS + offset;
                let p = &self.probabilities[row * self.y.len()..(row + 1) * self.y.len()];
                let cross: f64 = p.iter().zip(f).map(|(p, f)| p * (f - log_z)).sum();
                sum += self.negative_entropies[row] - cross;
            }
        }
        Ok(sum / self.x.len() as f64)
    }
}

/// Creates a tensor (N, 1) of the numbers, in `f32`.
pub(crate) fn column(values: &[f64]) -> candle_core::Result<Tensor> {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    Tensor::from_vec(values, ((), 1), &Device::Cpu)
}

/// Measures the calibration of a model by `count` fresh points on `count` others.
///
/// # Errors
/// The errors of the densities.
pub fn calibration(trained: &Trained, problem: Problem, count: usize, key: Key) -> Result<Calibration> {
    let key = key.split(problem.name());
    let fresh = |name| predictions(trained, &problem.points(count, &mut key.split(name).rng()));
    fresh("test")?.calibration(&fresh("calibration")?)
}

/// Computes p(y | x) for each point's x.
///
/// # Errors
/// The errors of the densities.
pub(crate) fn predictions(trained: &Trained, points: &Points) -> Result<Predictions> {
    let grid = Grid::new(RANGE[0], RANGE[1], GRID)?;
    let x: Vec<f64> = points.x.iter().map(|&x| f64::from(x)).collect();
    let densities = trained.densities(&x, &grid)?;
    Ok(Predictions { densities, y: points.y.iter().map(|&y| f64::from(y)).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(problem: Problem, log_density: impl Fn(f64, f64) -> f64) -> f64 {
        let truth = Truth::new(problem, GRID);
        truth
            .divergence(|x, y| {
                let (x, y) = (x.flatten_all()?.to_vec1::<f32>()?, y.flatten_all()?.to_vec1::<f32>()?);
                let value = |x: &f32| {
                    let x = f64::from(*x);
                    y.iter().map(|y| log_density(x, f64::from(*y))).collect::<Vec<_>>()
                };
                Ok(Tensor::from_vec(x.iter().flat_map(value).collect(), (x.len(), y.len()), &Device::Cpu)?)
            })
            .unwrap()
    }

    #[test]
    fn reference_points() {
        // The truth itself, up to the rounding of x and y; a constant does not matter.
        assert!(of(Problem::Dataset1, |x, y| 7.0 + Problem::Dataset1.log_prob(x, y).max(-60.0)) < 1e-5);
        // From tests/golden/networks.py: the uniform density, and the best Gaussian for each x.
        let uniform = of(Problem::Dataset1, |_, _| 0.0);
        assert!((uniform - 2.11883).abs() < 1e-5, "{uniform}");
        let gaussian = |x: f64, y: f64| {
            let (mean, variance) = if x < 0.0 {
                (0.6 * x.sin(), 0.075f64.powi(2) + 0.64 * x.sin().powi(2))
            } else {
                let v: f64 = 0.25 * 0.25;
                ((v / 2.0).exp() - 1.0, v.exp() * (v.exp() - 1.0))
            };
            -0.5 * (y - mean).powi(2) / variance
        };
        let best = of(Problem::Dataset1, gaussian);
        assert!((best - 0.69995).abs() < 2e-4, "{best}");
    }
}
