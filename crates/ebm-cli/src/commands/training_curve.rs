//! The loss of a training over its steps, as a figure in the run.

use std::path::Path;

use anyhow::Result;
use ebm_plot::LinePlot;
use ebm_train::read_metrics;

/// Points of the curve.
const POINTS: usize = 400;

/// Draws `loss.png` and `loss.svg` into the run: at each of evenly spaced steps the mean of its neighbours. A training of fewer
/// than two steps has no curve.
pub fn training_curve(run: &Path) -> Result<()> {
    let records = read_metrics(&run.join("metrics.jsonl"))?;
    let losses: Vec<f64> = records.iter().filter_map(|record| record.loss).collect();
    if losses.len() < 2 {
        return Ok(());
    }
    let curve = means(&losses, POINTS);
    let low = curve.iter().copied().fold(f64::INFINITY, f64::min);
    let high = curve.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A constant loss has a range too.
    let room = 0.05 * (high - low).max(1e-3 * high.abs()).max(1e-6);
    let figure = LinePlot {
        title: "training loss",
        x_label: "step",
        x: 0.0..losses.len() as f64,
        y: low - room..high + room,
        curves: &[("mean of neighbouring steps".to_owned(), curve)],
    };
    ebm_plot::write(&figure, &run.join("loss"))?;
    Ok(())
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
}
