//! Target columns, and their scale in the network.

use ebm_experiment::config::settings;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use crate::features::{ends, scale};
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

    /// Returns the bounds of y, which may be infinite.
    pub fn bounds(self) -> [f64; 2] {
        match self {
            Self::Real => [f64::NEG_INFINITY, f64::INFINITY],
            Self::Positive => [0.0, f64::INFINITY],
            Self::Bounded { low, high } => [low, high],
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
    /// Smallest and largest z of the training rows, without those [far](Target::is_far) from the others.
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
        let [low, high] = ends(&t);
        let (mean, deviation) = scale(&t, [low, high]);
        if !(deviation > 0.0 && deviation.is_finite()) {
            let value = y.first().copied().unwrap_or(f64::NAN);
            let reason = format!(
                "the target {:?} is {value} in all rows that are learnt from; there is nothing to predict",
                spec.name
            );
            return Err(Error::input(table, reason));
        }
        let range = [low, high].map(|t| (t - mean) / deviation);
        let TargetSpec { name, support, form } = spec.clone();
        let near = y.iter().zip(&t).filter(|(_, t)| (low..=high).contains(*t));
        let resolution = resolution(&near.map(|(y, _)| *y).collect::<Vec<f64>>());
        let target = Self { name, support, form, mean, deviation, range, resolution };
        if !target.is_scale() {
            let reason = format!("the target {:?} has values of up to {high:e}; divide them", target.name);
            return Err(Error::input(table, reason));
        }
        Ok(target)
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

    /// Returns whether the `y` of a training row is far from the others: 30 times the spread of the middle ones.
    pub fn is_far(&self, y: f64) -> bool {
        let z = self.encode(y);
        z < self.range[0] || z > self.range[1]
    }

    /// Returns the `y` to learn from in its place: the end of the others' range if it is far from them.
    pub fn near(&self, y: f64) -> f64 {
        if self.is_far(y) { self.decode(self.encode(y).clamp(self.range[0], self.range[1])) } else { y }
    }

    /// Returns the z of a value drawn at random from those that are rounded to `y`.
    pub fn encode_spread(&self, y: f64, rng: &mut dyn RngCore) -> f64 {
        let moved = y + self.resolution * (rng.random::<f64>() - 0.5);
        self.encode(if self.support.contains(moved) { moved } else { y })
    }

    /// Returns whether the numbers are finite and are a scale.
    pub(crate) fn is_scale(&self) -> bool {
        let [low, high] = self.range;
        [self.mean, low, high].iter().all(|number| number.abs() < 1e300)
            && low < high
            && self.deviation > 0.0
            && self.deviation < 1e300
            && self.resolution >= 0.0
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

/// Returns the largest step that all differences of the values are multiples of, else 0. A step of less than a thousandth of
/// the smallest difference is none.
fn resolution(y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let size =
        sorted.first().map_or(0.0, |first| first.abs()).max(sorted.last().map_or(0.0, |last| last.abs()));
    let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 1e-9 * size);
    let least = gaps.clone().fold(f64::INFINITY, f64::min);
    let is_step = |step: f64| step >= least / 1000.0;
    let step = gaps.fold(least, |step, gap| if is_step(step) { common_step(gap, step) } else { step });
    let first = sorted.first().copied().unwrap_or_default();
    let is_multiple = |y: &f64| {
        let multiple = (y - first) / step;
        (multiple - multiple.round()).abs() < 0.01
    };
    if step.is_finite() && is_step(step) && sorted.iter().all(is_multiple) { step } else { 0.0 }
}

/// Returns the largest step that two distances are multiples of, within a hundredth of the step (Euclid's algorithm).
fn common_step(a: f64, b: f64) -> f64 {
    let rest = (a - b * (a / b).round()).abs();
    // The other way round, b too small for a hundredth would never be reached.
    if rest > 0.01 * b { common_step(b, rest) } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_lattice_have_its_resolution() {
        assert_eq!(resolution(&[5.0, 3.0, 7.0, 3.0]), 2.0);
        assert!((resolution(&[0.1, 0.2, 24.0, 50.0]) - 0.1).abs() < 1e-9);
        assert_eq!(resolution(&[0.0, 2.0, 5.0]), 1.0);
        assert!((resolution(&[19.99, 24.95, 3.51, 7.0]) - 0.01).abs() < 1e-9);
        assert_eq!(resolution(&[0.0, 1.0, std::f64::consts::E]), 0.0);
        assert_eq!(resolution(&[4.0, 4.0]), 0.0);
        // The smallest numbers there are.
        let tiny: Vec<f64> = (0..40).map(|k| 5e-324 * f64::from(k * k)).collect();
        assert!(resolution(&tiny) >= 0.0);
    }

    #[test]
    fn a_value_far_from_all_others_changes_no_scale() {
        let y: Vec<f64> = (0..100).map(|k| 20.0 + f64::from(k % 10)).collect();
        let with = |more: &[f64]| Target::find(&TargetSpec::real("y"), &[&y, more].concat(), "test").unwrap();
        let (plain, far) = (with(&[]), with(&[1e12, -1e12]));
        assert!(!y.iter().any(|y| far.is_far(*y) || far.near(*y) != *y));
        assert!(
            far.is_far(1e12) && (far.near(1e12) - 29.0).abs() < 1e-9 && (far.near(-1e12) - 20.0).abs() < 1e-9
        );
        assert_eq!((far.resolution(), plain.resolution()), (1.0, 1.0));
        assert!((far.encode(29.0) / plain.encode(29.0) - 1.0).abs() < 0.05);
        // Where most values are the same, the middle is taken further out.
        let counts: Vec<f64> = (0..100).map(|k| f64::from(k / 90)).chain([1e9]).collect();
        let found = Target::find(&TargetSpec::real("y"), &counts, "test").unwrap();
        assert!(found.is_far(1e9) && !found.is_far(1.0));
        // Long tails are not far.
        let tails: Vec<f64> = (0..100).map(|k| (0.05 * f64::from(k)).exp()).collect();
        let found = Target::find(&TargetSpec::real("y"), &tails, "test").unwrap();
        assert!(!tails.iter().any(|y| found.is_far(*y)));
    }

    /// The standardised values of −1 and 1 are themselves; half of their range 2 is the margin on each side.
    #[test]
    fn densities_are_shown_half_a_range_further() {
        let target = Target::find(&TargetSpec::real("y"), &[-1.0, 1.0, 1.0, -1.0], "test").unwrap();
        assert_eq!(target.shown(), [-2.0, 2.0]);
        let skewed = Target::find(&TargetSpec::real("y"), &[0.0, 0.0, 0.0, 4.0], "test").unwrap();
        let [low, high] = skewed.shown().map(|z| skewed.decode(z));
        assert!((low + 2.0).abs() < 1e-12 && (high - 6.0).abs() < 1e-12, "{low} {high}");
    }

    /// A value on a lattice is spread evenly over one step about it.
    #[test]
    fn spreading_is_even_on_both_sides() {
        let target = Target::find(&TargetSpec::real("y"), &[0.0, 1.0, 2.0, 3.0], "test").unwrap();
        let mut rng = ebm_base::Key::new(0).rng();
        let moved: Vec<f64> =
            (0..4000).map(|_| target.decode(target.encode_spread(2.0, &mut rng)) - 2.0).collect();
        assert!(moved.iter().all(|by| by.abs() <= 0.5));
        let [mean, square] = [1, 2].map(|power| moved.iter().map(|by| by.powi(power)).sum::<f64>() / 4000.0);
        assert!(mean.abs() < 0.02 && (square - 1.0 / 12.0).abs() < 0.005, "{mean} {square}");
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
