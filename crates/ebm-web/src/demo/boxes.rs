//! The tab "Boxes": what is found in a photograph, and the way of a box that the user has moved.

use std::time::Instant;

use ebm_base::Key;
use ebm_detect::{Corner, Detector, LabelledBox, PathPoint, Scene};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Recent, Result, check_box, shade, upload};
use crate::server::Refusal;

/// A detector, and the photographs that it has seen last.
pub(super) struct Boxes {
    detector: Detector,
    min_score: f32,
    /// With their sizes.
    known: Recent<(Scene, [usize; 2])>,
}

/// A box that is to climb.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Climb {
    image: u64,
    label: usize,
    bbox: [f64; 4],
}

/// A box about which p(y | x) is asked for.
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

/// Importance samples of a density.
const SAMPLES: usize = 2048;
/// Points along each side of a corner's density.
const MAP_SIZE: usize = 64;

impl Boxes {
    /// With no photograph yet; detections from `min_score` on are shown.
    pub fn new(detector: Detector, min_score: f32) -> Self {
        Self { detector, min_score, known: Recent::new() }
    }

    /// Looks at the photograph whose file is `bytes`; its name is the query `name=`.
    pub fn look(&self, query: &str, bytes: &[u8]) -> Result<Value> {
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

    /// Lets a box climb as the model's settings say.
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

    /// p(y | x) about a box: intervals that hold the left, top, right and bottom edge with probability 0.9, and the density
    /// of a corner in rows, over its largest value.
    pub fn density(&self, asked: &About) -> Result<Value> {
        let given = LabelledBox { bbox: asked.bbox, label: asked.label };
        // The same box has the same samples, whatever was asked before.
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
