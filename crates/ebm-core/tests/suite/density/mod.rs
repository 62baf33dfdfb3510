//! Normalised densities and a sampler against closed forms.

mod adaptive;
mod grid;
mod importance;
mod langevin;
mod marginals;
mod regions;
mod weighted_samples;

use ebm_core::{Grid, GridDensity};

/// The density on a grid of a function `f(y)`.
fn density(lo: f64, hi: f64, num_points: usize, f: impl Fn(f64) -> f64) -> GridDensity {
    let grid = Grid::new(lo, hi, num_points).unwrap();
    let f: Vec<f64> = grid.points().into_iter().map(f).collect();
    GridDensity::from_scores(&grid, &f).unwrap()
}

/// log N(y; mean, sigma²).
fn log_normal_density(y: f64, mean: f64, sigma: f64) -> f64 {
    -0.5 * ((y - mean) / sigma).powi(2) - sigma.ln() - 0.5 * std::f64::consts::TAU.ln()
}

/// log of the mixture 0.8 N(1, 0.2²) + 0.2 N(−1, 0.2²).
fn bimodal(y: f64) -> f64 {
    (0.8 * log_normal_density(y, 1.0, 0.2).exp() + 0.2 * log_normal_density(y, -1.0, 0.2).exp()).ln()
}

/// Means and standard errors of the moments E[y], E[y²] of independent draws against those expected.
#[track_caller]
fn assert_moments(draws: &[f64], mean: f64, variance: f64) {
    let n = draws.len() as f64;
    for (power, want) in [(1, mean), (2, variance + mean * mean)] {
        let values: Vec<f64> = draws.iter().map(|y| y.powi(power)).collect();
        let got = values.iter().sum::<f64>() / n;
        let error = (values.iter().map(|v| (v - got).powi(2)).sum::<f64>() / n / n).sqrt();
        assert!((got - want).abs() < 4.0 * error, "moment {power}: {got} ± {error}, expected {want}");
    }
}
