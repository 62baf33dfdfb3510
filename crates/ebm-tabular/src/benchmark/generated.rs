//! Generated data sets with a known density.

use ebm_base::Key;
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use super::BenchmarkSet;
use crate::{Result, Table};

/// Standard deviation of the noise on a branch of the fork and on the ring's radius.
const NOISE: f64 = 0.1;

/// A generated data set with a known density that a Gaussian cannot fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// Two modes: `y = ±x + 0.1 ε`, with equal probability for both signs and x uniform between 0.5 and 1.5.
    Fork,
    /// Two targets that are uncorrelated but dependent: `(u, v) = r (cos φ, sin φ)` with `r = 1 + x + 0.1 ε`, a uniform
    /// angle φ and x uniform between 0 and 1.
    Ring,
}

impl Generated {
    /// All generated data sets.
    pub const ALL: [Self; 2] = [Self::Fork, Self::Ring];

    /// Returns the name of the data set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Ring => "ring",
        }
    }

    fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Fork => &["y"],
            Self::Ring => &["u", "v"],
        }
    }

    /// Draws a row, x and the targets, and returns it with log p of the targets.
    pub fn draw(self, rng: &mut dyn RngCore) -> (Vec<f64>, f64) {
        let noise = NOISE * rng.sample::<f64, _>(StandardNormal);
        match self {
            Self::Fork => {
                let x = rng.random_range(0.5..1.5);
                let y = if rng.random() { x } else { -x } + noise;
                (vec![x, y], (0.5 * (log_normal(y - x).exp() + log_normal(y + x).exp())).ln())
            }
            Self::Ring => {
                let x: f64 = rng.random_range(0.0..1.0);
                let angle: f64 = rng.random_range(0.0..std::f64::consts::TAU);
                let radius = 1.0 + x + noise;
                let log_p = log_normal(noise) - (std::f64::consts::TAU * radius).ln();
                (vec![x, radius * angle.cos(), radius * angle.sin()], log_p)
            }
        }
    }

    /// Draws a table of `count` rows, and returns it with log p of each row.
    ///
    /// # Errors
    /// Never fails; a test ensures it.
    pub fn table(self, count: usize, rng: &mut dyn RngCore) -> Result<(Table, Vec<f64>)> {
        let mut text = format!("x,{}", self.targets().join(","));
        let mut truth = Vec::with_capacity(count);
        for _ in 0..count {
            let (row, log_p) = self.draw(rng);
            let row: Vec<String> = row.iter().map(f64::to_string).collect();
            text += &format!("\n{}", row.join(","));
            truth.push(log_p);
        }
        Ok((Table::parse(self.name(), &text)?, truth))
    }

    /// Draws a benchmark with separate rows for each of `splits` splits: `rows` to learn from and `rows` for the test.
    ///
    /// # Errors
    /// The errors of [`table`](Self::table).
    pub fn set(self, rows: usize, splits: usize, key: Key) -> Result<BenchmarkSet> {
        let (table, truth) = self.table(2 * rows * splits, &mut key.split(self.name()).rng())?;
        let of = |split: usize| {
            let first = 2 * rows * split;
            [(first..first + rows).collect(), (first + rows..first + 2 * rows).collect()]
        };
        let targets = self.targets().iter().map(|&name| name.to_owned()).collect();
        Ok(BenchmarkSet { table, targets, splits: (0..splits).map(of).collect(), truth: Some(truth) })
    }
}

/// Returns log N(error; 0, 0.1²).
fn log_normal(error: f64) -> f64 {
    -0.5 * (error / NOISE).powi(2) - NOISE.ln() - 0.5 * std::f64::consts::TAU.ln()
}
