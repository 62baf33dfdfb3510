//! Tables of `ebm reproduce tracking`, and its figure.

use std::path::Path;

use anyhow::Result;
use ebm_plot::LinePlot;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::{Comparison, HeldOutRow, Row};

use crate::table_spec::{Group, TableSpec, group_by_key, grouped, joined};

/// Draws Figure 3b for the first dataset, as `success.svg` and `success.png`.
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

/// Returns all tables as Markdown. Results at paper scale have the paper's beside them.
pub fn tables(
    is_ablation: bool,
    config: &ExperimentConfig,
    outcome: &Comparison,
    with_paper: bool,
) -> Result<String> {
    let mut text = String::new();
    let mut section = |title: &str, table: String| text += &format!("{title}\n\n{table}\n\n");
    if !outcome.held_out.is_empty() {
        section("held-out boxes, overlap in percent ± standard error", held_out(outcome)?);
    }
    for Group { key: dataset, rows } in grouped(&outcome.rows, |row| row.dataset.as_str()) {
        section(
            dataset,
            if is_ablation { sigma(config, &rows)? } else { methods(config, &rows, with_paper)? },
        );
    }
    if !is_ablation {
        section("Table 3 of the paper", paper(config)?);
    }
    Ok(text)
}

/// Rows of a method, with its title and three results of the paper: OP50, OP75 and AUC.
type Line<'a> = Group<'a, (String, [Option<f64>; 3]), Row>;

/// Returns the table of the methods on a dataset. The paper's results are on UAV123.
fn methods(config: &ExperimentConfig, rows: &[&Row], with_paper: bool) -> Result<String> {
    let own = group_by_key(&config.methods, rows.iter().copied(), |method, row| row.method == method.key);
    let own = own.into_iter().map(|Group { key, rows }| {
        let paper = key.published.map_or([None; 3], |published| published.uav123.map(Some));
        Group { key: (key.title.clone(), paper), rows }
    });
    let mut table = TableSpec::new()
        .text("method", |line: &Line<'_>| line.key.0.clone())
        .spread("AUC", 1, |line| line.each(|row| row.figures.auc))
        .spread("OP50", 1, |line| line.each(|row| row.figures.op50))
        .spread("OP75", 1, |line| line.each(|row| row.figures.op75))
        .spread("precision", 1, |line| line.each(|row| row.figures.precision))
        .spread("norm. precision", 1, |line| line.each(|row| row.figures.norm_precision))
        .spread("frames/s", 1, |line| line.each(|row| row.frames_per_second));
    if with_paper {
        table = table.numbers(["paper, UAV123: OP50", "OP75", "AUC"], 1, |line, k| line.key.1[k]);
    }
    table.render(own)
}

/// Returns the table of held-out boxes before and after refinement.
fn held_out(outcome: &Comparison) -> Result<String> {
    let with_error = |mean: f64, error: Option<f64>| match error {
        Some(error) => format!("{:.2} ± {:.2}", 100.0 * mean, 100.0 * error),
        None => format!("{:.2}", 100.0 * mean),
    };
    TableSpec::new()
        .text("set", |row: &&HeldOutRow| row.set.clone())
        .text("method", |row| row.method.clone())
        .text("seed", |row| row.seed)
        .text("pairs", |row| row.pairs)
        .text("boxes", |row| row.boxes)
        .text("before", |row| with_error(row.before, row.before_error))
        .text("after", |row| with_error(row.after, row.after_error))
        .render(&outcome.held_out)
}

/// Returns the table of the supplement's ablation. The paper's results are on OTB-100 and NFS together.
fn sigma(config: &ExperimentConfig, rows: &[&Row]) -> Result<String> {
    let groups = group_by_key(&config.ablation, rows.iter().copied(), |ablated, row| {
        config.method(&row.method).is_ok_and(|method| method.title == joined(&ablated.sigmas, ", "))
    });
    let lines = groups
        .into_iter()
        .map(|Group { key, rows }| Group { key: (joined(&key.sigmas, ", "), key.published.map(Some)), rows });
    TableSpec::new()
        .text("σ", |line: &Line<'_>| line.key.0.clone())
        .spread("OP50", 1, |line| line.each(|row| row.figures.op50))
        .spread("OP75", 1, |line| line.each(|row| row.figures.op75))
        .spread("AUC", 1, |line| line.each(|row| row.figures.auc))
        .numbers(["paper: OP50", "OP75", "AUC"], 2, |line, k| line.key.1[k])
        .render(lines)
}

/// Returns the paper's Table 3, with a row for each tracker. TrackingNet's results come from its server.
fn paper(config: &ExperimentConfig) -> Result<String> {
    let rivals = config.rivals.iter().map(|rival| {
        let uav123 = [rival.uav123.op50, rival.uav123.op75, rival.uav123.auc];
        (rival.name.clone(), rival.tracking_net, uav123)
    });
    let methods = config.methods.iter().filter_map(|method| {
        let published = method.published?;
        Some((method.title.clone(), published.tracking_net, published.uav123.map(Some)))
    });
    type Published = (String, [f64; 3], [Option<f64>; 3]);
    TableSpec::new()
        .text("tracker", |(name, ..): &Published| name.clone())
        .numbers(["TrackingNet: precision", "norm. precision", "success"], 1, |(_, figures, _), k| figures[k])
        .numbers(["UAV123: OP50", "OP75", "AUC"], 1, |(.., figures), k| figures[k])
        .render(rivals.chain(methods))
}
