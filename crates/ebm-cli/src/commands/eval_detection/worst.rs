//! The images with the most errors, drawn.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use anyhow::{Context, Result};
use ebm_data::{coco::CocoDataset, decode::read_image, encode::write_png};
use ebm_eval::{Detection, GroundTruth, Outcome, diagnose, operating_point};
use serde_json::{Value, json};

use crate::contact_sheet::{Mark, Tile, contact_sheet};
use crate::picture::{Canvas, Colour, TRUTH};

/// Colours that stay apart for colour-blind readers.
const CORRECT: Colour = [0, 190, 130];
const WRONG: Colour = [235, 85, 10];
const MISSED: Colour = [255, 60, 255];

/// Draws the `count` images with the most errors into `path`; what was drawn, for `--json` and to read.
pub fn draw(
    truth: &GroundTruth,
    detections: &[Detection],
    dataset: &CocoDataset,
    count: usize,
    path: &Path,
) -> Result<(Value, String)> {
    let point = operating_point(detections, &diagnose(truth, detections)?);
    let kept: Vec<Detection> = detections.iter().filter(|found| point.keeps(found.score)).copied().collect();
    let diagnosis = diagnose(truth, &kept)?;
    let which = match point.threshold {
        Some(threshold) => format!("detections from score {threshold:.3} on, where F1 is best"),
        None => "all detections, since none is right".into(),
    };
    let mut text = format!("\n{}: {which} ({:.3})\n", path.display(), point.f1);
    let (mut tiles, mut images) = (Vec::new(), Vec::new());
    for errors in diagnosis.images.iter().take(count) {
        let image = dataset.images.iter().find(|image| image.id == errors.image_id);
        let image = image.with_context(|| format!("image {} is not in the annotations", errors.image_id))?;
        let (file_name, objects) = (&image.file_name, errors.correct + errors.missed);
        let found = format!("{file_name}: {} of {objects} found", errors.correct);
        let wrong = match (errors.wrong, errors.missed) {
            (0, 0) => "no errors".to_owned(),
            (0, missed) => format!("{missed} missed"),
            (wrong, 0) => format!("{wrong} wrong"),
            (wrong, missed) => format!("{wrong} wrong, {missed} missed"),
        };
        writeln!(text, "{:6}  {found}; {wrong}", errors.wrong + errors.missed)?;
        images.push(json!({
            "image_id": errors.image_id,
            "file_name": file_name,
            "objects": objects,
            "correct": errors.correct,
            "errors": { "wrong": errors.wrong, "missed": errors.missed },
            "f1": errors.f1,
        }));
        let marks = marks(truth, &kept, &diagnosis.detections, image.id);
        tiles.push(Tile { canvas: Canvas::whole(read_image(&image.path)?), marks, caption: [found, wrong] });
    }
    let legend = [(TRUTH, "object that was found"), (CORRECT, "right"), (WRONG, "wrong"), (MISSED, "missed")];
    write_png(path, &contact_sheet(tiles, &legend)?)?;
    Ok((json!({ "path": path, "operating_point": point, "worst": images }), text))
}

/// The objects of an image below, then right detections, then wrong ones, so that nothing hides an error.
fn marks(truth: &GroundTruth, detections: &[Detection], outcomes: &[Outcome], image_id: u64) -> Vec<Mark> {
    let mark = |bbox, colour, thickness, text| Mark { bbox, colour, thickness, text };
    let (mut found, mut right, mut wrong) = (BTreeSet::new(), Vec::new(), Vec::new());
    let of_image = detections.iter().zip(outcomes).filter(|(detection, _)| detection.image_id == image_id);
    for (Detection { bbox, category_id, score, .. }, outcome) in of_image {
        match outcome {
            Outcome::Correct(object) => {
                found.insert(*object);
                right.push(mark(*bbox, CORRECT, 2, String::new()));
            }
            Outcome::Wrong => {
                let text = format!("{} {score:.2}", truth.category_name(*category_id));
                wrong.push(mark(*bbox, WRONG, 2, text));
            }
            Outcome::Ignored => {}
        }
    }
    let objects = truth.boxes.iter().enumerate();
    let objects = objects.filter(|(_, object)| object.image_id == image_id && !object.is_crowd);
    let objects = objects.map(|(place, object)| match found.contains(&place) {
        true => mark(object.bbox, TRUTH, 1, String::new()),
        false => mark(object.bbox, MISSED, 3, truth.category_name(object.category_id)),
    });
    objects.chain(right).chain(wrong).collect()
}
