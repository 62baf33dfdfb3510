//! The tables and figures of `ebm reproduce detection`.

use std::path::Path;

use anyhow::Result;
use ebm_detect::config::{MethodConfig, TradeConfig};
use ebm_detect::reproduce::{AblationRow, Row, StepLengthRow, TradeRow};
use ebm_eval::{Spread, Summary};
use ebm_plot::{PointPanel, PointPlot};

use crate::table_spec::{Group, TableSpec, grouped, of_each};

/// The rows of `methods`, Table 2 or the objectives, over seeds, beside published figures.
pub fn table2(methods: &[MethodConfig], rows: &[Row]) -> Result<String> {
    let mut groups = of_each(methods, rows, |method, row| row.method == method.key);
    // One detector, whatever the seed: a spread of zero would claim more than was measured.
    groups.iter_mut().filter(|group| !group.key.is_trained()).for_each(|group| group.rows.truncate(1));
    TableSpec::new()
        .text("method", |group: &Group<'_, &MethodConfig, Row>| group.key.title.clone())
        .spread("AP", 1, |group| group.each(|row| 100.0 * row.precision.ap))
        .spread("AP50", 1, |group| group.each(|row| 100.0 * row.precision.ap50))
        .spread("AP75", 1, |group| group.each(|row| 100.0 * row.precision.ap75))
        .spread("AP90", 1, |group| group.each(|row| 100.0 * row.precision.ap90))
        .spread("AP before", 1, |group| group.each(|row| row.ap_before.map(|ap| 100.0 * ap)))
        .spread("frames/s", 1, |group| group.each(|row| row.frames_per_second))
        .spread("boxes/s", 0, |group| group.each(|row| row.boxes_per_second))
        .numbers(["paper: AP", "AP50", "AP75"], 1, |group, k| group.key.published.map(|found| found.ap[k]))
        .number("FPS", 1, |group| group.key.published.and_then(|found| found.fps))
        .render(groups)
}

/// Table 1 with the supplement's rows.
pub fn table1(rows: &[AblationRow]) -> Result<String> {
    let join = |sigmas: &[f64]| sigmas.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    TableSpec::new()
        .text("L", |group: &Group<'_, &Vec<f64>, AblationRow>| group.key.len())
        .text("σ", |group| join(group.key))
        .spread("AP", 1, |group| group.each(|row| 100.0 * row.precision.ap))
        .spread("AP75", 1, |group| group.each(|row| 100.0 * row.precision.ap75))
        .spread("AP before", 1, |group| group.each(|row| 100.0 * row.ap_before))
        .text("step factor", |group| group.rows[0].step_factor)
        .number("paper: AP", 2, |group| group.rows[0].published)
        .render(grouped(rows, |row| &row.sigmas))
}

/// The rows of each number of steps that is published.
fn by_steps<'a>(
    published: &'a [TradeConfig],
    rows: &'a [TradeRow],
) -> Vec<Group<'a, &'a TradeConfig, TradeRow>> {
    of_each(published, rows, |published, row| row.steps == published.steps)
}

/// Figure 3a as a table, beside its published points.
pub fn figure3a(published: &[TradeConfig], rows: &[TradeRow]) -> Result<String> {
    TableSpec::new()
        .text("T", |group: &Group<'_, &TradeConfig, TradeRow>| group.key.steps)
        .spread("AP", 1, |group| group.each(|row| 100.0 * row.precision.ap))
        .spread("AP75", 1, |group| group.each(|row| 100.0 * row.precision.ap75))
        .spread("frames/s", 1, |group| group.each(|row| row.frames_per_second))
        .number("paper: AP", 2, |group| group.key.published[0])
        .number("FPS", 1, |group| group.key.published[1])
        .render(by_steps(published, rows))
}

/// Figure 3a: AP and speed over T, as `trade.svg` and `.png`.
pub fn plot_figure3a(run: &Path, published: &[TradeConfig], rows: &[TradeRow]) -> Result<()> {
    let panel = |title: &str, value: &dyn Fn(&TradeRow) -> f64| -> Result<PointPanel> {
        let point = |group: Group<'_, &TradeConfig, TradeRow>| {
            let summary = Summary::new(&group.each(value))?;
            let spread = summary.spread(Spread::StandardDeviation).unwrap_or(0.0);
            Ok([group.key.steps as f64, summary.mean, spread])
        };
        let points = by_steps(published, rows).into_iter().map(point).collect::<Result<_>>()?;
        Ok(PointPanel { title: title.to_owned(), points, connected: true })
    };
    let panels = [
        panel("AP in %", &|row| 100.0 * row.precision.ap)?,
        panel("frames per second", &|row| row.frames_per_second)?,
    ];
    let figure = PointPlot { x_label: "number of gradient ascent iterations T", panels: &panels };
    ebm_plot::write(&figure, &run.join("trade"))?;
    Ok(())
}

/// The search for step lengths; the best of each method first.
pub fn step_lengths(methods: &[MethodConfig], rows: &[StepLengthRow]) -> Result<String> {
    let mut groups = of_each(methods, rows, |method, row| row.method == method.key);
    groups.iter_mut().for_each(|group| group.rows.sort_by(|a, b| b.ap.total_cmp(&a.ap)));
    TableSpec::new()
        .text("method", |(method, _): &(&MethodConfig, &StepLengthRow)| method.title.clone())
        .text("λ position", |(_, row)| row.position)
        .text("λ size", |(_, row)| row.size)
        .text("η", |(_, row)| row.decay)
        .number("AP", 2, |(_, row)| 100.0 * row.ap)
        .render(groups.into_iter().flat_map(|group| group.rows.into_iter().map(move |row| (group.key, row))))
}
