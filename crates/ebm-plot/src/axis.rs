//! Coordinate axes with ticks at round values.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::Result;

/// A coordinate axis: its range of values and its ticks.
#[derive(Clone)]
pub struct Axis {
    /// Name, written beside the axis.
    pub name: String,
    range: Range<f64>,
    logarithmic: bool,
    /// Values of the ticks and their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates a linear axis with about `count` ticks at round values, whose labels have equally many decimals.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) for a range that is empty or not finite.
    pub fn linear(name: &str, range: Range<f64>, count: usize) -> Result<Self> {
        let finite = range.start.is_finite() && range.end.is_finite();
        ensure!(finite && range.start < range.end, "the range {range:?} of an axis is empty or not finite");
        let step = round_step((range.end - range.start) / count as f64);
        let [first, last] = [(range.start / step - 1e-9).ceil(), (range.end / step + 1e-9).floor()];
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let tick = |i: u32| {
            let value = (first + f64::from(i)) * step + 0.0;
            // U+2212, the minus sign, is as wide as a plus.
            (value, format!("{value:.decimals$}").replace('-', "\u{2212}"))
        };
        let ticks = (0..=(last - first).max(0.0) as u32).map(tick).collect();
        Ok(Self { name: name.to_owned(), range, logarithmic: false, ticks })
    }

    /// Creates a logarithmic axis for positive values, with ticks at 1, 2 and 5 times powers of ten, or at equal steps
    /// if there would be fewer than three.
    pub fn logarithmic(name: &str, range: Range<f64>) -> Result<Self> {
        let mut axis = Self { logarithmic: true, ..Self::linear(name, range.clone(), 5)? };
        let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
        let values = decades.flat_map(|e| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(e)));
        let inside: Vec<f64> = values.filter(|value| axis.contains(*value)).collect();
        if inside.len() > 2 {
            axis.ticks = inside.into_iter().map(|v| (v, format!("{}", (v * 1e12).round() / 1e12))).collect();
        }
        Ok(axis)
    }

    /// Creates an axis of names, the first at 0.5, the next at 1.5.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> Self {
        let tick = |(i, name): (usize, &String)| (i as f64 + 0.5, name.clone());
        let ticks: Vec<_> = names.into_iter().enumerate().map(tick).collect();
        Self { name: String::new(), range: 0.0..ticks.len() as f64, logarithmic: false, ticks }
    }

    /// Reverses the direction of the axis.
    pub fn reversed(mut self) -> Self {
        self.range = self.range.end..self.range.start;
        self
    }

    /// Removes the labels and the name.
    pub fn unlabelled(mut self) -> Self {
        self.name.clear();
        self.ticks.iter_mut().for_each(|(_, label)| label.clear());
        self
    }

    /// Returns the position of `value`, from 0 at the start to 1 at the end.
    pub fn fraction(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        if self.logarithmic {
            (value / start).ln() / (end / start).ln()
        } else {
            (value - start) / (end - start)
        }
    }

    /// Returns whether `value` lies on the axis.
    pub fn contains(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.fraction(value))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.fraction(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        // Light points are for grid lines between the ticks; there are none.
        let wanted = !hint.weight().allow_light_points();
        self.ticks.iter().filter(|_| wanted).map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(tick, _)| tick == value);
        tick.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

/// Returns the smallest of 1, 2 and 5 times powers of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let exponent = step.log10().floor() as i32;
    let candidates = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * 10f64.powi(exponent));
    candidates.into_iter().find(|candidate| *candidate >= step * (1.0 - 1e-9)).unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        let linear = |range, count| Axis::linear("", range, count).unwrap();
        assert_eq!(labels(&linear(-3.0..3.0, 6)), ["−3", "−2", "−1", "0", "1", "2", "3"]);
        assert_eq!(labels(&linear(-1.5..1.5, 3)), ["−1", "0", "1"]);
        assert_eq!(labels(&linear(0.0..0.58, 3)), ["0.0", "0.2", "0.4"]);
        assert_eq!(labels(&linear(0.01..0.049, 4)), ["0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(labels(&linear(0.0..2300.0, 5)), ["0", "500", "1000", "1500", "2000"]);
    }

    #[test]
    fn logarithmic_ticks_are_one_two_and_five() {
        let logarithmic = |range| Axis::logarithmic("", range).unwrap();
        assert_eq!(labels(&logarithmic(0.018..2.3)), ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(labels(&logarithmic(0.01..2.0)), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(labels(&logarithmic(0.69..0.75)), ["0.70", "0.72", "0.74"]);
    }

    #[test]
    fn values_have_their_places() {
        let (x, y) = (Axis::linear("", -3.0..3.0, 6).unwrap(), Axis::logarithmic("", 0.1..10.0).unwrap());
        assert_eq!([-3.0, 0.0, 1.0, 3.0].map(|value| x.map(&value, (100, 700))), [100, 400, 500, 700]);
        assert_eq!([0.1, 1.0, 10.0].map(|value| y.map(&value, (350, 50))), [350, 200, 50]);
        assert_eq!(x.clone().reversed().map(&-3.0, (100, 700)), 700);
        assert!(x.contains(3.0) && !x.contains(3.01) && !y.contains(0.09));
        assert_eq!(labels(&Axis::names(&["a".to_owned(), "b".to_owned()])), ["a", "b"]);
        assert!(x.unlabelled().ticks.iter().all(|(_, label)| label.is_empty()));
    }
}
