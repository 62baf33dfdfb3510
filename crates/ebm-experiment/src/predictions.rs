//! Predicted densities with the observed targets, and their calibration.

use ebm_core::GridDensity;
use ebm_eval::calibration::{SplitConformal, calibration_error, crps_of_cdf, nll};
use serde::Serialize;

use crate::Result;

/// Densities p(y | x) of some inputs x, with the observed y of each.
///
/// ```
/// use ebm_core::{Grid, GridDensity};
/// use ebm_experiment::Predictions;
///
/// let grid = Grid::new(-6.0, 6.0, 1201)?;
/// let gaussian = GridDensity::from_scores(&grid, &grid.points().iter().map(|y| -0.5 * y * y).collect::<Vec<_>>())?;
/// // One y from each hundredth of the distribution.
/// let y = (0..100).map(|i| gaussian.quantile((f64::from(i) + 0.5) / 100.0)).collect::<ebm_core::Result<_>>()?;
/// let ideal = Predictions { densities: vec![gaussian; 100], y };
/// let calibration = ideal.calibration(&ideal)?;
/// assert!(calibration.coverage == 0.9 && calibration.ece < 1e-6);
/// assert!((calibration.width - 2.0 * 1.645).abs() < 1e-3 && (ideal.conformal_mass(0.9)? - 0.91).abs() < 1e-6);
/// # Ok::<(), ebm_experiment::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictions {
    /// Density for each x.
    pub densities: Vec<GridDensity>,
    /// Observed y for each x.
    pub y: Vec<f64>,
}

/// Measures of how well densities fit the observations, before and after split-conformal calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Mean of −log p(y | x), in nats.
    pub nll: f64,
    /// Mean continuous ranked probability score.
    pub crps: f64,
    /// Mean |observed − nominal| frequency of y below the predicted quantiles 0.05, 0.10 … 0.95.
    pub ece: f64,
    /// Fraction of y in the predicted 90 % highest-density region.
    pub coverage: f64,
    /// Mean total width of the 90 % regions.
    pub width: f64,
    /// Fraction of y in the 90 % region after split-conformal calibration of the region's mass.
    pub conformal_coverage: f64,
    /// Mean total width of the calibrated 90 % regions.
    pub conformal_width: f64,
    /// Fraction of y in the predicted 50 % highest-density region.
    pub coverage_50: f64,
    /// Mean total width of the 50 % regions.
    pub width_50: f64,
    /// Fraction of y in the 50 % region after calibration.
    pub conformal_coverage_50: f64,
    /// Mean total width of the calibrated 50 % regions.
    pub conformal_width_50: f64,
}

impl Calibration {
    /// Mass of the wide regions.
    pub const LEVEL: f64 = 0.9;
    /// Mass of the narrow regions.
    pub const NARROW: f64 = 0.5;
}

impl Predictions {
    /// Returns the mean of −log p(y | x), in nats.
    ///
    /// # Errors
    /// The errors of [`nll`](fn@nll).
    pub fn nll(&self) -> Result<f64> {
        Ok(nll(&self.pairs().map(|(p, y)| p.log_prob(y)).collect::<Vec<_>>())?)
    }

    /// Returns the mass of highest-density regions that hold the fraction `level` of y, at most 1. It is chosen
    /// on these predictions for use on others (see [`SplitConformal`]).
    ///
    /// # Errors
    /// The errors of [`SplitConformal::calibrate`], for example with fewer than nine predictions for nine of ten
    /// y.
    pub fn conformal_mass(&self, level: f64) -> Result<f64> {
        Ok(SplitConformal::calibrate(&self.masses(), 1.0 - level)?.threshold.min(1.0))
    }

    /// Returns the total width of each density's highest-density region of this mass.
    ///
    /// # Errors
    /// If `mass` is outside (0, 1\].
    pub fn widths(&self, mass: f64) -> Result<Vec<f64>> {
        self.densities.iter().map(|p| Ok(p.highest_density_region(mass)?.width())).collect()
    }

    /// Computes all measures of these predictions. `held_out` has predictions of the same network for other
    /// inputs, which were not used in training either.
    ///
    /// # Errors
    /// The errors of [`conformal_mass`](Self::conformal_mass), and of the measures if a density or y is not
    /// finite.
    pub fn calibration(&self, held_out: &Self) -> Result<Calibration> {
        let masses = self.masses();
        let within =
            |mass: f64| masses.iter().filter(|&&own| own <= mass).count() as f64 / masses.len() as f64;
        let width = |mass: f64| Ok::<_, crate::Error>(mean(&self.widths(mass)?));
        let pit: Vec<f64> = self.pairs().map(|(p, y)| p.cdf(y)).collect();
        let crps = self.pairs().map(|(p, y)| Ok(crps_of_cdf(p.points(), p.cdf_values(), y)?));
        let crps = crps.collect::<Result<Vec<_>>>()?;
        let levels: Vec<f64> = (1..20).map(|index| f64::from(index) / 20.0).collect();
        let (level, narrow) = (Calibration::LEVEL, Calibration::NARROW);
        let [mass, mass_50] = [held_out.conformal_mass(level)?, held_out.conformal_mass(narrow)?];
        Ok(Calibration {
            nll: self.nll()?,
            crps: mean(&crps),
            ece: calibration_error(&pit, &levels)?,
            coverage: within(level),
            width: width(level)?,
            conformal_coverage: within(mass),
            conformal_width: width(mass)?,
            coverage_50: within(narrow),
            width_50: width(narrow)?,
            conformal_coverage_50: within(mass_50),
            conformal_width_50: width(mass_50)?,
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&GridDensity, f64)> {
        self.densities.iter().zip(self.y.iter().copied())
    }

    /// Returns the mass of the smallest highest-density region that holds y, of each prediction.
    fn masses(&self) -> Vec<f64> {
        self.pairs().map(|(p, y)| p.mass_above(p.log_prob(y))).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
