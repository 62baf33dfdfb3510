//! The tables and figures of `ebm reproduce detection`.

use std::path::Path;

use anyhow::Result;
use ebm_detect::config::{MethodConfig, TradeConfig};
use ebm_detect::reproduce::{AblationRow, Row, StepLengthRow, TradeRow};
use ebm_eval::{Spread, Summary, Table};
use ebm_plot::{PointPanel, PointPlot};

/// Mean ± sample standard deviation.
fn cell(values: &[f64], decimals: usize) -> Result<String> {
    Ok(Summary::new(values)?.cell(Spread::StandardDeviation, decimals))
}

fn percent<'a, R: 'a>(rows: impl IntoIterator<Item = &'a R>, value: impl Fn(&R) -> f64) -> Vec<f64> {
    rows.into_iter().map(|row| 100.0 * value(row)).collect()
}

/// The rows of `methods`, Table 2 or the objectives, over seeds, beside published figures.
pub fn table2(methods: &[MethodConfig], rows: &[Row]) -> Result<Table> {
    let mut table = Table::new([
        "method",
        "AP",
        "AP50",
        "AP75",
        "AP90",
        "AP before",
        "frames/s",
        "boxes/s",
        "paper: AP",
        "AP50",
        "AP75",
        "FPS",
    ]);
    for method in methods {
        let mut own: Vec<&Row> = rows.iter().filter(|row| row.method == method.key).collect();
        if own.is_empty() {
            continue;
        }
        if !method.is_trained() {
            // One detector, whatever the seed: a spread of zero would claim more than was measured.
            own.truncate(1);
        }
        let some = |value: fn(&Row) -> Option<f64>, factor: f64, decimals| -> Result<String> {
            let values: Vec<f64> = own.iter().filter_map(|row| value(row)).map(|v| factor * v).collect();
            if values.is_empty() { Ok("–".into()) } else { cell(&values, decimals) }
        };
        let mut cells = vec![
            method.title.clone(),
            cell(&percent(own.iter().copied(), |r| r.precision.ap), 1)?,
            cell(&percent(own.iter().copied(), |r| r.precision.ap50), 1)?,
            cell(&percent(own.iter().copied(), |r| r.precision.ap75), 1)?,
            cell(&percent(own.iter().copied(), |r| r.precision.ap90), 1)?,
            some(|r| r.ap_before, 100.0, 1)?,
            some(|r| Some(r.frames_per_second), 1.0, 1)?,
            some(|r| r.boxes_per_second, 1.0, 0)?,
        ];
        let figure = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.1}"));
        cells.extend([0, 1, 2].map(|i| figure(method.published.map(|published| published.ap[i]))));
        cells.push(figure(method.published.and_then(|published| published.fps)));
        table.push(cells)?;
    }
    Ok(table)
}

/// Table 1 with the supplement's rows.
pub fn table1(rows: &[AblationRow]) -> Result<Table> {
    let mut table = Table::new(["L", "σ", "AP", "AP75", "AP before", "step factor", "paper: AP"]);
    for own in rows.chunk_by(|a, b| a.sigmas == b.sigmas) {
        let sigmas: Vec<String> = own[0].sigmas.iter().map(f64::to_string).collect();
        table.push([
            sigmas.len().to_string(),
            sigmas.join(", "),
            cell(&percent(own, |r| r.precision.ap), 1)?,
            cell(&percent(own, |r| r.precision.ap75), 1)?,
            cell(&percent(own, |r| r.ap_before), 1)?,
            own[0].step_factor.to_string(),
            format!("{:.2}", own[0].published),
        ])?;
    }
    Ok(table)
}

/// Figure 3a as a table, beside its published points.
pub fn figure3a(published: &[TradeConfig], rows: &[TradeRow]) -> Result<Table> {
    let mut table = Table::new(["T", "AP", "AP75", "frames/s", "paper: AP", "FPS"]);
    for TradeConfig { steps, published: [ap, fps] } in published {
        let own: Vec<&TradeRow> = rows.iter().filter(|row| row.steps == *steps).collect();
        let rates: Vec<f64> = own.iter().map(|row| row.frames_per_second).collect();
        table.push([
            steps.to_string(),
            cell(&percent(own.iter().copied(), |r| r.precision.ap), 1)?,
            cell(&percent(own.iter().copied(), |r| r.precision.ap75), 1)?,
            cell(&rates, 1)?,
            format!("{ap:.2}"),
            format!("{fps:.1}"),
        ])?;
    }
    Ok(table)
}

/// Figure 3a: AP and speed over T, as `trade.svg` and `.png`.
pub fn plot_figure3a(run: &Path, published: &[TradeConfig], rows: &[TradeRow]) -> Result<()> {
    let points = |value: &dyn Fn(&TradeRow) -> f64| -> Result<Vec<[f64; 3]>> {
        let at = |&TradeConfig { steps, .. }: &TradeConfig| {
            let own = rows.iter().filter(|row| row.steps == steps).map(value);
            let summary = Summary::new(&own.collect::<Vec<f64>>())?;
            Ok([steps as f64, summary.mean, summary.spread(Spread::StandardDeviation).unwrap_or(0.0)])
        };
        published.iter().map(at).collect()
    };
    let panels = [
        PointPanel {
            title: "AP in %".to_owned(),
            points: points(&|row| 100.0 * row.precision.ap)?,
            connected: true,
        },
        PointPanel {
            title: "frames per second".to_owned(),
            points: points(&|row| row.frames_per_second)?,
            connected: true,
        },
    ];
    let figure = PointPlot { x_label: "number of gradient ascent iterations T", panels: &panels };
    ebm_plot::write(&figure, &run.join("trade"))?;
    Ok(())
}

/// The search for step lengths; the best of each method first.
pub fn step_lengths(methods: &[MethodConfig], rows: &[StepLengthRow]) -> Result<Table> {
    let mut table = Table::new(["method", "λ position", "λ size", "η", "AP"]);
    for method in methods {
        let mut own: Vec<&StepLengthRow> = rows.iter().filter(|row| row.method == method.key).collect();
        own.sort_by(|a, b| b.ap.total_cmp(&a.ap));
        for row in own {
            table.push([
                method.title.clone(),
                row.position.to_string(),
                row.size.to_string(),
                row.decay.to_string(),
                format!("{:.2}", 100.0 * row.ap),
            ])?;
        }
    }
    Ok(table)
}
