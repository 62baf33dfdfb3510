//! Training and validation curves.

use std::collections::BTreeMap;
use std::path::Path;

use ebm_experiment::Validated;
use ebm_train::MetricsRecord;
use serde_json::{Value, json};

use super::log::Log;

/// A quantity of a training over its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Series {
    /// Steps, ascending.
    pub steps: Vec<f64>,
    /// The value of each; NaN where it was not finite.
    pub values: Vec<f64>,
}

/// One value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub step: f64,
    pub value: f64,
}

/// A training's curves.
#[derive(Clone, Debug, Default)]
pub(super) struct Training {
    /// Its folder, relative to the run's; empty where it is the run's.
    pub name: String,
    /// The series of `metrics.jsonl` by name, and [`VALIDATION`].
    pub series: BTreeMap<String, Series>,
    /// Lines that could not be read, and what is odd.
    pub notes: Vec<String>,
}

/// The series of the validations, whatever they measure.
pub(super) const VALIDATION: &str = "validation";

impl Training {
    /// The curves that `folder` holds; none where it is no training's.
    pub fn read(folder: &Path, name: String) -> Option<Self> {
        let [metrics, validation] = ["metrics.jsonl", "validation.jsonl"].map(|file| folder.join(file));
        if !metrics.exists() && !validation.exists() {
            return None;
        }
        let mut training = Self { name, ..Self::default() };
        let mut skipped = 0_usize;
        let metrics_said = Log::new(metrics).gained(|record: MetricsRecord| {
            skipped += usize::from(record.skipped);
            let step = record.step as f64;
            training.push("loss", step, record.loss);
            training.push("gradient norm", step, record.grad_norm);
            for (name, value) in record.scalars {
                training.push(&name, step, value);
            }
        });
        let validation_said = Log::new(validation).gained(|Validated { step, value }| {
            training.push(VALIDATION, step as f64, Some(value));
        });
        for (file, said) in [("metrics.jsonl", metrics_said), ("validation.jsonl", validation_said)] {
            let said = said.unwrap_or_else(|error| Some(format!("it cannot be read: {error}")));
            training.notes.extend(said.map(|said| format!("{file}: {said}")));
        }
        if skipped > 0 {
            let said = format!("{skipped} updates were skipped, since loss or gradient were not finite");
            training.notes.push(said);
        }
        training.settle();
        Some(training)
    }

    fn push(&mut self, name: &str, step: f64, value: Option<f64>) {
        // Not `entry`, which would allocate the name for every line.
        if !self.series.contains_key(name) {
            self.series.insert(name.to_owned(), Series::default());
        }
        if let Some(series) = self.series.get_mut(name) {
            series.steps.push(step);
            series.values.push(value.unwrap_or(f64::NAN));
        }
    }

    /// Orders what a training that went back has repeated, and says what is not finite.
    fn settle(&mut self) {
        for (name, series) in &mut self.series {
            if !series.steps.is_sorted() {
                self.notes.push(format!("{name}: its steps go back; they are shown in ascending order"));
                let mut order: Vec<usize> = (0..series.steps.len()).collect();
                order.sort_by(|&a, &b| series.steps[a].total_cmp(&series.steps[b]));
                series.steps = order.iter().map(|&i| series.steps[i]).collect();
                series.values = order.iter().map(|&i| series.values[i]).collect();
            }
            let missing = series.values.iter().filter(|value| !value.is_finite()).count();
            if missing > 0 {
                let all = series.values.len();
                self.notes.push(format!("{name}: {missing} of {all} values are not finite and not drawn"));
            }
        }
    }
}

impl Series {
    /// Its finite values.
    pub fn finite(&self) -> impl DoubleEndedIterator<Item = Entry> + '_ {
        let entries = self.steps.iter().zip(&self.values).map(|(&step, &value)| Entry { step, value });
        entries.filter(|entry| entry.value.is_finite())
    }

    /// The series as a curve of at most `points` points for the script of charts: where there are more values, a point is
    /// the mean of as many that follow each other, at the first of their steps, with their bounds. `of` is its training.
    pub fn curve(&self, of: usize, points: usize) -> Value {
        let size = self.values.len().div_ceil(points.max(1)).max(1);
        let x: Vec<f64> = self.steps.iter().copied().step_by(size).collect();
        let (mut y, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for values in self.values.chunks(size) {
            let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            // What is not finite becomes null, which interrupts the line.
            y.push(short(finite.iter().sum::<f64>() / finite.len() as f64));
            if size > 1 {
                low.push(short(finite.iter().copied().fold(f64::INFINITY, f64::min)));
                high.push(short(finite.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
            }
        }
        json!({"of": of, "x": x, "y": y, "low": low, "high": high})
    }
}

/// The value to six digits, more than a chart shows.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_bounds_and_means() {
        let values: Vec<f64> = (0..1000).map(|i| if i == 500 { 1e6 } else { f64::from(i % 2) }).collect();
        let series = Series { steps: (0..1000).map(f64::from).collect(), values };
        let curve = series.curve(3, 100);
        assert_eq!(curve["of"], 3);
        assert_eq!(["x", "y"].map(|key| curve[key].as_array().unwrap().len()), [100, 100]);
        assert_eq!((&curve["x"][50], &curve["high"][50]), (&json!(500.0), &json!(1e6)));
        assert_eq!((&curve["low"][50], &curve["y"][51]), (&json!(0.0), &json!(0.5)));
        let whole = series.curve(0, 1000);
        assert!(whole["low"] == json!([]) && whole["y"][3] == 1.0);
    }

    #[test]
    fn what_is_not_finite_interrupts() {
        let series = Series { steps: vec![0.0, 1.0, 2.0], values: vec![1.0, f64::NAN, 0.5] };
        assert_eq!(series.curve(0, 10)["y"], json!([1.0, null, 0.5]));
        assert_eq!(series.curve(0, 1)["y"], json!([0.75]));
    }

    #[test]
    fn a_training_that_went_back_is_ordered() {
        let dir = tempfile::tempdir().unwrap();
        let lines = ["0,\"loss\":3.0", "1,\"loss\":null", "0,\"loss\":2.0"];
        let text: String =
            lines.iter().map(|line| format!("{{\"step\":{line},\"grad_norm\":1.0}}\n")).collect();
        std::fs::write(dir.path().join("metrics.jsonl"), text).unwrap();
        let training = Training::read(dir.path(), String::new()).unwrap();
        assert_eq!(training.series["loss"].steps, [0.0, 0.0, 1.0]);
        assert_eq!(training.series["loss"].values[..2], [3.0, 2.0]);
        assert!(training.notes.iter().any(|note| note.contains("go back")), "{:?}", training.notes);
        assert!(training.notes.iter().any(|note| note.contains("1 of 3 values")), "{:?}", training.notes);
        assert!(Training::read(&dir.path().join("absent"), String::new()).is_none());
    }
}
