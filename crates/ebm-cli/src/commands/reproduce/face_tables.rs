//! The tables of `ebm reproduce age` and `head-pose`, for readers and as CSV.

use std::path::Path;

use anyhow::Result;
use ebm_eval::{Spread, Summary, Table};
use ebm_experiment::PairedDifference;
use ebm_face::config::ExperimentConfig;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{AblationRow, Band, Data, DensityRow, Outcome, Row};
use serde::Serialize;

use crate::machine::{Machine, today};

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
            published(method.published),
            published(method.published_refined),
        ])?;
    }
    for row in &config.quoted {
        let none = || "–".to_owned();
        let published = format!("{:.2}", row.published);
        table.push([row.title.clone(), none(), none(), none(), published, none()])?;
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
    for quoted in &config.quoted {
        let none = config.coordinates.iter().map(|_| "–".to_owned());
        let figures = quoted.published_coordinates.iter().map(|figure| format!("{figure:.2}"));
        table.push(std::iter::once(quoted.title.clone()).chain(none).chain(figures))?;
    }
    Ok(table)
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
pub fn calibration(rows: &[DensityRow]) -> Result<Table> {
    let names =
        rows.first().map(density_figures).unwrap_or_default().into_iter().map(|(name, _)| name.to_owned());
    let mut table = Table::new(["method".to_owned(), "of".to_owned()].into_iter().chain(names));
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let group = (row.method.as_str(), row.coordinate.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (method, coordinate) in groups {
        let own =
            rows.iter().filter(|row| (row.method.as_str(), row.coordinate.as_str()) == (method, coordinate));
        let figures: Vec<Vec<(&str, f64)>> = own.map(density_figures).collect();
        let count = figures.first().map_or(0, Vec::len);
        let mean = |k: usize| figures.iter().map(|row| row[k].1).sum::<f64>() / figures.len() as f64;
        let cells = (0..count).map(|k| format!("{:.2}", mean(k)));
        table.push([method.to_owned(), coordinate.to_owned()].into_iter().chain(cells))?;
    }
    Ok(table)
}

/// What refinement changes, the mean over folds.
pub fn paired(config: &ExperimentConfig, outcome: &Outcome) -> Result<Table> {
    let mut table = Table::new(["method", "fold", "difference", "95 %", "nearer", "best λ"]);
    for row in &outcome.paired {
        let all = outcome.by_step_length.iter();
        let own = all.filter(|other| other.method == row.method && other.fold == row.fold);
        let best = own.map(|other| &other.figures).min_by(|a, b| a.mae.total_cmp(&b.mae));
        let PairedDifference { mean, interval: [low, high], lower } = row.figures;
        table.push([
            config.method(&row.method)?.title.clone(),
            row.fold.map_or_else(|| "–".into(), |fold| fold.to_string()),
            format!("{mean:+.3}"),
            format!("{low:+.3} to {high:+.3}"),
            format!("{lower:.2}"),
            best.map_or_else(|| "–".into(), |best| best.step_length.to_string()),
        ])?;
    }
    Ok(table)
}

/// The studies of the energy model.
pub fn ablation(config: &ExperimentConfig, outcome: &Outcome) -> Result<Table> {
    let mut table = Table::new(["σ or objective", "λ", "MAE", "before", "lowered", "paper: MAE"]);
    for row in &outcome.ablation {
        let title = |key: &String| {
            let known = config.objectives.iter().find(|objective| objective.key == *key);
            known.map_or_else(|| "the table's own".to_owned(), |objective| objective.title.clone())
        };
        table.push([
            row.objective.as_ref().map_or_else(|| sigmas(row, ", "), title),
            row.step_length.to_string(),
            format!("{:.2}", row.mae),
            format!("{:.2}", row.mae_before),
            row.lowered.to_string(),
            row.published.map_or_else(|| "–".into(), |mae| format!("{mae:.2}")),
        ])?;
    }
    Ok(table)
}

/// A CSV file with a header.
fn write(path: &Path, header: &[&str], rows: impl IntoIterator<Item = impl Serialize>) -> Result<()> {
    let mut file = csv::Writer::from_path(path)?;
    file.write_record(header)?;
    for row in rows {
        file.serialize(row)?;
    }
    Ok(file.flush()?)
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}

/// `results.csv`, a row for each method, seed, before and after refinement, `calibration.csv` where densities were
/// calibrated, and `ablation.csv` where energy models were compared; each of their rows begins with when, on what and
/// with which images it was measured. Beside them [`effect_files`].
pub fn csv_files(
    run: &Path,
    config: &ExperimentConfig,
    scale: &str,
    data: &Data,
    outcome: &Outcome,
) -> Result<()> {
    let (date, device) = (today(), Machine::here().short());
    let taken = |split, images: usize| (&date, &device, scale, split, images);
    let measured = || taken(outcome.part, outcome.images);
    // Only where there are folds.
    let folds = outcome.rows.iter().any(|row| row.fold.is_some());
    let fold: &[&str] = if folds { &["fold"] } else { &[] };
    let of = |fold: Option<usize>| fold.into_iter().collect::<Vec<_>>();
    let common = ["date", "device", "scale", "split", "images"];
    // One coordinate is the mean itself.
    let angles: Vec<&str> =
        config.coordinates.iter().filter(|_| config.dim() > 1).map(String::as_str).collect();
    let header = [&common[..], fold, &["method", "refined", "seed", "mae"], &angles, &["nll"]].concat();
    let rows = outcome.rows.iter().map(|row| {
        let errors: Vec<String> = row.coordinates.iter().take(angles.len()).copied().map(number).collect();
        let key = (&row.method, row.refined, row.seed, number(row.mae));
        (measured(), of(row.fold), key, errors, row.nll.map(number))
    });
    write(&run.join("results.csv"), &header, rows)?;
    if let Some(first) = outcome.calibration.first() {
        let figures: Vec<&str> = density_figures(first).into_iter().map(|(name, _)| name).collect();
        let header = [&common[..], fold, &["method", "seed", "coordinate"], &figures].concat();
        let rows = outcome.calibration.iter().map(|row| {
            let figures: Vec<String> = density_figures(row).into_iter().map(|(_, f)| number(f)).collect();
            (measured(), of(row.fold), (&row.method, row.seed, &row.coordinate), figures)
        });
        write(&run.join("calibration.csv"), &header, rows)?;
    }
    if !outcome.ablation.is_empty() {
        let figures = ["objective", "seed", "step_length", "mae", "mae_before", "lowered", "published"];
        let rows = outcome.ablation.iter().map(|row| {
            let what = row.objective.clone().unwrap_or_else(|| format!("sigmas {}", sigmas(row, " ")));
            let mae = [row.mae, row.mae_before].map(number);
            let figures = (what, 0, row.step_length, mae, row.lowered, row.published);
            (taken("validation", data.validation.faces.len()), figures)
        });
        write(&run.join("ablation.csv"), &[&common[..], &figures].concat(), rows)?;
    }
    effect_files(run, outcome)
}

/// `paired.csv`, `bands.csv` and `step_lengths.csv`: what refinement changes, where it does, and what other λ would.
fn effect_files(run: &Path, outcome: &Outcome) -> Result<()> {
    if !outcome.paired.is_empty() {
        let rows = outcome.paired.iter().map(|row| {
            let PairedDifference { mean, interval: [low, high], lower } = row.figures;
            (row.fold, &row.method, [mean, low, high, lower].map(number))
        });
        write(&run.join("paired.csv"), &["fold", "method", "difference", "low", "high", "nearer"], rows)?;
        let rows = outcome.by_step_length.iter();
        let rows = rows.map(|row| (row.fold, &row.method, row.figures.step_length, number(row.figures.mae)));
        write(&run.join("step_lengths.csv"), &["fold", "method", "step_length", "mae"], rows)?;
    }
    if !outcome.bands.is_empty() {
        let header =
            ["method", "from", "to", "images", "mae", "mae_refined", "bias", "bias_refined", "slope"];
        let rows = outcome.bands.iter().map(|row| {
            let Band { range, images, mae, bias, slope } = &row.figures;
            (&row.method, range.map(number), images, mae.map(number), bias.map(number), number(*slope))
        });
        write(&run.join("bands.csv"), &header, rows)?;
    }
    Ok(())
}

/// σ of a proposal.
fn sigmas(row: &AblationRow, separator: &str) -> String {
    row.sigmas.iter().map(f64::to_string).collect::<Vec<_>>().join(separator)
}
