//! The images with the most errors, drawn.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use anyhow::{Context, Result};
use ebm_data::{coco::CocoDataset, decode::read_image, encode::write_png};
use ebm_eval::{Detection, GroundTruth, ImageErrors, OperatingPoint, Outcome, diagnose, operating_point};
use serde_json::{Value, json};

use crate::contact_sheet::{Mark, Tile, contact_sheet};
use crate::picture::{Colour, TRUTH};

/// Colours that stay apart for colour-blind readers.
const CORRECT: Colour = [0, 190, 130];
const WRONG: Colour = [235, 85, 10];
const MISSED: Colour = [255, 60, 255];

/// A contact sheet that was drawn.
pub struct Sheet {
    point: OperatingPoint,
    images: Vec<(ImageErrors, String)>,
}

/// Draws the `count` images with the most errors into `path`.
pub fn draw(
    truth: &GroundTruth,
    detections: &[Detection],
    dataset: &CocoDataset,
    count: usize,
    path: &Path,
) -> Result<Sheet> {
    let point = operating_point(detections, &diagnose(truth, detections)?);
    let kept: Vec<Detection> = detections.iter().filter(|found| point.keeps(found.score)).copied().collect();
    let diagnosis = diagnose(truth, &kept)?;
    let mut images = Vec::new();
    let mut tiles = Vec::new();
    for errors in diagnosis.images.iter().take(count) {
        let image = dataset.images.iter().find(|image| image.id == errors.image_id);
        let image = image.with_context(|| format!("image {} is not in the annotations", errors.image_id))?;
        tiles.push(Tile {
            image: read_image(&image.path)?,
            marks: marks(truth, &kept, &diagnosis.detections, image.id),
            caption: [format!("{}: {}", image.file_name, found(errors)), wrong(errors)],
        });
        images.push((*errors, image.file_name.clone()));
    }
    let legend = [(TRUTH, "object that was found"), (CORRECT, "right"), (WRONG, "wrong"), (MISSED, "missed")];
    write_png(path, &contact_sheet(&tiles, &legend)?)?;
    Ok(Sheet { point, images })
}

/// How many objects of an image were found.
fn found(errors: &ImageErrors) -> String {
    format!("{} of {} found", errors.correct, errors.correct + errors.missed)
}

/// An image's errors in words.
fn wrong(errors: &ImageErrors) -> String {
    let counts = [(errors.wrong, "wrong"), (errors.missed, "missed")].into_iter();
    let texts = counts.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { "no errors".into() } else { texts.join(", ") }
}

/// The objects of an image below, then right detections, then wrong ones, so that nothing hides an error.
fn marks(truth: &GroundTruth, detections: &[Detection], outcomes: &[Outcome], image_id: u64) -> Vec<Mark> {
    let mut found = BTreeSet::new();
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    let of_image = detections.iter().zip(outcomes).filter(|(detection, _)| detection.image_id == image_id);
    for (detection, outcome) in of_image {
        let (bbox, thickness) = (detection.bbox, 2);
        match outcome {
            Outcome::Correct(object) => {
                found.insert(*object);
                right.push(Mark { bbox, colour: CORRECT, thickness, text: String::new() });
            }
            Outcome::Wrong => {
                let text = format!("{} {:.2}", truth.category_name(detection.category_id), detection.score);
                wrong.push(Mark { bbox, colour: WRONG, thickness, text });
            }
            Outcome::Ignored => {}
        }
    }
    let objects = truth.boxes.iter().enumerate();
    let objects = objects.filter(|(_, object)| object.image_id == image_id && !object.is_crowd);
    let mut marks: Vec<Mark> = objects
        .map(|(place, object)| match found.contains(&place) {
            true => Mark { bbox: object.bbox, colour: TRUTH, thickness: 1, text: String::new() },
            false => {
                let text = truth.category_name(object.category_id);
                Mark { bbox: object.bbox, colour: MISSED, thickness: 3, text }
            }
        })
        .collect();
    marks.extend(right);
    marks.extend(wrong);
    marks
}

impl Sheet {
    /// What was drawn and where, for `--json`.
    pub fn value(&self, set: &str, path: &Path) -> Result<Value> {
        let image = |(errors, file_name): &(ImageErrors, String)| {
            json!({
                "image_id": errors.image_id,
                "file_name": file_name,
                "objects": errors.correct + errors.missed,
                "correct": errors.correct,
                "errors": { "wrong": errors.wrong, "missed": errors.missed },
                "f1": errors.f1,
            })
        };
        let images: Vec<Value> = self.images.iter().map(image).collect();
        let mut value = json!({ "path": path, "operating_point": self.point, "worst": images });
        if !set.is_empty() {
            value["method"] = json!(set);
        }
        Ok(value)
    }

    /// The same to read.
    pub fn text(&self, path: &Path) -> Result<String> {
        let mut text = String::new();
        let kept = match self.point.threshold {
            Some(threshold) => format!("detections from score {threshold:.3} on, where F1 is best"),
            None => "all detections, since none is right".into(),
        };
        writeln!(text, "\n{}: {kept} ({:.3})", path.display(), self.point.f1)?;
        for (errors, file_name) in &self.images {
            let errors_all = errors.wrong + errors.missed;
            writeln!(text, "{errors_all:6}  {file_name}: {}; {}", found(errors), wrong(errors))?;
        }
        Ok(text)
    }
}
