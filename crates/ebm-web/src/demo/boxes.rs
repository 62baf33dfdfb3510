//! The tab "Boxes": detections in a photograph, and the refinement of a box that the user has moved.

use std::time::Instant;

use ebm_base::Key;
use ebm_detect::{Corner, Detector, LabelledBox, PathPoint, Scene};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Recent, Result, check_box, shade, upload};
use crate::server::Refusal;

/// A detector, and the latest photographs.
pub(super) struct Boxes {
    detector: Detector,
    min_score: f32,
    /// Photographs with their sizes.
    known: Recent<(Scene, [usize; 2])>,
}

/// Request for the refinement of a box.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Climb {
    image: u64,
    label: usize,
    bbox: [f64; 4],
}

/// Request for p(y | x) around a box.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    image: u64,
    label: usize,
    bbox: [f64; 4],
    #[serde(with = "CornerName")]
    corner: Corner,
}

#[derive(Deserialize)]
#[serde(remote = "Corner", rename_all = "snake_case")]
enum CornerName {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

/// Number of importance samples of a density.
const SAMPLES: usize = 2048;
/// Number of points along each side of a corner's density.
const MAP_SIZE: usize = 64;

impl Boxes {
    /// Creates the tab without a photograph; detections with a score of at least `min_score` are shown.
    pub fn new(detector: Detector, min_score: f32) -> Self {
        Self { detector, min_score, known: Recent::new() }
    }

    /// Detects objects in the photograph in the file `bytes`; its name is the query `name=`.
    pub fn detect(&self, query: &str, bytes: &[u8]) -> Result<Value> {
        let start = Instant::now();
        let image = upload(query, bytes)?;
        let scene = self.detector.look(&image)?;
        let shown = scene.detections.iter().filter(|found| found.score >= self.min_score);
        let detections: Vec<Value> = shown
            .map(|found| {
                json!({
                    "label": found.label,
                    "name": found.name(),
                    "score": found.score,
                    "before": found.before,
                    "bbox": found.bbox,
                    "can_climb": self.detector.can_climb(found.label),
                })
            })
            .collect();
        let size @ [width, height] = [image.width, image.height];
        let image = self.known.add((scene, size));
        let milliseconds = since(start);
        Ok(json!({
            "image": image,
            "width": width,
            "height": height,
            "detections": detections,
            "milliseconds": milliseconds,
        }))
    }

    /// Refines a box with the model's settings.
    pub fn climb(&self, asked: &Climb) -> Result<Value> {
        let start = Instant::now();
        let ascent = self.detector.ascent();
        let ascent =
            ascent.ok_or_else(|| Refusal::bad("this detector has no energy model, so nothing climbs"))?;
        let given = LabelledBox { bbox: asked.bbox, label: asked.label };
        let path = self.known.with(asked.image, |(scene, size)| {
            check_box(asked.bbox, *size)?;
            Ok(self.detector.climb(scene, given, ascent)?)
        })?;
        let point = |point: &PathPoint| json!({"bbox": point.bbox, "f": point.f, "is_kept": point.is_kept});
        let path: Vec<Value> = path.iter().map(point).collect();
        Ok(json!({"path": path, "milliseconds": since(start)}))
    }

    /// Computes p(y | x) around a box: intervals that contain the left, top, right and bottom edge with probability 0.9, and
    /// the density of a corner in rows, divided by its largest value.
    pub fn density(&self, asked: &About) -> Result<Value> {
        let given = LabelledBox { bbox: asked.bbox, label: asked.label };
        // A fixed seed gives the same box the same samples, independent of earlier requests.
        let mut rng = Key::new(0).split("demo").rng();
        let density = self.known.with(asked.image, |(scene, size)| {
            check_box(asked.bbox, *size)?;
            Ok(self.detector.density(scene, given, SAMPLES, &mut rng)?)
        })?;
        let map = density.corner(asked.corner, MAP_SIZE)?;
        let largest = map.p.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let p: Vec<f64> = map.p.iter().map(|p| shade(p / largest)).collect();
        Ok(json!({
            "edges_90": density.edge_intervals()?.map(|region| region.intervals),
            "effective_sample_size": density.effective_sample_size(),
            "is_reliable": density.is_reliable(),
            "corner": {"first": map.first, "step": map.step, "size": map.size, "p": p},
        }))
    }
}

fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
