//! `ebm eval table`, and the report of a fit.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_eval::calibration::calibration_curve;
use ebm_plot::{DensityCurves, LinePlot, PointPanel, PointPlot};
use ebm_tabular::{
    DensityEvaluation, Evaluation, Prediction, Table, TabularRegressor, Target, TargetDensity,
    TargetEvaluation, evaluate,
};
use serde_json::{Value, json};

use super::{create_dir, dataset_name};
use crate::model_path::ModelPath;
use crate::schema::document;
use crate::table_file::TableFile;
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
    let (table, _) = args.file.read_for(&regressor)?;
    let found = evaluate(&regressor, &table)?;
    if let Some(out) = &args.out {
        create_dir(out)?;
        report(&regressor, &table, &found, "", out)?;
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

/// Writes `report.md` and its pictures into `out`: metrics, the densities of three rows, calibration and residuals, and the
/// table `importance` of the columns' importance, if it is not empty.
pub fn report(
    regressor: &TabularRegressor,
    table: &Table,
    found: &Evaluation,
    importance: &str,
    out: &Path,
) -> Result<()> {
    let predictions = regressor.predict(table)?;
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
        draw_calibration(density, &place("calibration"))?;
        draw_residuals(&predictions, table, &regressor.fitted().targets[k], k, &widths, &place("residuals"))?;
        writeln!(text, "![Calibration]({stem}_calibration.png)\n\n![Residuals]({stem}_residuals.png)\n")?;
    }
    if !importance.is_empty() {
        let meaning = "Rise of the mean of −log p, in nats, if the cells of a column are permuted among the rows: the mean, \
                       the least and the largest of five permutations.";
        writeln!(text, "\n## Importance of the columns\n\n{meaning}\n\n{importance}")?;
    }
    Ok(write_atomic(&out.join("report.md"), text.as_bytes())?)
}

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

/// Largest number of rows in a picture of residuals.
const MAX_RESIDUALS: usize = 200;

/// Draws y less the median for rows spread evenly over the table, as a picture at `place`.
fn draw_residuals(
    predictions: &[Prediction],
    table: &Table,
    target: &Target,
    k: usize,
    widths: &[f64],
    place: &Path,
) -> Result<()> {
    let y = Target::read(&target.spec(), table)?;
    let mut points = vec![];
    for row in (0..predictions.len()).step_by(predictions.len().div_ceil(MAX_RESIDUALS).max(1)) {
        let Some(y) = y[row] else { continue };
        let median = predictions[row].targets[k].quantile(0.5)?;
        points.push([median, y - median, 0.5 * widths[row]]);
    }
    let title = "y less the median, ± half the width of the 90 % region".to_owned();
    let x_label = &format!("the median of {}", target.name);
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
