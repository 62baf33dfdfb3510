//! How well a fitted model knows its own uncertainty, on fresh data, before and after split-conformal calibration.

use ebm_core::{Grid, GridDensity};
use ebm_eval::calibration::{SplitConformal, calibration_error, crps_of_cdf, mean_width, nll};
use ebm_seed::Key;
use serde::Serialize;

use crate::dataset::{Points, Problem, RANGE};
use crate::error::Result;
use crate::evaluation::{GRID, column};
use crate::experiment::Trained;

/// Fresh points for the calibration, and as many for the test.
const POINTS: usize = 1000;
/// The mass of the regions.
pub const LEVEL: f64 = 0.9;
/// Rows of x that are evaluated together.
const ROWS: usize = 50;

/// A model's figures on fresh points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The mean of −log p(y | x), in nats.
    pub nll: f64,
    /// The mean continuous ranked probability score.
    pub crps: f64,
    /// The mean |observed − nominal| frequency of y below the predicted quantiles 0.05, 0.10 … 0.95.
    pub ece: f64,
    /// How often y lies in the predicted 90 % highest-density region.
    pub coverage: f64,
    /// The mean total width of those regions.
    pub width: f64,
    /// The same after split-conformal calibration of the region's mass.
    pub conformal_coverage: f64,
    /// Their mean total width.
    pub conformal_width: f64,
}

/// Measures a model on points that it has not seen.
///
/// # Errors
/// What the densities report.
pub fn calibration(trained: &Trained, problem: Problem, key: Key) -> Result<Calibration> {
    let key = key.split(problem.name());
    let draw = |name| problem.points(POINTS, &mut key.split(name).rng());
    let (held_out, test) = (draw("calibration"), draw("test"));
    let scores = |points: &Points, densities: &[GridDensity]| -> Vec<f64> {
        // The mass of the smallest highest-density region that holds y.
        densities.iter().zip(&points.y).map(|(p, &y)| p.mass_above(p.log_prob(f64::from(y)))).collect()
    };
    let conformal =
        SplitConformal::calibrate(&scores(&held_out, &densities(trained, &held_out)?), 1.0 - LEVEL)?;
    let densities = densities(trained, &test)?;
    let scores = scores(&test, &densities);
    let within = |mass: f64| scores.iter().filter(|&&score| score <= mass).count() as f64 / POINTS as f64;
    let width = |mass: f64| -> Result<f64> {
        let regions = densities.iter().map(|p| Ok(p.highest_density_region(mass)?.intervals));
        Ok(mean_width(&regions.collect::<Result<Vec<_>>>()?)?)
    };
    let pairs = || densities.iter().zip(&test.y).map(|(p, &y)| (p, f64::from(y)));
    let log_probs: Vec<f64> = pairs().map(|(p, y)| p.log_prob(y)).collect();
    let pit: Vec<f64> = pairs().map(|(p, y)| p.cdf(y)).collect();
    let crps = pairs().map(|(p, y)| Ok(crps_of_cdf(&p.grid().points(), p.cdf_values(), y)?));
    let crps = crps.collect::<Result<Vec<_>>>()?;
    let levels: Vec<f64> = (1..20).map(|index| f64::from(index) / 20.0).collect();
    let calibrated = conformal.threshold.min(1.0);
    Ok(Calibration {
        nll: nll(&log_probs)?,
        crps: crps.iter().sum::<f64>() / crps.len() as f64,
        ece: calibration_error(&pit, &levels)?,
        coverage: within(LEVEL),
        width: width(LEVEL)?,
        conformal_coverage: within(calibrated),
        conformal_width: width(calibrated)?,
    })
}

/// The mean of −log p(y | x) of `points`, in nats.
///
/// # Errors
/// What the densities report.
pub(crate) fn mean_nll(trained: &Trained, points: &Points) -> Result<f64> {
    let densities = densities(trained, points)?;
    let log_probs: Vec<f64> =
        densities.iter().zip(&points.y).map(|(p, &y)| p.log_prob(f64::from(y))).collect();
    Ok(nll(&log_probs)?)
}

/// p(y | x) for each point's x.
fn densities(trained: &Trained, points: &Points) -> Result<Vec<GridDensity>> {
    let grid = Grid::new(RANGE[0], RANGE[1], GRID)?;
    let y = column(&grid.points())?.t()?;
    let x: Vec<f64> = points.x.iter().map(|&x| f64::from(x)).collect();
    let mut densities = Vec::with_capacity(x.len());
    for x in x.chunks(ROWS) {
        let f = trained.log_density(&column(x)?, &y)?.to_dtype(candle_core::DType::F64)?;
        for f in f.to_vec2::<f64>()? {
            densities.push(GridDensity::from_scores(&grid, &f)?);
        }
    }
    Ok(densities)
}
