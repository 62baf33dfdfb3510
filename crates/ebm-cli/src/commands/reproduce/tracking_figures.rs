//! The figures of `ebm reproduce tracking`.

use std::path::Path;

use anyhow::Result;
use ebm_data::{Image, decode::read_image, encode::write_png};
use ebm_plot::LinePlot;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::{Comparison, Example};

use crate::picture::{AFTER, BEFORE, Canvas, Colour, TRUTH, grid, level};

/// Frames of the example that are shown.
const SHOWN: usize = 6;
/// Frames in a row.
const COLUMNS: usize = 3;
/// The least width of a shown frame, in pixels.
const WIDTH: usize = 480;

/// The colour of a method's boxes.
pub fn colour(method: &str) -> Colour {
    match method {
        ExperimentConfig::ENERGY => AFTER,
        "atom" => [255, 200, 40],
        _ => BEFORE,
    }
}

/// `success.svg` and `.png` (Figure 3b) of the first dataset, and `example.png`.
pub fn figures(run: &Path, config: &ExperimentConfig, outcome: &Comparison) -> Result<()> {
    if let Some(dataset) = outcome.curves.first().map(|curve| curve.dataset.clone()) {
        let own = outcome.curves.iter().filter(|curve| curve.dataset == dataset);
        let curves: Vec<(String, Vec<f64>)> = own
            .map(|curve| {
                let auc = curve.success.iter().sum::<f64>() / curve.success.len() as f64;
                let title = config.method(&curve.method).map_or(&curve.method, |method| &method.title);
                (format!("{title} [{auc:.1}]"), curve.success.clone())
            })
            .collect();
        let figure = LinePlot {
            title: &format!("Success on {dataset}: frames above the threshold, in %"),
            x_label: "overlap threshold",
            x: 0.0..1.0,
            y: 0.0..100.0,
            curves: &curves,
        };
        ebm_plot::write(&figure, &run.join("success"))?;
    }
    if let Some(example) = &outcome.example {
        write_png(&run.join("example.png"), &sheet(example)?)?;
    }
    Ok(())
}

/// Frames at equal steps: the annotated box in white, each method's in its colour.
fn sheet(example: &Example) -> Result<Image> {
    let frames = example.sequence.frames.len();
    let mut shown = Vec::new();
    for i in 0..SHOWN {
        let frame = (i + 1) * (frames - 1) / SHOWN;
        let Some(path) = example.sequence.frames.path(frame) else { continue };
        let image = read_image(&path)?;
        let factor = WIDTH.div_ceil(image.width).max(1);
        let mut canvas = Canvas::whole(image).enlarged(factor);
        let found = example.boxes.iter().map(|(method, boxes)| (boxes, colour(method)));
        for (boxes, colour) in std::iter::once((&example.sequence.boxes, TRUTH)).chain(found) {
            boxes.get(frame).iter().for_each(|bbox| canvas.outline(**bbox, colour, 2));
        }
        shown.push(canvas.image);
    }
    let rows: Vec<_> = shown.chunks(COLUMNS).map(level).collect();
    Ok(grid(&rows, [255; 3])?)
}
