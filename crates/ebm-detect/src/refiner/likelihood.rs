//! Log-likelihood of annotated boxes under a refiner's p(y | x), beside simple densities about the refined boxes.

use std::f64::consts::{LN_2, TAU};
use std::fmt;

use ebm_eval::{Spread, Summary};

/// Log-likelihoods of annotated boxes, in nats a box. Boxes are points `(c_x/w, c_y/h, log w, log h)`, with the
/// refined box's width and height as w and h.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Likelihood {
    /// Values log p(y | x) of the annotated boxes.
    energy: Vec<f64>,
    /// Differences of the annotated and the refined boxes.
    errors: Vec<[f64; 4]>,
    /// Number of reliable densities.
    reliable: usize,
}

/// Fits a density to numbers, and returns its logarithm at another number.
type LogDensity = fn(&[f64], f64) -> f64;

impl Likelihood {
    /// Adds an annotated box: log p(y | x), the difference to the refined box, and whether the density is reliable.
    pub(super) fn push(&mut self, log_prob: f64, error: [f64; 4], is_reliable: bool) {
        self.energy.push(log_prob);
        self.errors.push(error);
        self.reliable += usize::from(is_reliable);
    }

    /// Returns the log-likelihood of each box's error under independent `densities` of the four coordinates, fitted to
    /// the errors of the other boxes.
    fn of_others(&self, density: LogDensity) -> Vec<f64> {
        let of = |place: usize| {
            let coordinate = |d: usize| {
                let others = self.errors.iter().enumerate().filter(|(other, _)| *other != place);
                density(&others.map(|(_, error)| error[d]).collect::<Vec<_>>(), self.errors[place][d])
            };
            (0..4).map(coordinate).sum()
        };
        (0..self.errors.len()).map(of).collect()
    }
}

/// Returns the log density at `x` of the Gaussian of greatest likelihood for `others`.
fn gaussian(others: &[f64], x: f64) -> f64 {
    let count = others.len() as f64;
    let mean = others.iter().sum::<f64>() / count;
    let variance = others.iter().map(|other| (other - mean).powi(2)).sum::<f64>() / count;
    -0.5 * ((TAU * variance).ln() + (x - mean).powi(2) / variance)
}

/// Returns the log density at `x` of the Laplace distribution of greatest likelihood for `others`.
fn laplace(others: &[f64], x: f64) -> f64 {
    let mut sorted = others.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = 0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]);
    let scale = others.iter().map(|other| (other - median).abs()).sum::<f64>() / others.len() as f64;
    -(x - median).abs() / scale - scale.ln() - LN_2
}

impl fmt::Display for Likelihood {
    /// Writes the mean log-likelihoods, and the mean differences to the simple densities with their standard errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |values: &[f64]| {
            Summary::new(values).map_or("not finite".to_owned(), |found| found.cell(Spread::StandardError, 2))
        };
        let count = self.energy.len();
        write!(f, "log p(y|x) of {count} annotated boxes: {} nats a box", cell(&self.energy))?;
        for (name, density) in [("Gaussian", gaussian as LogDensity), ("Laplace", laplace)] {
            let other = self.of_others(density);
            let more: Vec<f64> =
                self.energy.iter().zip(&other).map(|(energy, other)| energy - other).collect();
            write!(f, "; {name} about the refined box {}, difference {}", cell(&other), cell(&more))?;
        }
        write!(f, "; {} densities are reliable", self.reliable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_densities_have_the_closed_form_of_the_other_errors() {
        // The others of 4 are −1, 0, 1: mean 0, variance 2/3, median 0, mean distance 2/3.
        let mut found = Likelihood::default();
        for x in [-1.0, 0.0, 1.0, 4.0] {
            found.push(1.0, [x; 4], x > 0.0);
        }
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        close(found.of_others(gaussian)[3], 4.0 * (-0.5 * (TAU * 2.0 / 3.0).ln() - 12.0));
        close(found.of_others(laplace)[3], 4.0 * (-6.0 - (4.0f64 / 3.0).ln()));
        assert!(found.to_string().ends_with("2 densities are reliable"), "{found}");
    }
}
