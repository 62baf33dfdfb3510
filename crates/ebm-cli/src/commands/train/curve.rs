//! What a training came to over its steps, as figures in the run.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use ebm_experiment::{Measure, Validated, read_validations};
use ebm_plot::LinePlot;
use ebm_train::read_metrics;

/// Points of a curve.
const POINTS: usize = 400;

/// Draws the loss of the training as `loss.png` and `loss.svg` into the run, at each of evenly spaced steps
/// the mean of its neighbours, and the validations as `validation.png` and `validation.svg`. What has fewer
/// than two values has no curve.
pub fn training_curves(run: &Path, measure: Measure) -> Result<()> {
    let records = read_metrics(&run.join("metrics.jsonl"))?;
    let losses: Vec<f64> = records.iter().filter_map(|record| record.loss).collect();
    if losses.len() > 1 {
        let (name, curve) = ("mean of neighbouring steps".to_owned(), means(&losses, POINTS));
        draw(&run.join("loss"), "training loss", 0.0..losses.len() as f64, name, curve)?;
    }
    let validations = read_validations(run)?;
    let [first, .., last] = validations.as_slice() else { return Ok(()) };
    let steps = first.step as f64..last.step as f64;
    let name = format!("{} on the validation data", measure.name);
    let curve = between(&validations, steps.clone());
    draw(&run.join("validation"), "validation", steps, name, curve)
}

fn draw(path: &Path, title: &str, x: Range<f64>, name: String, curve: Vec<f64>) -> Result<()> {
    let finite = || curve.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return Ok(());
    }
    // A constant curve has a range too.
    let room = 0.05 * (high - low).max(1e-3 * high.abs()).max(1e-6);
    let figure = LinePlot { title, x_label: "step", x, y: low - room..high + room, curves: &[(name, curve)] };
    ebm_plot::write(&figure, path)?;
    Ok(())
}

/// The validations at evenly spaced steps, on straight lines between them.
fn between(validations: &[Validated], steps: Range<f64>) -> Vec<f64> {
    let at = |point: usize| {
        let step = steps.start + (steps.end - steps.start) * point as f64 / (POINTS - 1) as f64;
        let after = validations.iter().position(|v| v.step as f64 >= step).unwrap_or(validations.len() - 1);
        let (a, b) = (validations[after.saturating_sub(1)], validations[after]);
        let part = (step - a.step as f64) / ((b.step - a.step) as f64).max(1.0);
        a.value + part.clamp(0.0, 1.0) * (b.value - a.value)
    };
    (0..POINTS).map(at).collect()
}

/// `values` in at most `points` groups of neighbours, the mean of each.
fn means(values: &[f64], points: usize) -> Vec<f64> {
    let points = points.min(values.len());
    let bound = |point: usize| point * values.len() / points;
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    (0..points).map(|point| mean(&values[bound(point)..bound(point + 1)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_averaged() {
        assert_eq!(means(&[1.0, 3.0, 2.0, 4.0, 9.0], 2), [2.0, 5.0]);
        assert_eq!(means(&[1.0, 2.0], 400), [1.0, 2.0]);
    }

    #[test]
    fn validations_are_joined_by_straight_lines() {
        let validations = [(100, 1.0), (200, 3.0), (250, 2.0)].map(|(step, value)| Validated { step, value });
        let curve = between(&validations, 100.0..250.0);
        assert_eq!((curve.len(), curve[0], curve[POINTS - 1]), (POINTS, 1.0, 2.0));
        let middle = curve[133 * 2];
        assert!((middle - 3.0).abs() < 0.02, "{middle}");
    }
}
