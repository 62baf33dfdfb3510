//! The two synthetic problems: true densities and samples.

use std::path::Path;

use ebm_data::Error as DataError;
use ebm_data::files::read_limited;
use ebm_experiment::config::Setting;
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Interval of x, and of y in every evaluation.
pub const RANGE: [f64; 2] = [-3.0, 3.0];
/// Number of training points in both problems.
pub const POINTS: usize = 2000;

/// Weight of the mixture's component around sin x for x < 0; the other component is around −sin x.
const MAJOR: f64 = 0.8;
/// Standard deviation of both components.
const MIXTURE_SIGMA: f64 = 0.075;
/// Standard deviation of log(y + 1) for x ≥ 0. The paper's figure shows the shift by 1; its text does not state
/// it.
const LOG_SIGMA: f64 = 0.25;

/// A problem with a known density p(y | x), x uniform on [−3, 3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Problem {
    /// Figure 2 of the paper: two modes for x < 0, a shifted log-normal density for x ≥ 0.
    Dataset1,
    /// The second problem of the follow-up (BMVC 2020): N(sin x, (0.15 / (1 + e^−x))²).
    Dataset2,
}

impl Setting for Problem {}

/// Pairs (x, y).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Inputs.
    pub x: Vec<f32>,
    /// Targets, one for each input.
    pub y: Vec<f32>,
}

impl Problem {
    /// Both problems, in the order of the table.
    pub const ALL: [Self; 2] = [Self::Dataset1, Self::Dataset2];

    /// Returns the name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dataset1 => "dataset1",
            Self::Dataset2 => "dataset2",
        }
    }

    /// Returns the name in figures.
    pub fn title(self) -> &'static str {
        match self {
            Self::Dataset1 => "Dataset 1",
            Self::Dataset2 => "Dataset 2",
        }
    }

    /// Computes `log p(y | x)`, in nats.
    pub fn log_prob(self, x: f64, y: f64) -> f64 {
        match self {
            Self::Dataset1 if x < 0.0 => {
                let mode = |weight: f64, at: f64| weight.ln() + log_normal_density(y, at, MIXTURE_SIGMA);
                log_add(mode(MAJOR, x.sin()), mode(1.0 - MAJOR, -x.sin()))
            }
            Self::Dataset1 if y <= -1.0 => f64::NEG_INFINITY,
            Self::Dataset1 => {
                let log = (y + 1.0).ln();
                log_normal_density(log, 0.0, LOG_SIGMA) - log
            }
            Self::Dataset2 => log_normal_density(y, x.sin(), scale(x)),
        }
    }

    /// Draws y for x.
    pub fn sample(self, x: f64, rng: &mut dyn RngCore) -> f64 {
        let normal = |rng: &mut dyn RngCore| rng.sample::<f64, _>(StandardNormal);
        match self {
            Self::Dataset1 if x < 0.0 => {
                let sign = if rng.random_bool(MAJOR) { 1.0 } else { -1.0 };
                sign * x.sin() + MIXTURE_SIGMA * normal(rng)
            }
            Self::Dataset1 => (LOG_SIGMA * normal(rng)).exp() - 1.0,
            Self::Dataset2 => x.sin() + scale(x) * normal(rng),
        }
    }

    /// Draws `count` pairs, with x uniform.
    pub fn points(self, count: usize, rng: &mut dyn RngCore) -> Points {
        let mut points = Points::default();
        for _ in 0..count {
            let x = rng.random_range(RANGE[0]..RANGE[1]);
            points.x.push(x as f32);
            points.y.push(self.sample(x, rng) as f32);
        }
        points
    }
}

/// Returns the standard deviation of the second problem.
fn scale(x: f64) -> f64 {
    0.15 / (1.0 + (-x).exp())
}

fn log_normal_density(y: f64, mean: f64, sigma: f64) -> f64 {
    -0.5 * ((y - mean) / sigma).powi(2) - sigma.ln() - 0.5 * std::f64::consts::TAU.ln()
}

fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    high + (low - high).exp().ln_1p()
}

/// Largest accepted size of a file of points, in bytes.
const MAX_BYTES: u64 = 1 << 30;

impl Points {
    /// Reads two columns, x and y, separated by a comma. A first line without any number is a header.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that cannot be read, [`Error::Input`] with the place of a malformed line.
    pub fn read_csv(path: &Path) -> Result<Self> {
        let text = String::from_utf8(read_limited(path, MAX_BYTES)?)
            .map_err(|error| DataError::format(path, "a CSV file with the columns x and y", error))?;
        let mut points = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let numbers: Vec<f32> = fields.iter().filter_map(|field| field.parse().ok()).collect();
            match (numbers.as_slice(), fields.len()) {
                ([x, y], 2) if x.is_finite() && y.is_finite() => {
                    points.x.push(*x);
                    points.y.push(*y);
                }
                // No field of a header is a number.
                ([], 2) if index == 0 => {}
                _ => {
                    let line: String = line.chars().take(80).collect();
                    let place = format!("{}:{}", path.display(), index + 1);
                    let reason = "is not a pair of finite numbers x,y; mend or remove the line";
                    return Err(Error::input(place, format!("`{line}` {reason}")));
                }
            }
        }
        match points.x.is_empty() {
            true => Err(Error::input(path.display(), "it holds no points; give at least one line x,y")),
            false => Ok(points),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebm_base::Key;

    use super::*;

    #[test]
    fn golden_values() {
        let p = |x, y| Problem::Dataset1.log_prob(x, y).exp();
        for (x, y, expected) in [
            (-1.5, -1.0, 4.253011392482853),
            (-1.5, 1.0, 1.0632528481207133),
            (1.0, 0.0, 1.5957691216057308),
            (1.0, 0.5, 0.28555377571925905),
        ] {
            assert!((p(x, y) - expected).abs() < 1e-12, "{x} {y}: {}", p(x, y));
        }
        assert_eq!(p(1.0, -1.0), 0.0);
    }

    #[test]
    fn densities_have_mass_one_and_draws_follow_them() {
        for problem in Problem::ALL {
            for x in [-2.5, -1.0, 0.5, 2.9] {
                let (n, low, high) = (200_000, -3.0, 5.0);
                let step = (high - low) / n as f64;
                let moment = |power: i32| {
                    let at = |i: usize| low + (i as f64 + 0.5) * step;
                    (0..n).map(|i| at(i).powi(power) * problem.log_prob(x, at(i)).exp() * step).sum::<f64>()
                };
                assert!((moment(0) - 1.0).abs() < 1e-9, "{problem:?} {x}: {}", moment(0));
                let draws = 20_000;
                let mut rng = Key::new(1).rng();
                let y: Vec<f64> = (0..draws).map(|_| problem.sample(x, &mut rng)).collect();
                let mean = y.iter().sum::<f64>() / draws as f64;
                let error = ((moment(2) - moment(1).powi(2)) / draws as f64).sqrt();
                assert!((mean - moment(1)).abs() < 4.0 * error, "{problem:?} {x}: {mean} {}", moment(1));
            }
        }
    }
}
