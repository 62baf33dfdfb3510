//! The tables of `ebm reproduce age` and `head-pose`, for readers and as CSV.

use std::path::Path;

use anyhow::Result;
use ebm_bench::{Machine, today};
use ebm_data::faces::Faces;
use ebm_eval::{Spread, Summary, Table};
use ebm_face::config::ExperimentConfig;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{AblationRow, Data, Outcome, Row};

/// Mean ± standard deviation of a value of the rows of a method.
fn cell(
    outcome: &Outcome,
    method: &str,
    refined: bool,
    value: impl Fn(&Row) -> Option<f64>,
) -> Result<String> {
    let rows = outcome.rows.iter().filter(|row| row.method == method && row.refined == refined);
    let values: Vec<f64> = rows.filter_map(value).filter(|value| value.is_finite()).collect();
    if values.is_empty() {
        return Ok("–".into());
    }
    Ok(Summary::new(&values)?.cell(Spread::StandardDeviation, 2))
}

/// A published figure with its spread.
fn published(figure: Option<[f64; 2]>) -> String {
    figure.map_or_else(|| "–".into(), |[mean, spread]| format!("{mean:.2} ± {spread:.2}"))
}

/// Each method before and after refinement, then the energy model alone.
pub fn methods(config: &ExperimentConfig, outcome: &Outcome) -> Result<Table> {
    let mut table = Table::new(["method", "MAE", "refined", "NLL", "paper: MAE", "refined"]);
    let mae = |row: &Row| Some(row.mae);
    for method in &config.methods {
        table.push([
            method.title.clone(),
            cell(outcome, &method.key, false, mae)?,
            cell(outcome, &method.key, true, mae)?,
            cell(outcome, &method.key, false, |row| row.nll)?,
            published(Some(method.published)),
            published(method.published_refined),
        ])?;
    }
    for name in ["mean", "median", "mode"] {
        let key = format!("{ENERGY}_{name}");
        if outcome.rows.iter().any(|row| row.method == key) {
            let (mae, nll) = (cell(outcome, &key, false, mae)?, cell(outcome, &key, false, |row| row.nll)?);
            let (title, none) = (format!("EBM alone, {name} of p(y|x)"), || "–".to_owned());
            table.push([title, mae, none(), nll, none(), none()])?;
        }
    }
    Ok(table)
}

/// The error of each coordinate before and after refinement, and the paper's.
pub fn coordinates(config: &ExperimentConfig, outcome: &Outcome) -> Result<Table> {
    let names = config.coordinates.iter().cloned();
    let paper = config.coordinates.iter().enumerate();
    let paper = paper.map(|(k, name)| if k == 0 { format!("paper: {name}") } else { name.clone() });
    let mut table = Table::new(std::iter::once("method".to_owned()).chain(names).chain(paper));
    for method in &config.methods {
        for (number, suffix) in ["", ", refined"].into_iter().enumerate() {
            let mut row = vec![format!("{}{suffix}", method.title)];
            for k in 0..config.dim() {
                row.push(cell(outcome, &method.key, number == 1, |row| row.coordinates.get(k).copied())?);
            }
            for k in 0..config.dim() {
                let figures = method.published_coordinates.as_ref().map(|parts| &parts[number]);
                row.push(published(figures.and_then(|figures| figures.get(k).copied())));
            }
            table.push(row)?;
        }
    }
    Ok(table)
}

/// The supplement's study of σ.
pub fn ablation(outcome: &Outcome) -> Result<Table> {
    let mut table = Table::new(["σ", "λ", "MAE", "paper: MAE"]);
    for row in &outcome.ablation {
        table.push([
            sigmas(row, ", "),
            row.step_length.to_string(),
            format!("{:.2}", row.mae),
            format!("{:.2}", row.published),
        ])?;
    }
    Ok(table)
}

/// `results.csv`, a row for each method, seed, before and after refinement, and `sigma.csv` where proposals
/// were compared; each row begins with when, on what and with which images it was measured.
pub fn csv_files(
    run: &Path,
    config: &ExperimentConfig,
    scale: &str,
    data: &Data,
    outcome: &Outcome,
) -> Result<()> {
    let (date, device) = (today(), Machine::here().short());
    let taken = |split, faces: &Faces| (&date, &device, scale, split, faces.faces.len());
    let common = ["date", "device", "scale", "split", "images"];
    let number = |value: f64| format!("{value:.4}");

    let mut file = csv::Writer::from_path(run.join("results.csv"))?;
    // One coordinate is the mean itself.
    let angles: Vec<&str> =
        config.coordinates.iter().filter(|_| config.dim() > 1).map(String::as_str).collect();
    file.write_record([&common[..], &["method", "refined", "seed", "mae"], &angles, &["nll"]].concat())?;
    for row in &outcome.rows {
        let errors: Vec<String> = row.coordinates.iter().take(angles.len()).copied().map(number).collect();
        let key = (&row.method, row.refined, row.seed, number(row.mae));
        file.serialize((taken(outcome.part, data.results()), key, errors, row.nll.map(number)))?;
    }
    file.flush()?;
    if outcome.ablation.is_empty() {
        return Ok(());
    }
    let mut file = csv::Writer::from_path(run.join("sigma.csv"))?;
    file.write_record([&common[..], &["sigmas", "seed", "step_length", "mae", "published"]].concat())?;
    for row in &outcome.ablation {
        let figures = (sigmas(row, " "), 0, row.step_length, number(row.mae), row.published);
        file.serialize((taken("validation", &data.validation), figures))?;
    }
    Ok(file.flush()?)
}

/// σ of a proposal.
fn sigmas(row: &AblationRow, separator: &str) -> String {
    row.sigmas.iter().map(f64::to_string).collect::<Vec<_>>().join(separator)
}
