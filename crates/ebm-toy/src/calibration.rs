//! How well a fitted model knows its own uncertainty, on fresh data.

use ebm_base::Key;
use ebm_core::Grid;
use ebm_experiment::{Calibration, Predictions};

use crate::Result;
use crate::dataset::{Points, Problem, RANGE};
use crate::evaluation::GRID;
use crate::experiment::Trained;

/// Fresh points for the calibration, and as many for the test.
const POINTS: usize = 1000;

/// Measures a model on points that it has not seen.
///
/// # Errors
/// What the densities report.
pub fn calibration(trained: &Trained, problem: Problem, key: Key) -> Result<Calibration> {
    let key = key.split(problem.name());
    let fresh = |name| predictions(trained, &problem.points(POINTS, &mut key.split(name).rng()));
    fresh("test")?.calibration(&fresh("calibration")?)
}

/// p(y | x) for each point's x.
///
/// # Errors
/// What the densities report.
pub(crate) fn predictions(trained: &Trained, points: &Points) -> Result<Predictions> {
    let grid = Grid::new(RANGE[0], RANGE[1], GRID)?;
    let x: Vec<f64> = points.x.iter().map(|&x| f64::from(x)).collect();
    let densities = trained.densities(&x, &grid)?;
    Ok(Predictions { densities, y: points.y.iter().map(|&y| f64::from(y)).collect() })
}
