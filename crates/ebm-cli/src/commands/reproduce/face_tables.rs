//! The tables of `ebm reproduce age` and `head-pose`, for readers and as CSV.

use std::path::Path;

use anyhow::Result;
use ebm_face::config::ExperimentConfig;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{AblationRow, Data, DensityRow, Outcome, PairedRow, Row};

use crate::machine::{Machine, today};
use crate::table_spec::{Group, TableSpec, grouped};

/// A value of the rows of a method, before refinement or after.
fn each(outcome: &Outcome, method: &str, refined: bool, value: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    let rows = outcome.rows.iter().filter(|row| row.method == method && row.refined == refined);
    rows.filter_map(value).filter(|value| value.is_finite()).collect()
}

/// Published figures, of which there may be none: with their spread, or alone.
fn published(mean_and_spread: Option<[f64; 2]>) -> String {
    mean_and_spread.map_or_else(|| "–".into(), |[mean, spread]| format!("{mean:.2} ± {spread:.2}"))
}

/// What a row of a table is called, whose figures it has, and what was published of it.
struct Line<'a> {
    title: String,
    key: &'a str,
    refined: bool,
    published: Vec<String>,
}

/// Each method before and after refinement, then the energy model alone.
pub fn methods(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let line = |title: String, key, published: [String; 2]| (title, key, published);
    let methods = config.methods.iter().map(|method| {
        let figures = [method.published, method.published_refined].map(published);
        line(method.title.clone(), method.key.clone(), figures)
    });
    let quoted = config.quoted.iter().map(|row| {
        line(row.title.clone(), String::new(), [format!("{:.2}", row.published), published(None)])
    });
    let alone = ["mean", "median", "mode"].map(|name| {
        let title = format!("EBM alone, {name} of p(y|x)");
        line(title, format!("{ENERGY}_{name}"), [None, None].map(published))
    });
    let is_there = |key: &String| outcome.rows.iter().any(|row| row.method == *key);
    let alone = alone.into_iter().filter(|(_, key, _)| is_there(key));
    TableSpec::new()
        .text("method", |(title, ..): &(String, String, [String; 2])| title.clone())
        .spread("MAE", 2, |(_, key, _)| each(outcome, key, false, |row| Some(row.mae)))
        .spread("refined", 2, |(_, key, _)| each(outcome, key, true, |row| Some(row.mae)))
        .spread("NLL", 2, |(_, key, _)| each(outcome, key, false, |row| row.nll))
        .text("paper: MAE", |(.., figures)| figures[0].clone())
        .text("refined", |(.., figures)| figures[1].clone())
        .render(methods.chain(quoted).chain(alone))
}

/// The error of each coordinate before and after refinement, and the paper's.
pub fn coordinates(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let methods = config.methods.iter().flat_map(|method| {
        ["", ", refined"].into_iter().enumerate().map(move |(number, suffix)| {
            let figures = method.published_coordinates.as_ref().map(|parts| &parts[number]);
            let figure = |k: usize| published(figures.and_then(|figures| figures.get(k).copied()));
            let published = (0..config.dim()).map(figure).collect();
            let title = format!("{}{suffix}", method.title);
            Line { title, key: &method.key, refined: number == 1, published }
        })
    });
    let quoted = config.quoted.iter().map(|row| {
        let published = row.published_coordinates.iter().map(|figure| format!("{figure:.2}")).collect();
        Line { title: row.title.clone(), key: "", refined: false, published }
    });
    let mut table = TableSpec::new().text("method", |line: &Line| line.title.clone());
    for (k, name) in config.coordinates.iter().enumerate() {
        let of_row = move |row: &Row| row.coordinates.get(k).copied();
        table = table.spread(name, 2, move |line| each(outcome, line.key, line.refined, of_row));
    }
    for (k, name) in config.coordinates.iter().enumerate() {
        let title = if k == 0 { format!("paper: {name}") } else { name.clone() };
        table = table.text(title, move |line| line.published[k].clone());
    }
    table.render(methods.chain(quoted))
}

/// The figures of a [`DensityRow`] and their columns.
fn density_figures(row: &DensityRow) -> Vec<(&'static str, f64)> {
    let c = &row.calibration;
    let mut figures = vec![
        ("nll", c.nll),
        ("crps", c.crps),
        ("ece", c.ece),
        ("coverage_50", c.coverage_50),
        ("width_50", c.width_50),
        ("conformal_coverage_50", c.conformal_coverage_50),
        ("conformal_width_50", c.conformal_width_50),
        ("coverage", c.coverage),
        ("width", c.width),
        ("conformal_coverage", c.conformal_coverage),
        ("conformal_width", c.conformal_width),
    ];
    figures
        .extend(["mae_25", "mae_50", "mae_75", "mae_100"].into_iter().zip(row.risk_coverage.iter().copied()));
    figures
}

/// What is known of the densities, the mean over folds and seeds.
pub fn calibration(rows: &[DensityRow]) -> Result<String> {
    type Own<'a> = Group<'a, (&'a String, &'a String), DensityRow>;
    let figures = rows.first().map(density_figures).unwrap_or_default();
    let mean = |group: &Own<'_>, k: usize| {
        let values = group.each(|row| density_figures(row)[k].1);
        values.iter().sum::<f64>() / values.len() as f64
    };
    TableSpec::new()
        .text("method", |group: &Own<'_>| group.key.0.clone())
        .text("of", |group| group.key.1.clone())
        .numbers(figures.iter().map(|(name, _)| *name), 2, mean)
        .render(grouped(rows, |row| (&row.method, &row.coordinate)))
}

/// What refinement changes, the mean over folds.
pub fn paired(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let rows = outcome.paired.iter().map(|row| Ok((config.method(&row.method)?.title.clone(), row)));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    TableSpec::new()
        .text("method", |(title, _): &(String, &PairedRow)| title.clone())
        .text("fold", |(_, row)| row.fold.map_or_else(|| "–".into(), |fold| fold.to_string()))
        .text("difference", |(_, row)| format!("{:+.3}", row.difference.mean))
        .text("95 %", |(_, row)| {
            format!("{:+.3} to {:+.3}", row.difference.interval[0], row.difference.interval[1])
        })
        .number("nearer", 2, |(_, row)| row.difference.lower)
        .render(rows)
}

/// The studies of the energy model.
pub fn ablation(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let title = |key: &String| {
        let known = config.objectives.iter().find(|objective| objective.key == *key);
        known.map_or_else(|| "the table's own".to_owned(), |objective| objective.title.clone())
    };
    TableSpec::new()
        .text("σ or objective", |row: &&AblationRow| {
            row.objective.as_ref().map_or_else(|| sigmas(row, ", "), title)
        })
        .full("λ", |row| row.step_length)
        .numbers(["MAE", "before"], 2, |row, k| [row.mae, row.mae_before][k])
        .text("lowered", |row| row.lowered)
        .number("paper: MAE", 2, |row| row.published)
        .render(&outcome.ablation)
}

/// Columns that begin every row of a CSV file: when, on what and with which images it was measured.
fn measured<R>(scale: &str, split: &str, images: usize) -> TableSpec<'static, R> {
    let values = [today(), Machine::here().short(), scale.to_owned(), split.to_owned(), images.to_string()];
    let named = ["date", "device", "scale", "split", "images"].into_iter().zip(values);
    named.fold(TableSpec::new(), |table, (name, value)| table.text(name, move |_| value.clone()))
}

/// `results.csv`, a row for each method, seed, before and after refinement, `calibration.csv` where densities were
/// calibrated, and `ablation.csv` where energy models were compared; each of their rows begins with when, on what and
/// with which images it was measured. Beside them `paired.csv`: what refinement changes.
pub fn csv_files(
    run: &Path,
    config: &ExperimentConfig,
    scale: &str,
    data: &Data,
    outcome: &Outcome,
) -> Result<()> {
    let number = |fold: Option<usize>| fold.map_or_else(String::new, |fold| fold.to_string());
    let (mut rows, mut densities) =
        (measured::<Row>(scale, outcome.part, outcome.images), measured(scale, outcome.part, outcome.images));
    // Only where there are folds.
    if outcome.rows.iter().any(|row| row.fold.is_some()) {
        rows = rows.text("fold", move |row| number(row.fold));
        densities = densities.text("fold", move |row: &DensityRow| number(row.fold));
    }
    rows = rows.text("method", |row| row.method.clone()).text("refined", |row| row.refined);
    rows = rows.text("seed", |row| row.seed).number("mae", 4, |row| row.mae);
    // One coordinate is the mean itself.
    let coordinates = config.coordinates.iter().filter(|_| config.dim() > 1);
    rows.numbers(coordinates, 4, |row, k| row.coordinates.get(k).copied())
        .number("nll", 4, |row| row.nll)
        .write_csv(&run.join("results.csv"), &outcome.rows)?;
    if let Some(first) = outcome.calibration.first() {
        densities = densities.text("method", |row| row.method.clone()).text("seed", |row| row.seed);
        densities = densities.text("coordinate", |row| row.coordinate.clone());
        let figures = density_figures(first).into_iter().map(|(name, _)| name);
        densities = densities.numbers(figures, 4, |row, k| density_figures(row)[k].1);
        densities.write_csv(&run.join("calibration.csv"), &outcome.calibration)?;
    }
    if !outcome.ablation.is_empty() {
        measured::<AblationRow>(scale, "validation", data.validation.faces.len())
            .text("objective", |row| {
                row.objective.clone().unwrap_or_else(|| format!("sigmas {}", sigmas(row, " ")))
            })
            .text("seed", |_| 0)
            .full("step_length", |row| row.step_length)
            .numbers(["mae", "mae_before"], 4, |row, k| [row.mae, row.mae_before][k])
            .text("lowered", |row| row.lowered)
            .full("published", |row| row.published)
            .write_csv(&run.join("ablation.csv"), &outcome.ablation)?;
    }
    if outcome.paired.is_empty() {
        return Ok(());
    }
    TableSpec::new()
        .text("fold", move |row: &PairedRow| number(row.fold))
        .text("method", |row| row.method.clone())
        .number("difference", 4, |row| row.difference.mean)
        .numbers(["low", "high"], 4, |row, k| row.difference.interval[k])
        .number("nearer", 4, |row| row.difference.lower)
        .write_csv(&run.join("paired.csv"), &outcome.paired)
}

/// σ of a proposal.
fn sigmas(row: &AblationRow, separator: &str) -> String {
    row.sigmas.iter().map(f64::to_string).collect::<Vec<_>>().join(separator)
}
