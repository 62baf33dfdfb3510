//! Mean and spread of a figure over seeds.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Mean and standard deviation of a figure over n seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of seeds n ≥ 1.
    pub count: usize,
    /// Mean x̄ = Σ xᵢ / n.
    pub mean: f64,
    /// Sample standard deviation √(Σ (xᵢ − x̄)² / (n − 1)); none for a single seed.
    pub standard_deviation: Option<f64>,
}

/// Spread that a table shows after "±".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Sample standard deviation: the typical distance of one seed from the mean.
    StandardDeviation,
    /// Standard error: the typical distance of the mean from the mean of infinitely many seeds.
    StandardError,
}

impl Summary {
    /// Summarises `values`, one per seed.
    ///
    /// # Errors
    /// [`Error::Empty`] without a value, or [`Error::Value`] for a value that is not finite.
    pub fn new(values: &[f64]) -> Result<Self> {
        if values.is_empty() {
            return Err(Error::Empty("values to summarise"));
        }
        for (index, &value) in values.iter().enumerate() {
            if !value.is_finite() {
                return Err(Error::Value { what: "values", index, value, expected: "finite" });
            }
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        // Two passes: the one-pass formula cancels when the spread is small beside the mean.
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Ok(Self { count, mean, standard_deviation })
    }

    /// Returns the standard error of the mean: the standard deviation divided by √n; none for a single seed.
    pub fn standard_error(&self) -> Option<f64> {
        self.standard_deviation.map(|deviation| deviation / (self.count as f64).sqrt())
    }

    /// Returns the chosen spread; none for a single seed.
    pub fn spread(&self, spread: Spread) -> Option<f64> {
        match spread {
            Spread::StandardDeviation => self.standard_deviation,
            Spread::StandardError => self.standard_error(),
        }
    }

    /// Formats a table cell: `4.65 ± 0.02`, or the mean alone for a single seed.
    pub fn cell(&self, spread: Spread, decimals: usize) -> String {
        let mean = self.mean;
        match self.spread(spread) {
            Some(spread) => format!("{mean:.decimals$} ± {spread:.decimals$}"),
            None => format!("{mean:.decimals$}"),
        }
    }
}
