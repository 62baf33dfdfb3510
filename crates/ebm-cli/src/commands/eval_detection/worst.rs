//! The images with the most errors, drawn.

use std::{fmt::Write, path::Path};

use anyhow::{Context, Result};
use ebm_data::{coco::CocoDataset, decode::read_image, encode::write_png};
use ebm_eval::{
    Detection, Diagnosis, ErrorKind, GroundTruth, ImageErrors, ObjectOutcome, OperatingPoint, Outcome,
    diagnose,
    image_errors::{image_errors, outcomes_at},
    operating_point,
};
use serde_json::{Value, json};

use crate::contact_sheet::{Mark, Tile, contact_sheet};
use crate::picture::{Colour, TRUTH};

/// Colours that stay apart for colour-blind readers: blue-green for right detections, one for each kind of
/// error.
const CORRECT: Colour = [0, 190, 130];
const CLASSIFICATION: Colour = [240, 165, 0];
const LOCALIZATION: Colour = [90, 185, 240];
const BOTH: Colour = [215, 130, 185];
const DUPLICATE: Colour = [240, 228, 66];
const BACKGROUND: Colour = [235, 85, 10];
const MISSED: Colour = [255, 60, 255];

fn colour(kind: ErrorKind) -> Colour {
    match kind {
        ErrorKind::Classification => CLASSIFICATION,
        ErrorKind::Localization => LOCALIZATION,
        ErrorKind::Both => BOTH,
        ErrorKind::Duplicate => DUPLICATE,
        ErrorKind::Background => BACKGROUND,
        ErrorKind::Missed => MISSED,
    }
}

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
    let diagnosis = diagnose(truth, detections)?;
    let point = operating_point(detections, &diagnosis);
    let objects = outcomes_at(detections, &diagnosis, &point);
    let scene = Scene { truth, detections, diagnosis: &diagnosis, point, objects: &objects };
    let mut images = Vec::new();
    let mut tiles = Vec::new();
    for errors in image_errors(truth, detections, &diagnosis, &point).into_iter().take(count) {
        let image = dataset.images.iter().find(|image| image.id == errors.image_id);
        let image = image.with_context(|| format!("image {} is not in the annotations", errors.image_id))?;
        tiles.push(Tile {
            image: read_image(&image.path)?,
            marks: scene.marks(image.id),
            caption: [format!("{}: {}", image.file_name, found(&errors)), wrong(&errors)],
        });
        images.push((errors, image.file_name.clone()));
    }
    let mut legend = vec![(TRUTH, "object that was found or meant"), (CORRECT, "right")];
    legend.extend(ErrorKind::ALL.map(|kind| (colour(kind), kind.name())));
    write_png(path, &contact_sheet(&tiles, &legend)?)?;
    Ok(Sheet { point, images })
}

/// How many objects of an image were found.
fn found(errors: &ImageErrors) -> String {
    format!("{} of {} found", errors.correct, errors.objects)
}

/// An image's errors in words, the most frequent first.
fn wrong(errors: &ImageErrors) -> String {
    let mut counts: Vec<_> =
        ErrorKind::ALL.iter().zip(errors.errors).filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let texts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    if texts.is_empty() { "no errors".into() } else { texts.join(", ") }
}

struct Scene<'a> {
    truth: &'a GroundTruth,
    detections: &'a [Detection],
    diagnosis: &'a Diagnosis,
    point: OperatingPoint,
    objects: &'a [ObjectOutcome],
}

impl Scene<'_> {
    /// Objects below, then right detections, then errors, so that nothing hides an error.
    fn marks(&self, image_id: u64) -> Vec<Mark> {
        let mut marks = Vec::new();
        let objects = self.truth.boxes.iter().zip(self.objects);
        for (object, outcome) in objects.filter(|(object, _)| object.image_id == image_id) {
            let name = || self.truth.category_name(object.category_id);
            let (colour, thickness, text) = match outcome {
                ObjectOutcome::Crowd => continue,
                ObjectOutcome::Missed => (MISSED, 3, name()),
                // Its category helps to read the error that covers it.
                ObjectOutcome::Covered => (TRUTH, 1, name()),
                ObjectOutcome::Found(_) => (TRUTH, 1, String::new()),
            };
            marks.push(Mark { bbox: object.bbox, colour, thickness, text });
        }
        let found = self.detections.iter().zip(&self.diagnosis.detections);
        let found: Vec<_> =
            found.filter(|(d, _)| d.image_id == image_id && self.point.keeps(d.score)).collect();
        for (detection, _) in found.iter().filter(|(_, o)| matches!(o, Outcome::Correct(_))) {
            marks.push(Mark { bbox: detection.bbox, colour: CORRECT, thickness: 2, text: String::new() });
        }
        for (detection, outcome) in found {
            if let Outcome::Wrong(kind, _) = outcome {
                let name = self.truth.category_name(detection.category_id);
                let text = format!("{name} {:.2}", detection.score);
                marks.push(Mark { bbox: detection.bbox, colour: colour(*kind), thickness: 2, text });
            }
        }
        marks
    }
}

impl Sheet {
    /// What was drawn and where, for `--json`.
    pub fn value(&self, set: &str, path: &Path) -> Result<Value> {
        let image = |(errors, file_name): &(ImageErrors, String)| {
            let counts = ErrorKind::ALL.iter().zip(errors.errors).map(|(kind, n)| (kind.name(), n));
            json!({
                "image_id": errors.image_id,
                "file_name": file_name,
                "objects": errors.objects,
                "correct": errors.correct,
                "errors": counts.collect::<std::collections::BTreeMap<_, _>>(),
                "penalty": errors.penalty,
                "f1": errors.f1(),
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
            writeln!(text, "{:6.1}  {file_name}: {}; {}", errors.penalty, found(errors), wrong(errors))?;
        }
        Ok(text)
    }
}
