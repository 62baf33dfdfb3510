//! Training and validation curves.

use std::collections::BTreeMap;
use std::path::Path;

use ebm_experiment::Validated;
use ebm_train::MetricsRecord;
use serde_json::{Value, json};

use super::log::Log;

/// Values of a quantity of a training, with ascending steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Series(pub Vec<Entry>);

/// One value of a series; NaN if it was not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub step: f64,
    pub value: f64,
}

/// Curves of a training.
#[derive(Clone, Debug, Default)]
pub(super) struct Training {
    /// Folder of the training, relative to the run's; empty for the run's own folder.
    pub name: String,
    /// Series of `metrics.jsonl` by name, and [`VALIDATION`].
    pub series: BTreeMap<String, Series>,
    /// Notes about unreadable lines and unusual values.
    pub notes: Vec<String>,
}

/// Largest number of series of a training, but for that of its validations.
const MAX_SERIES: usize = 1000;

/// Name of the series of the validations.
pub(super) const VALIDATION: &str = "validation";

impl Training {
    /// Reads the curves in `folder`; none if it has no logs of a training.
    pub fn read(folder: &Path, name: String) -> Option<Self> {
        let [metrics, validation] = ["metrics.jsonl", "validation.jsonl"].map(|file| folder.join(file));
        if !metrics.exists() && !validation.exists() {
            return None;
        }
        let mut training = Self { name, ..Self::default() };
        let (mut skipped, mut left_out) = (0_usize, 0_usize);
        let metrics_said = Log::new(metrics).read_new(|record: MetricsRecord| {
            skipped += usize::from(record.skipped);
            let step = record.step as f64;
            training.push("loss", step, record.loss);
            training.push("gradient norm", step, record.grad_norm);
            for (name, value) in record.scalars {
                if training.series.len() < MAX_SERIES || training.series.contains_key(&name) {
                    training.push(&name, step, value);
                } else {
                    left_out += 1;
                }
            }
        });
        let validation_said = Log::new(validation).read_new(|Validated { step, value }| {
            training.push(VALIDATION, step as f64, Some(value));
        });
        for (file, said) in [("metrics.jsonl", metrics_said), ("validation.jsonl", validation_said)] {
            let said = said.unwrap_or_else(|error| Some(format!("it cannot be read: {error}")));
            training.notes.extend(said.map(|said| format!("{file}: {said}")));
        }
        if left_out > 0 {
            let said =
                format!("{left_out} values are left out: they are of more than {MAX_SERIES} quantities");
            training.notes.push(said);
        }
        if skipped > 0 {
            let said = format!("{skipped} updates were skipped, since loss or gradient were not finite");
            training.notes.push(said);
        }
        training.sort_steps();
        Some(training)
    }

    fn push(&mut self, name: &str, step: f64, value: Option<f64>) {
        let entry = Entry { step, value: value.unwrap_or(f64::NAN) };
        match self.series.get_mut(name) {
            Some(series) => series.0.push(entry),
            None => drop(self.series.insert(name.to_owned(), Series(vec![entry]))),
        }
    }

    /// Sorts the steps that a resumed training repeated, and notes values that are not finite.
    fn sort_steps(&mut self) {
        for (name, series) in &mut self.series {
            if !series.0.is_sorted_by_key(|entry| entry.step) {
                self.notes.push(format!("{name}: its steps go back; they are shown in ascending order"));
                series.0.sort_by(|a, b| a.step.total_cmp(&b.step));
            }
            let (all, missing) = (series.0.len(), series.0.len() - series.finite().count());
            if missing > 0 {
                self.notes.push(format!("{name}: {missing} of {all} values are not finite and not drawn"));
            }
        }
    }
}

impl Series {
    /// Returns the finite values.
    pub fn finite(&self) -> impl DoubleEndedIterator<Item = Entry> + '_ {
        self.0.iter().copied().filter(|entry| entry.value.is_finite())
    }

    /// Returns the series as a curve of at most `points` points for the script of charts. If there are more values, a point is
    /// the mean of consecutive values at their first step, with their bounds. `of` is the index of the training's name.
    pub fn curve(&self, of: usize, points: usize) -> Value {
        let size = self.0.len().div_ceil(points.max(1)).max(1);
        let x: Vec<f64> = self.0.iter().step_by(size).map(|entry| entry.step).collect();
        let (mut y, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for entries in self.0.chunks(size) {
            let finite: Vec<f64> =
                entries.iter().map(|entry| entry.value).filter(|value| value.is_finite()).collect();
            // A mean that is not finite becomes null, which interrupts the line.
            y.push(short(finite.iter().sum::<f64>() / finite.len() as f64));
            if size > 1 {
                low.push(short(finite.iter().copied().fold(f64::INFINITY, f64::min)));
                high.push(short(finite.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
            }
        }
        json!({"of": of, "x": x, "y": y, "low": low, "high": high})
    }
}

/// Rounds a value to six digits, more than a chart shows.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the steps from 0 on.
    fn series(values: &[f64]) -> Series {
        Series(values.iter().zip(0..).map(|(&value, step)| Entry { step: f64::from(step), value }).collect())
    }

    #[test]
    fn a_long_series_keeps_its_bounds_and_means() {
        let values: Vec<f64> = (0..1000).map(|i| if i == 500 { 1e6 } else { f64::from(i % 2) }).collect();
        let series = series(&values);
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
        let series = series(&[1.0, f64::NAN, 0.5]);
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
        let loss = &training.series["loss"].0;
        assert_eq!(loss.iter().map(|entry| entry.step).collect::<Vec<_>>(), [0.0, 0.0, 1.0]);
        assert_eq!([loss[0].value, loss[1].value], [3.0, 2.0]);
        assert!(training.notes.iter().any(|note| note.contains("go back")), "{:?}", training.notes);
        assert!(training.notes.iter().any(|note| note.contains("1 of 3 values")), "{:?}", training.notes);
        assert!(Training::read(&dir.path().join("absent"), String::new()).is_none());
    }
}
