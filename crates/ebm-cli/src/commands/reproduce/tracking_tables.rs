//! The tables of `ebm reproduce tracking`, and its figure.

use std::path::Path;

use anyhow::Result;
use ebm_eval::{Spread, Summary, Table};
use ebm_plot::LinePlot;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::{Comparison, Row};
use ebm_track::{Quoted, RivalConfig};

/// `success.svg` and `.png`, Figure 3b, of the first dataset.
pub fn success(run: &Path, config: &ExperimentConfig, outcome: &Comparison) -> Result<()> {
    let Some(first) = outcome.curves.first() else { return Ok(()) };
    let own = outcome.curves.iter().filter(|curve| curve.dataset == first.dataset);
    let curves: Vec<(String, Vec<f64>)> = own
        .map(|curve| {
            let auc = curve.success.iter().sum::<f64>() / curve.success.len() as f64;
            let title = config.method(&curve.method).map_or(&curve.method, |method| &method.title);
            (format!("{title} [{auc:.1}]"), curve.success.clone())
        })
        .collect();
    let figure = LinePlot {
        title: &format!("Success on {}: frames above the threshold, in %", first.dataset),
        x_label: "overlap threshold",
        x: 0.0..1.0,
        y: 0.0..100.0,
        curves: &curves,
    };
    ebm_plot::write(&figure, &run.join("success"))?;
    Ok(())
}

/// All tables as Markdown; with the paper's figures beside those of paper scale.
pub fn tables(
    is_ablation: bool,
    config: &ExperimentConfig,
    outcome: &Comparison,
    with_paper: bool,
) -> Result<String> {
    let mut datasets: Vec<&str> = Vec::new();
    for row in &outcome.rows {
        if !datasets.contains(&row.dataset.as_str()) {
            datasets.push(&row.dataset);
        }
    }
    let mut text = String::new();
    if !outcome.held_out.is_empty() {
        text.push_str(&format!(
            "held-out boxes, overlap in percent ± standard error\n\n{}\n\n",
            held_out(outcome)?.render()
        ));
    }
    for dataset in datasets {
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.dataset == dataset).collect();
        let table = if is_ablation { sigma(config, &rows)? } else { methods(config, &rows, with_paper)? };
        text.push_str(&format!("{dataset}\n\n{}\n\n", table.render()));
    }
    if !is_ablation {
        text.push_str(&format!("Table 3 of the paper\n\n{}\n\n", paper(config)?.render()));
    }
    Ok(text)
}

/// Mean ± sample standard deviation over seeds.
fn cell(rows: &[&Row], value: fn(&Row) -> f64) -> Result<String> {
    let values: Vec<f64> = rows.iter().map(|row| value(row)).collect();
    Ok(Summary::new(&values)?.cell(Spread::StandardDeviation, 1))
}

/// The methods on a dataset; the paper's figures are those on UAV123.
fn methods(config: &ExperimentConfig, rows: &[&Row], with_paper: bool) -> Result<Table> {
    let mut header = vec!["method", "AUC", "OP50", "OP75", "precision", "norm. precision", "frames/s"];
    if with_paper {
        header.extend(["paper, UAV123: OP50", "OP75", "AUC"]);
    }
    let mut table = Table::new(header);
    for method in &config.methods {
        let own: Vec<&Row> = rows.iter().copied().filter(|row| row.method == method.key).collect();
        if own.is_empty() {
            continue;
        }
        let rates: Vec<f64> = own.iter().filter_map(|row| row.frames_per_second).collect();
        let rate = match rates.as_slice() {
            [] => "–".to_owned(),
            rates => Summary::new(rates)?.cell(Spread::StandardDeviation, 1),
        };
        let mut cells = vec![
            method.title.clone(),
            cell(&own, |row| row.figures.auc)?,
            cell(&own, |row| row.figures.op50)?,
            cell(&own, |row| row.figures.op75)?,
            cell(&own, |row| row.figures.precision)?,
            cell(&own, |row| row.figures.norm_precision)?,
            rate,
        ];
        if with_paper {
            let published = method.published.map(|published| published.uav123);
            cells.extend([0, 1, 2].map(|i| figure(published.map(|uav123| uav123[i]))));
        }
        table.push(cells)?;
    }
    Ok(table)
}

/// The boxes that no module learned from, before and after refinement.
fn held_out(outcome: &Comparison) -> Result<Table> {
    let mut table = Table::new(["set", "method", "seed", "pairs", "boxes", "before", "after"]);
    for row in &outcome.held_out {
        let with_error = |mean: f64, error: Option<f64>| match error {
            Some(error) => format!("{:.2} ± {:.2}", 100.0 * mean, 100.0 * error),
            None => format!("{:.2}", 100.0 * mean),
        };
        let counts = [row.seed as usize, row.pairs, row.boxes].map(|count| count.to_string());
        let overlaps = [with_error(row.before, row.before_error), with_error(row.after, row.after_error)];
        let names = [row.set.clone(), row.method.clone()];
        table.push(names.into_iter().chain(counts).chain(overlaps))?;
    }
    Ok(table)
}

/// The supplement's ablation, whose figures are those on OTB-100 and NFS together.
fn sigma(config: &ExperimentConfig, rows: &[&Row]) -> Result<Table> {
    let mut table = Table::new(["σ", "OP50", "OP75", "AUC", "paper: OP50", "OP75", "AUC"]);
    for ablated in &config.ablation {
        let sigmas: Vec<String> = ablated.sigmas.iter().map(f64::to_string).collect();
        let title = sigmas.join(", ");
        let own = |row: &&Row| config.method(&row.method).is_ok_and(|method| method.title == title);
        let own: Vec<&Row> = rows.iter().copied().filter(own).collect();
        if own.is_empty() {
            continue;
        }
        let mut cells = vec![
            title,
            cell(&own, |row| row.figures.op50)?,
            cell(&own, |row| row.figures.op75)?,
            cell(&own, |row| row.figures.auc)?,
        ];
        cells.extend(ablated.published.map(|value| format!("{value:.2}")));
        table.push(cells)?;
    }
    Ok(table)
}

/// The paper's Table 3, every tracker a row. TrackingNet's figures come from its server alone.
fn paper(config: &ExperimentConfig) -> Result<Table> {
    let header =
        ["tracker", "TrackingNet: precision", "norm. precision", "success", "UAV123: OP50", "OP75", "AUC"];
    let mut table = Table::new(header);
    let mut push = |name: &str, tracking_net: [f64; 3], uav123: [Option<f64>; 3]| {
        let figures = tracking_net.map(Some).into_iter().chain(uav123).map(figure);
        table.push(std::iter::once(name.to_owned()).chain(figures))
    };
    for RivalConfig { name, tracking_net, uav123: Quoted { op50, op75, auc } } in &config.rivals {
        push(name, *tracking_net, [*op50, *op75, *auc])?;
    }
    for method in &config.methods {
        if let Some(published) = method.published {
            push(&method.title, published.tracking_net, published.uav123.map(Some))?;
        }
    }
    Ok(table)
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
}
