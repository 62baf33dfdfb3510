//! The numbers that a setting may be.

use std::fmt;
use std::ops::RangeInclusive;

/// The numbers that a setting may be, both ends included: neither NaN nor an infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Whether only whole numbers are meant.
    pub whole: bool,
    /// The unit; empty for pure numbers and where the meaning says it.
    pub unit: &'static str,
}

impl Range {
    /// No number at all.
    pub const NONE: Self = Self { low: 1.0, high: 0.0, whole: false, unit: "" };

    /// The same in this unit.
    #[must_use]
    pub const fn of(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Whether `value` is in it.
    #[must_use]
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

/// As "a whole number from 16 to 8192, in pixels".
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

/// A number with few letters.
struct Brief(f64);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plain, powers) = (self.0.to_string(), format!("{:e}", self.0));
        f.write_str(if plain.len() <= powers.len().max(5) { &plain } else { &powers })
    }
}
