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

/// Fits a density to numbers, and returns the function from a number to its log density.
type Fit = fn(&[f64]) -> Box<dyn Fn(f64) -> f64>;

/// Largest number of parts that the boxes are divided into; up to this number each box is a part.
const PARTS: usize = 512;

impl Likelihood {
    /// Adds an annotated box: log p(y | x), the difference to the refined box, and whether the density is reliable.
    pub(super) fn push(&mut self, log_prob: f64, error: [f64; 4], is_reliable: bool) {
        self.energy.push(log_prob);
        self.errors.push(error);
        self.reliable += usize::from(is_reliable);
    }

    /// Returns the log-likelihood of each box's error under independent densities of the four coordinates, fitted to the
    /// errors of the other parts.
    fn of_others(&self, fit: Fit) -> Vec<f64> {
        let mut found = vec![0.0; self.errors.len()];
        for part in 0..PARTS.min(found.len()) {
            for d in 0..4 {
                let others = self.errors.iter().enumerate().filter(|(place, _)| place % PARTS != part);
                let density = fit(&others.map(|(_, error)| error[d]).collect::<Vec<_>>());
                let own = found.iter_mut().zip(&self.errors).skip(part).step_by(PARTS);
                own.for_each(|(found, error)| *found += density(error[d]));
            }
        }
        found
    }
}

/// Fits the Gaussian of greatest likelihood.
fn gaussian(others: &[f64]) -> Box<dyn Fn(f64) -> f64> {
    let count = others.len() as f64;
    let mean = others.iter().sum::<f64>() / count;
    let variance = others.iter().map(|other| (other - mean).powi(2)).sum::<f64>() / count;
    Box::new(move |x| -0.5 * ((TAU * variance).ln() + (x - mean).powi(2) / variance))
}

/// Fits the Laplace distribution of greatest likelihood.
fn laplace(others: &[f64]) -> Box<dyn Fn(f64) -> f64> {
    let mut sorted = others.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    let median = 0.5 * (middle(sorted.len().saturating_sub(1) / 2) + middle(sorted.len() / 2));
    let scale = others.iter().map(|other| (other - median).abs()).sum::<f64>() / others.len() as f64;
    Box::new(move |x| -(x - median).abs() / scale - scale.ln() - LN_2)
}

impl fmt::Display for Likelihood {
    /// Writes the mean log-likelihoods, and the mean differences to the simple densities with their standard errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |values: &[f64]| {
            Summary::new(values).map_or("not finite".to_owned(), |found| found.cell(Spread::StandardError, 2))
        };
        let count = self.energy.len();
        write!(f, "log p(y|x) of {count} annotated boxes: {} nats a box", cell(&self.energy))?;
        for (name, density) in [("Gaussian", gaussian as Fit), ("Laplace", laplace)] {
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
