//! Range of the numbers of a setting.

use std::fmt;
use std::ops::RangeInclusive;

/// Range of the allowed numbers of a setting, both ends included. NaN and the infinities are outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least number.
    pub low: f64,
    /// Greatest number.
    pub high: f64,
    /// Whether only whole numbers are allowed.
    pub whole: bool,
    /// Unit; empty for pure numbers, and if the meaning states it.
    pub unit: &'static str,
}

impl Range {
    /// Empty range.
    pub const NONE: Self = Self { low: 1.0, high: 0.0, whole: false, unit: "" };

    /// Sets the unit.
    #[must_use]
    pub const fn of(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Returns whether `value` is in the range.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value) && (!self.whole || value.fract() == 0.0)
    }
}

impl From<RangeInclusive<f64>> for Range {
    fn from(range: RangeInclusive<f64>) -> Self {
        Self { low: *range.start(), high: *range.end(), whole: false, unit: "" }
    }
}

impl From<RangeInclusive<u64>> for Range {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self { low: *range.start() as f64, high: *range.end() as f64, whole: true, unit: "" }
    }
}

/// Writes the range as "a whole number from 16 to 8192, in pixels".
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low > self.high {
            return f.write_str("no number");
        }
        f.write_str(if self.whole { "a whole number from " } else { "a number from " })?;
        write!(f, "{} to {}", Brief(self.low), Brief(self.high))?;
        if self.unit.is_empty() { Ok(()) } else { write!(f, ", in {}", self.unit) }
    }
}

/// Number in its shorter form, plain or with an exponent.
struct Brief(f64);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plain, powers) = (self.0.to_string(), format!("{:e}", self.0));
        f.write_str(if plain.len() <= powers.len().max(5) { &plain } else { &powers })
    }
}
