//! Target columns, and their scale in the network.

use ebm_experiment::config::settings;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use crate::features::mean_and_deviation;
use crate::table::Form;
use crate::{Error, Result, Table};

settings! {
    /// Possible values of a target.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    pub enum Support {
        /// All numbers.
        #[default]
        Real,
        /// Numbers above 0; the network predicts their logarithm.
        Positive,
        /// Numbers between two others; the network predicts `log (y − low)/(high − y)`.
        Bounded {
            /// Lower bound.
            low: f64 where -1e300..=1e300,
            /// Upper bound.
            high: f64 where -1e300..=1e300,
        },
    }
}

impl Support {
    /// Maps y to t, which can be any number.
    fn free(self, y: f64) -> f64 {
        match self {
            Self::Real => y,
            Self::Positive => y.ln(),
            Self::Bounded { low, high } => ((y - low) / (high - y)).ln(),
        }
    }

    /// Maps t back to y.
    fn constrained(self, t: f64) -> f64 {
        match self {
            Self::Real => t,
            Self::Positive => t.exp(),
            // Two forms of the same number; each is used where it does not overflow.
            Self::Bounded { low, high } if t < 0.0 => low + (high - low) * t.exp() / (1.0 + t.exp()),
            Self::Bounded { low, high } => low + (high - low) / (1.0 + (-t).exp()),
        }
    }

    /// Returns `log dt/dy` at y.
    fn log_slope(self, y: f64) -> f64 {
        match self {
            Self::Real => 0.0,
            Self::Positive => -y.ln(),
            Self::Bounded { low, high } => ((high - low) / ((y - low) * (high - y))).ln(),
        }
    }

    fn contains(self, y: f64) -> bool {
        match self {
            Self::Real => true,
            Self::Positive => y > 0.0,
            Self::Bounded { low, high } => low < y && y < high,
        }
    }
}

/// A column to predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// Name of the column.
    pub name: String,
    /// Possible values of the target.
    pub support: Support,
    /// Form in the file of the fit; found there if none.
    pub form: Option<Form>,
}

impl TargetSpec {
    /// Creates a target that can be any number.
    pub fn real(name: &str) -> Self {
        Self { name: name.to_owned(), support: Support::Real, form: None }
    }
}

/// A target and its scale. The network predicts z = (t(y) − mean)/deviation, where t is the map of the target's
/// [`Support`]. p(y | x) is p(z | x) times dz/dy, a density of y in its own units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name of the column.
    pub name: String,
    /// Possible values of the target.
    pub support: Support,
    /// Form in the file of the fit.
    pub form: Option<Form>,
    /// Mean of t(y).
    mean: f64,
    /// Standard deviation of t(y).
    deviation: f64,
    /// Smallest and largest z of the training rows.
    range: [f64; 2],
    /// Step between the values, or 0; see [`Target::resolution`].
    resolution: f64,
}

impl Target {
    /// Computes the scale of the values `y` of the target `spec`.
    ///
    /// # Errors
    /// [`Error::Input`] if all values are the same; `table` is the table's name in the message.
    pub fn find(spec: &TargetSpec, y: &[f64], table: &str) -> Result<Self> {
        let t: Vec<f64> = y.iter().map(|&y| spec.support.free(y)).collect();
        let (mean, deviation) = mean_and_deviation(&t);
        if !(deviation > 0.0 && deviation.is_finite()) {
            let value = y.first().copied().unwrap_or(f64::NAN);
            let reason = format!(
                "the target {:?} is {value} in all rows that are learnt from; there is nothing to predict",
                spec.name
            );
            return Err(Error::input(table, reason));
        }
        let z = || t.iter().map(|t| (t - mean) / deviation);
        let range = [z().fold(f64::INFINITY, f64::min), z().fold(f64::NEG_INFINITY, f64::max)];
        let TargetSpec { name, support, form } = spec.clone();
        Ok(Self { name, support, form, mean, deviation, range, resolution: resolution(y) })
    }

    /// Reads the target's values in every row, none for a missing value.
    ///
    /// # Errors
    /// [`Error::Input`] for a missing column, and for a value that is no number or outside of the target's support.
    pub fn read(spec: &TargetSpec, table: &Table) -> Result<Vec<Option<f64>>> {
        let place = table.column(&spec.name)?;
        let form = table.form(place, spec.form)?;
        let read = |(row, y)| match y {
            Some(y) if !spec.support.contains(y) => {
                let reason = match spec.support {
                    Support::Bounded { low, high } => format!("is not between {low} and {high}"),
                    _ => "is not above 0".to_owned(),
                };
                Err(table.cell_error(row, place, reason))
            }
            y => Ok(y),
        };
        table.values(place, form)?.into_iter().enumerate().map(read).collect()
    }

    /// Returns the column and support of the target.
    pub fn spec(&self) -> TargetSpec {
        TargetSpec { name: self.name.clone(), support: self.support, form: self.form }
    }

    /// Returns the step of the training values if all are multiples of one step, as numbers with few digits are, else 0.
    /// Training spreads each value evenly over one step. Otherwise a density of such values could improve without bound
    /// by narrow spikes, without meaning.
    pub fn resolution(&self) -> f64 {
        self.resolution
    }

    /// Returns the resolution in z at the mean, which tells whether it matters.
    pub fn relative_resolution(&self) -> f64 {
        let y = self.decode(0.0);
        (self.encode(y + self.resolution) - self.encode(y)).abs()
    }

    /// Returns the z of `y`.
    pub fn encode(&self, y: f64) -> f64 {
        (self.support.free(y) - self.mean) / self.deviation
    }

    /// Returns the z of a value drawn at random from those that are rounded to `y`.
    pub fn encode_spread(&self, y: f64, rng: &mut dyn RngCore) -> f64 {
        let moved = y + self.resolution * (rng.random::<f64>() - 0.5);
        self.encode(if self.support.contains(moved) { moved } else { y })
    }

    /// Returns the y of `z`.
    pub fn decode(&self, z: f64) -> f64 {
        self.support.constrained(self.mean + self.deviation * z)
    }

    /// Returns `log dz/dy` at y, the difference between log p(y | x) and log p(z | x).
    pub fn log_slope(&self, y: f64) -> f64 {
        self.support.log_slope(y) - self.deviation.ln()
    }

    /// Returns the range of z for which densities are shown: that of the training rows, extended by half on both sides.
    pub fn shown(&self) -> [f64; 2] {
        let [low, high] = self.range;
        let margin = 0.5 * (high - low);
        [low - margin, high + margin]
    }
}

/// Returns the smallest distance of two values if all values differ by multiples of it, else 0.
fn resolution(y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let size =
        sorted.first().map_or(0.0, |first| first.abs()).max(sorted.last().map_or(0.0, |last| last.abs()));
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 1e-9 * size);
    let least = steps.fold(f64::INFINITY, f64::min);
    let first = sorted.first().copied().unwrap_or_default();
    let is_multiple = |y: &f64| {
        let multiple = (y - first) / least;
        (multiple - multiple.round()).abs() < 0.01
    };
    if least.is_finite() && sorted.iter().all(is_multiple) { least } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_lattice_have_its_resolution() {
        assert_eq!(resolution(&[5.0, 3.0, 7.0, 3.0]), 2.0);
        assert!((resolution(&[0.1, 0.2, 24.0, 50.0]) - 0.1).abs() < 1e-9);
        assert_eq!(resolution(&[0.0, 1.0, std::f64::consts::E]), 0.0);
        assert_eq!(resolution(&[4.0, 4.0]), 0.0);
    }

    /// ∫ p(y) dy = 1 for every support if p(z) is standard normal.
    #[test]
    fn a_density_of_z_is_one_of_y() {
        let supports = [Support::Real, Support::Positive, Support::Bounded { low: -1.0, high: 3.0 }];
        for support in supports {
            let spec = TargetSpec { support, ..TargetSpec::real("y") };
            let target = Target::find(&spec, &[0.5, 1.0, 2.0, 2.5], "test").unwrap();
            let place = |k: u32| -8.0 + 16.0 * f64::from(k) / 40_000.0;
            let cell = |k: u32| {
                let [from, to] = [target.decode(place(k)), target.decode(place(k + 1))];
                let y = target.decode(0.5 * (place(k) + place(k + 1)));
                let z = target.encode(y);
                (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * target.log_slope(y).exp() * (to - from)
            };
            let mass: f64 = (0..40_000).map(cell).sum();
            assert!((mass - 1.0).abs() < 1e-6, "{support:?}: {mass}");
            for y in [0.7, 1.9] {
                assert!((target.decode(target.encode(y)) - y).abs() < 1e-12);
                let slope = (target.encode(y + 1e-6) - target.encode(y - 1e-6)) / 2e-6;
                assert!((target.log_slope(y) - slope.ln()).abs() < 1e-6, "{support:?}");
            }
        }
    }
}
