//! The tables and figures of `ebm reproduce detection`.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use ebm_data::{decode::read_image, encode::write_png};
use ebm_detect::config::{ExperimentConfig, MethodConfig, TradeConfig};
use ebm_detect::reproduce::{AblationRow, Row, Setup, StepLengthRow, TradeRow};
use ebm_eval::{Detection, Spread, Summary, read_results, tracking::overlap};
use ebm_plot::{PointPanel, PointPlot};

use crate::contact_sheet::{Mark, Tile, contact_sheet};
use crate::picture::{AFTER, BEFORE, Canvas, TRUTH};
use crate::table_spec::{Group, TableSpec, group_by_key, grouped, joined};

/// Number of test images in the picture.
const TILES: usize = 9;
/// Lowest score of a box in the picture.
const SCORE: f64 = 0.5;
/// Height of the smallest window, in pixels of the image; its width is 4/3 of that.
const WINDOW: f64 = 48.0;

/// Returns the table of `methods` (Table 2 or the objectives) over seeds, beside published results.
pub fn table2(methods: &[MethodConfig], rows: &[Row]) -> Result<String> {
    let mut groups = group_by_key(methods, rows, |method, row| row.method == method.key);
    // The detector is the same for every seed: a spread of zero would claim more than was measured.
    groups.iter_mut().filter(|group| !group.key.is_trained()).for_each(|group| group.rows.truncate(1));
    TableSpec::new()
        .text("method", |group: &Group<'_, &MethodConfig, Row>| group.key.title.clone())
        .spread("AP", 1, |group| group.each(|row| 100.0 * row.precision.ap))
        .spread("AP50", 1, |group| group.each(|row| 100.0 * row.precision.ap50))
        .spread("AP75", 1, |group| group.each(|row| 100.0 * row.precision.ap75))
        .spread("AP90", 1, |group| group.each(|row| 100.0 * row.precision.ap90))
        .spread("AP before", 1, |group| group.each(|row| row.ap_before.map(|ap| 100.0 * ap)))
        .spread("log p", 2, |group| group.each(|row| row.log_prob))
        .spread("frames/s", 1, |group| group.each(|row| row.frames_per_second))
        .spread("boxes/s", 0, |group| group.each(|row| row.boxes_per_second))
        .numbers(["paper: AP", "AP50", "AP75"], 1, |group, k| group.key.published.map(|found| found.ap[k]))
        .number("FPS", 1, |group| group.key.published.and_then(|found| found.fps))
        .render(groups)
}

/// Returns Table 1 with the supplement's rows.
pub fn table1(rows: &[AblationRow]) -> Result<String> {
    TableSpec::new()
        .text("L", |group: &Group<'_, &Vec<f64>, AblationRow>| group.key.len())
        .text("σ", |group| joined(group.key, ", "))
        .spread("AP", 1, |group| group.each(|row| 100.0 * row.precision.ap))
        .spread("AP75", 1, |group| group.each(|row| 100.0 * row.precision.ap75))
        .spread("AP before", 1, |group| group.each(|row| 100.0 * row.ap_before))
        .text("step factor", |group| group.rows[0].step_factor)
        .number("paper: AP", 2, |group| group.rows[0].published)
        .render(grouped(rows, |row| &row.sigmas))
}

/// Groups the rows by the published numbers of steps.
fn by_steps<'a>(
    published: &'a [TradeConfig],
    rows: &'a [TradeRow],
) -> Vec<Group<'a, &'a TradeConfig, TradeRow>> {
    group_by_key(published, rows, |published, row| row.steps == published.steps)
}

/// Returns Figure 3a as a table, beside its published points.
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

/// Draws Figure 3a, AP and speed over T, as `trade.svg` and `trade.png`.
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

/// Returns the table of the search for step lengths, the best of each method first.
pub fn step_lengths(methods: &[MethodConfig], rows: &[StepLengthRow]) -> Result<String> {
    let mut groups = group_by_key(methods, rows, |method, row| row.method == method.key);
    groups.iter_mut().for_each(|group| group.rows.sort_by(|a, b| b.ap.total_cmp(&a.ap)));
    TableSpec::new()
        .text("method", |(method, _): &(&MethodConfig, &StepLengthRow)| method.title.clone())
        .text("λ position", |(_, row)| row.position)
        .text("λ size", |(_, row)| row.size)
        .text("η", |(_, row)| row.decay)
        .number("AP", 2, |(_, row)| 100.0 * row.ap)
        .render(groups.into_iter().flat_map(|group| group.rows.into_iter().map(move |row| (group.key, row))))
}

/// Draws `refined.png` in the run's folder: the energy model's boxes (seed 0) before and after refinement. For each of the first
/// test images, it shows the box that moved most.
///
/// # Errors
/// When the run's detections or an image cannot be read, or the picture cannot be written.
pub fn draw_refined(setup: &Setup, run: &Path) -> Result<()> {
    let read = |suffix: &str| {
        read_results(&run.join(format!("detections-{}-0{suffix}.json", ExperimentConfig::ENERGY)))
    };
    let (before, after) = (read("-before")?, read("")?);
    let truth = &setup.test().truth;
    let mut pairs: Vec<_> = before.iter().zip(&after).filter(|(_, after)| after.score >= SCORE).collect();
    let kept = |(before, after): &(&Detection, &Detection)| overlap(&before.bbox, &after.bbox);
    pairs.sort_by(|a, b| kept(a).total_cmp(&kept(b)));
    let mut seen = HashSet::new();
    pairs.retain(|(_, after)| seen.insert(after.image_id));
    pairs.sort_by_key(|(_, after)| after.image_id);
    let images = &setup.test().dataset.images;
    let mut tiles = Vec::new();
    for (before, after) in pairs.into_iter().take(TILES) {
        let Some(image) = images.iter().find(|image| image.id == after.image_id) else { continue };
        let objects = truth.boxes.iter().filter(|object| object.image_id == image.id);
        let objects: Vec<[f64; 4]> = objects.map(|object| object.bbox).collect();
        let nearest = |bbox: &[f64; 4]| objects.iter().map(|o| overlap(o, bbox)).fold(0.0, f64::max);
        let pixels = read_image(&image.path)?;
        let [x, y, width, height] = after.bbox;
        let tall = WINDOW.max(1.5 * height).max(1.5 * 0.75 * width).min(pixels.height as f64);
        let wide = (4.0 / 3.0 * tall).min(pixels.width as f64);
        let start = |middle: f64, side: f64, room: usize| {
            (middle - side / 2.0).clamp(0.0, room as f64 - side).floor()
        };
        let left = start(x + width / 2.0, wide, pixels.width);
        let top = start(y + height / 2.0, tall, pixels.height);
        let mark = |bbox, colour| Mark { bbox, colour, thickness: 2, text: String::new() };
        let truth = objects.iter().map(|bbox| mark(*bbox, TRUTH));
        tiles.push(Tile {
            canvas: Canvas::part(&pixels, [left, top, wide, tall].map(|side| side as usize)),
            marks: truth.chain([mark(before.bbox, BEFORE), mark(after.bbox, AFTER)]).collect(),
            caption: [
                image.file_name.clone(),
                format!("IoU {:.2} before, {:.2} after", nearest(&before.bbox), nearest(&after.bbox)),
            ],
        });
    }
    let legend = [(TRUTH, "annotated"), (BEFORE, "before refinement"), (AFTER, "after refinement")];
    Ok(write_png(&run.join("refined.png"), &contact_sheet(tiles, &legend)?)?)
}
