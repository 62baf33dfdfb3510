//! The picture of `ebm reproduce detection`: boxes before and after refinement.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use ebm_data::{decode::read_image, encode::write_png};
use ebm_detect::{config::ExperimentConfig, reproduce::Setup};
use ebm_eval::{Detection, read_results, tracking::overlap};

use crate::contact_sheet::{Mark, Tile, contact_sheet};
use crate::picture::{AFTER, BEFORE, Canvas, TRUTH};

/// Test images that are shown.
const TILES: usize = 9;
/// The lowest score of a box that is shown.
const SCORE: f64 = 0.5;
/// Height of the smallest window, in pixels of the image; its width is 4/3 of that.
const WINDOW: f64 = 48.0;

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
