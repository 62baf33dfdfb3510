//! `ebm eval table`, and the report of a fit.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_eval::calibration::calibration_curve;
use ebm_plot::{DensityCurves, DensityMaps, DensityPanel, LinePlot, PointPanel, PointPlot};
use ebm_tabular::{
    DensityEvaluation, Evaluation, Prediction, Table, TabularRegressor, Target, TargetDensity,
    TargetEvaluation, evaluate_predictions,
};
use serde_json::{Value, json};

use super::{create_dir, dataset_name};
use crate::model_path::ModelPath;
use crate::schema::document;
use crate::table_file::{TableFile, say_unknown};
use crate::table_spec::TableSpec;

/// Arguments of `ebm eval table`.
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    file: TableFile,
    /// Folder of a fit, or hub:OWNER/NAME.
    #[arg(long)]
    run: ModelPath,
    /// Folder for a report with pictures; by default none is written.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TableArgs) -> Result<()> {
    let regressor = TabularRegressor::open(&args.run.local()?)?;
    let table = args.file.read()?;
    let encoded = regressor.encode(&table)?;
    say_unknown(&encoded.unknown);
    let predictions = regressor.predictions(&table, &encoded)?.collect::<ebm_tabular::Result<Vec<_>>>()?;
    let found = evaluate_predictions(&regressor, &table, &predictions)?;
    if let Some(out) = &args.out {
        create_dir(out)?;
        report(&regressor, &table, &predictions, &found, "", out)?;
    }
    if args.json {
        let mut body = figures(&regressor, &found);
        body["dataset"] = dataset_name(&args.file.data).into();
        println!("{}", document("eval table", body));
    } else {
        println!("{}", describe(&found)?);
    }
    Ok(())
}

/// Returns the metrics as an object.
pub fn figures(regressor: &TabularRegressor, found: &Evaluation) -> Value {
    json!({
        "method": regressor.fitted().method, "samples": found.samples, "log_likelihood": found.log_likelihood,
        "log_likelihood_error": found.log_likelihood_error, "targets": found.targets,
        "calibrated": regressor.is_calibrated(),
    })
}

/// Returns the metrics as a Markdown table.
pub fn describe(found: &Evaluation) -> Result<String> {
    let together = found.log_likelihood.map_or_else(String::new, |mean| {
        format!("{mean:.3} ± {:.3}", found.log_likelihood_error.unwrap_or(f64::NAN))
    });
    TableSpec::new()
        .text("target", |target: &&TargetEvaluation| target.name.clone())
        .text("log-likelihood", |_| together.clone())
        .number("RMSE", 4, |target| target.rmse)
        .number("MAE", 4, |target| target.mae)
        .number("CRPS", 4, |target| target.density.as_ref().map(|density| density.crps))
        .number("90 % holds", 4, |target| target.density.as_ref().map(|density| density.coverage))
        .number("calibrated", 4, |target| target.density.as_ref().map(|density| density.conformal_coverage))
        .number("width", 4, |target| target.density.as_ref().map(|density| density.conformal_width))
        .render(&found.targets)
}

/// Writes `report.md` and its pictures into `out`: metrics, densities of rows, calibration and residuals, and the table
/// `importance` of the columns' importance, if it is not empty.
pub fn report(
    regressor: &TabularRegressor,
    table: &Table,
    predictions: &[Prediction],
    found: &Evaluation,
    importance: &str,
    out: &Path,
) -> Result<()> {
    let calibrated = if regressor.is_calibrated() {
        "calibrated on rows that nothing was learnt from"
    } else {
        "as predicted"
    };
    let mut text = format!(
        "# A fit of {} to {} rows\n\n{} rows that were not learnt from; regions are {calibrated}.\n\n{}\n",
        regressor.fitted().method,
        regressor.fitted().rows,
        found.samples,
        describe(found)?
    );
    for (k, target) in found.targets.iter().enumerate() {
        let Some(density) = &target.density else { continue };
        let stem = format!("target{}", k + 1);
        let place = |name: &str| out.join(format!("{stem}_{name}"));
        writeln!(text, "\n## {}\n", target.name)?;
        let mass = regressor.mass(k, 0.9)?;
        let widths = predictions.iter().map(|prediction| prediction.targets[k].width(mass));
        let widths = widths.collect::<ebm_tabular::Result<Vec<f64>>>()?;
        for (row, name) in chosen(&widths) {
            draw_density(&predictions[row].targets[k], mass, &target.name, name, &place(name))?;
            writeln!(text, "![p(y|x) of line {}, of {name} region]({stem}_{name}.png)\n", table.line(row))?;
        }
        let y = Target::read(&regressor.fitted().targets[k].spec(), table)?;
        draw_tenths(predictions, &y, k, &place("tenths"))?;
        draw_calibration(density, &place("calibration"))?;
        draw_histogram(&density.pit, &place("pit"))?;
        draw_residuals(predictions, &y, k, &widths, &place("residuals"))?;
        for (name, meaning) in PICTURES {
            writeln!(text, "{meaning}\n\n![{name}]({stem}_{name}.png)\n")?;
        }
    }
    if !importance.is_empty() {
        let meaning = "Rise of the mean of −log p, in nats, if the cells of a column are permuted among the rows: the mean, \
                       the least and the largest of five permutations.";
        writeln!(text, "\n## Importance of the columns\n\n{meaning}\n\n{importance}")?;
    }
    Ok(write_atomic(&out.join("report.md"), text.as_bytes())?)
}

/// Names of a target's pictures beside those of rows, and their meanings.
const PICTURES: [(&str, &str); 4] = [
    (
        "tenths",
        "One density for each tenth of the rows by their predicted mean, and what was observed in all rows:",
    ),
    ("calibration", "How often y lies below each predicted quantile; the closer to the diagonal the better:"),
    (
        "pit",
        "F(y), the predicted probability of a lower value. Even bars are ideal; high ends mean that densities are too \
             narrow, and a high middle that they are too wide:",
    ),
    ("residuals", "The errors of the medians:"),
];

/// Draws how often y lies below each predicted quantile, as a picture at `place`.
fn draw_calibration(density: &DensityEvaluation, place: &Path) -> Result<()> {
    let levels: Vec<f64> = (0..=20).map(|level| f64::from(level) / 20.0).collect();
    let observed = calibration_curve(&density.pit, &levels)?;
    let curves = [("observed".to_owned(), observed), ("ideal".to_owned(), levels)]
        .map(|(name, curve)| (name, curve.into_iter().map(|share| 100.0 * share).collect::<Vec<f64>>()));
    let figure = LinePlot {
        title: "How often y lies below a predicted quantile, in %",
        x_label: "the quantile's probability in per cent",
        x: 0.0..100.0,
        y: 0.0..100.0,
        curves: &curves,
    };
    ebm_plot::write(&figure, place)?;
    Ok(())
}

/// Returns the shares of the values, from 0 to 1, that lie in each tenth.
fn shares(values: &[f64]) -> [f64; 10] {
    let mut shares = [0.0; 10];
    for value in values {
        shares[((10.0 * value) as usize).min(9)] += 1.0 / values.len() as f64;
    }
    shares
}

/// Draws how many rows have their F(y) in each tenth, as a picture at `place`.
fn draw_histogram(pit: &[f64], place: &Path) -> Result<()> {
    let shares = shares(pit).map(|share| 100.0 * share);
    // 100 points for each bar, so that its sides are steep.
    let bars = shares.iter().flat_map(|share| [*share; 100]).collect();
    let figure = LinePlot {
        title: "Share of the rows whose F(y) is in each tenth, in %",
        x_label: "F(y), the predicted probability of a lower value, in per cent",
        x: 0.0..100.0,
        y: 0.0..1.1 * shares.into_iter().fold(10.0, f64::max),
        curves: &[("observed".to_owned(), bars), ("ideal".to_owned(), vec![10.0; 2])],
    };
    ebm_plot::write(&figure, place)?;
    Ok(())
}

/// Draws p(y|x) of the middle row of each tenth of the rows by their predicted mean, and the y of all rows, as a picture at
/// `place`.
fn draw_tenths(predictions: &[Prediction], y: &[Option<f64>], k: usize, place: &Path) -> Result<()> {
    let mut order: Vec<usize> = (0..predictions.len()).collect();
    order.sort_by(|a, b| predictions[*a].mean[k].total_cmp(&predictions[*b].mean[k]));
    let middle = |tenth: usize| &predictions[order[(2 * tenth + 1) * order.len() / 20]].targets[k];
    let densities: Vec<&TargetDensity> = (0..10).map(middle).collect();
    let end = |probability, best: fn(f64, f64) -> f64| {
        let ends = densities.iter().map(|density| density.quantile(probability));
        ends.reduce(|a, b| Ok(best(a?, b?))).transpose().map(Option::unwrap_or_default)
    };
    let (low, high) = (end(0.001, f64::min)?, end(0.999, f64::max)?);
    let step = (high - low) / CELLS as f64;
    let mass = |density: &TargetDensity, cell: usize| {
        let [from, to] = [cell, cell + 1].map(|cell| density.cdf(low + step * cell as f64));
        ((to - from) / step).max(0.0)
    };
    let column = |density: &&TargetDensity| (0..CELLS).map(|cell| mass(density, cell)).collect::<Vec<f64>>();
    let columns: Vec<Vec<f64>> = densities.iter().map(column).flat_map(|column| vec![column; 20]).collect();
    let part = |rank: usize| 10.0 * (rank as f64 + 0.5) / order.len() as f64;
    let points = order.iter().enumerate().filter_map(|(rank, row)| Some((part(rank), y[*row]?)));
    let (density, points) = (&*columns, &*points.collect::<Vec<_>>());
    let figure = DensityMaps {
        x: 0.0..10.0,
        y: low + 0.5 * step..high - 0.5 * step,
        names: ["tenths of the rows by their predicted mean", densities[0].target().name.as_str()],
        panels: &[DensityPanel { title: "p(y|x) of the middle row, and y of all rows", density, points }],
    };
    ebm_plot::write(&figure, place)?;
    Ok(())
}

/// Number of steps of y in that picture.
const CELLS: usize = 200;
/// Largest number of rows in a picture of residuals.
const MAX_RESIDUALS: usize = 200;

/// Draws y less the median for rows spread evenly over the table, as a picture at `place`.
fn draw_residuals(
    predictions: &[Prediction],
    y: &[Option<f64>],
    k: usize,
    widths: &[f64],
    place: &Path,
) -> Result<()> {
    let mut points = vec![];
    for row in (0..predictions.len()).step_by(predictions.len().div_ceil(MAX_RESIDUALS).max(1)) {
        let Some(y) = y[row] else { continue };
        let median = predictions[row].targets[k].quantile(0.5)?;
        points.push([median, y - median, 0.5 * widths[row]]);
    }
    let title = "y less the median, ± half the width of the 90 % region".to_owned();
    let x_label = &format!("the median of {}", predictions[0].targets[k].target().name);
    let figure = PointPlot { x_label, panels: &[PointPanel { title, points, connected: false }] };
    ebm_plot::write(&figure, place)?;
    Ok(())
}

/// Returns the rows with the narrowest, the middle and the widest region.
fn chosen(widths: &[f64]) -> [(usize, &'static str); 3] {
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by(|a, b| widths[*a].total_cmp(&widths[*b]));
    [(order[0], "narrowest"), (order[order.len() / 2], "middle"), (order[order.len() - 1], "widest")]
}

/// Draws p(y|x) of a row with its region of this `mass`, as a picture at `place`. `which` says how its region ranks by
/// width.
fn draw_density(density: &TargetDensity, mass: f64, name: &str, which: &str, place: &Path) -> Result<()> {
    // The outermost thousandths are left out, so that a narrow density can be seen.
    let [low, high] = [density.quantile(0.001)?, density.quantile(0.999)?];
    let curve = density.curve().into_iter().filter(|[y, p]| (low..=high).contains(y) && p.is_finite());
    let (grid, p): (Vec<f64>, Vec<f64>) = curve.map(|[y, p]| (y, p)).unzip();
    let figure = DensityCurves {
        title: &format!("The {which} of the 90 % regions"),
        y_label: name,
        grid: &grid,
        curves: &[("p(y|x)".to_owned(), p)],
        regions: &density.region(mass)?,
        marks: &[(density.quantile(0.5)?, "median".to_owned())],
    };
    ebm_plot::write(&figure, place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_ten_even_bars_for_even_values() {
        let even: Vec<f64> = (0..=100).map(|k| f64::from(k) / 100.0).collect();
        let found = shares(&even).map(|share| (101.0 * share).round());
        // The last bar has 0.90, 0.91, … and 1.
        assert_eq!(found, [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 11.0]);
        assert_eq!(shares(&[0.0, 1.0, 0.55, 0.55]), [0.25, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.25]);
    }
}
