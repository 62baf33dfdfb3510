//! Coverage of predicted intervals for the edges of boxes.

use serde::Serialize;
use serde_json::Value;

use crate::calibration::{coverage, mean_width};
use crate::detections::Detection;
use crate::error::{BoxProblem, Error, Result};
use crate::ground_truth::GroundTruth;
use crate::image_errors::{Outcome, diagnose};
use crate::result_entries::ResultEntry;

/// Coverage of the edge intervals of correct detections: of each object, the detection with the highest score
/// that overlaps it with an IoU of at least 0.5.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EdgeCoverage {
    /// Number of correct detections with intervals.
    pub detections: usize,
    /// Fraction of the left, top, right and bottom edges that lie in their interval.
    pub edges: [f64; 4],
    /// Mean of the four fractions.
    pub coverage: f64,
    /// Mean width of the intervals of left, top, right and bottom edges, as a fraction of the annotated box's
    /// width or height.
    pub mean_width: [f64; 4],
}

/// Predicted intervals for the position of one edge.
type Intervals = Vec<[f64; 2]>;

/// Names of the edges in a result file.
const EDGES: [&str; 4] = ["left", "top", "right", "bottom"];

/// Computes the coverage of the intervals under `edges_90` of a result file's `entries`, whose boxes are the
/// `detections`; none if no correct detection has intervals. `origin` names the file in errors.
///
/// # Errors
/// [`Error::Detection`] for an entry with malformed intervals, and the errors of [`diagnose`].
pub fn edge_coverage(
    truth: &GroundTruth,
    entries: &[ResultEntry],
    detections: &[Detection],
    origin: &str,
) -> Result<Option<EdgeCoverage>> {
    if entries.iter().all(|entry| entry.get("edges_90").is_none()) {
        return Ok(None);
    }
    let (mut edges, mut held): ([Vec<f64>; 4], [Vec<Intervals>; 4]) = Default::default();
    let outcomes = diagnose(truth, detections)?.detections;
    for (index, (outcome, entry)) in outcomes.iter().zip(entries).enumerate() {
        let intervals = entry.get("edges_90").map(regions).transpose().map_err(|problem| {
            let (origin, total) = (origin.to_owned(), entries.len());
            Error::Detection { origin, index, problem, count: 1, total }
        })?;
        let (Outcome::Correct(object), Some(intervals)) = (outcome, intervals) else { continue };
        let [x, y, width, height] = truth.boxes[*object].bbox;
        let ends = [x, y, x + width, y + height];
        for (place, intervals) in intervals.into_iter().enumerate() {
            // In units of the box's sides.
            let (origin, side) = ([x, y][place % 2], [width, height][place % 2]);
            edges[place].push((ends[place] - origin) / side);
            held[place]
                .push(intervals.into_iter().map(|ends| ends.map(|end| (end - origin) / side)).collect());
        }
    }
    let right = edges[0].len();
    if right == 0 {
        return Ok(None);
    }
    let (mut shares, mut widths) = ([0.0; 4], [0.0; 4]);
    for place in 0..4 {
        shares[place] = coverage(&held[place], &edges[place])?;
        widths[place] = mean_width(&held[place])?;
    }
    let mean = shares.iter().sum::<f64>() / 4.0;
    Ok(Some(EdgeCoverage { detections: right, edges: shares, coverage: mean, mean_width: widths }))
}

/// Parses the intervals of each edge.
fn regions(value: &Value) -> std::result::Result<[Intervals; 4], BoxProblem> {
    let mut regions: [Intervals; 4] = Default::default();
    for (region, edge) in regions.iter_mut().zip(EDGES) {
        let intervals = value.get(edge).cloned().unwrap_or_default();
        *region = serde_json::from_value(intervals).map_err(|_| {
            let expected = "lists of intervals under left, top, right and bottom";
            BoxProblem::Malformed("edges_90", value.to_string().chars().take(60).collect(), expected)
        })?;
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result_entries::parse_entries;

    fn truth() -> GroundTruth {
        let text = r#"{"images": [{"id": 1, "width": 100, "height": 100}], "categories": [{"id": 1, "name": "a"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 40, 50], "area": 2000, "iscrowd": 0}]}"#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, text).unwrap();
        GroundTruth::read(&path).unwrap()
    }

    fn entry(bbox: &str, score: f64, more: &str) -> String {
        format!(r#"{{"image_id": 1, "category_id": 1, "bbox": {bbox}, "score": {score}{more}}}"#)
    }

    fn of(entries: &[String]) -> Result<Option<EdgeCoverage>> {
        let text = format!("[{}]", entries.join(","));
        let entries = parse_entries("r.json".as_ref(), text.as_bytes())?;
        let found: Vec<Detection> = entries.iter().map(|entry| entry.detection().unwrap()).collect();
        edge_coverage(&truth(), &entries, &found, "r.json")
    }

    #[test]
    fn right_detections_count() {
        let intervals = r#", "edges_90": {"left": [[8, 12]], "top": [[21, 24], [30, 40]], "right": [[45, 50]], "bottom": [[60, 65], [69, 75]]}"#;
        // The second is a duplicate, the third lies elsewhere, and the fourth has no intervals.
        let entries = [
            entry("[10, 20, 40, 50]", 0.9, intervals),
            entry("[10, 20, 40, 48]", 0.8, intervals),
            entry("[70, 70, 10, 10]", 0.7, intervals),
            entry("[70, 70, 10, 10]", 0.6, ""),
        ];
        let found = of(&entries).unwrap().unwrap();
        assert_eq!((found.detections, found.edges, found.coverage), (1, [1.0, 0.0, 1.0, 1.0], 0.75));
        let expected = [0.1, 13.0 / 50.0, 0.125, 11.0 / 50.0];
        assert!(found.mean_width.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(of(&entries[3..]).unwrap(), None);
    }

    #[test]
    fn other_forms_are_refused() {
        let entries =
            [entry("[1, 1, 5, 5]", 0.9, ""), entry("[1, 1, 5, 5]", 0.9, r#", "edges_90": {"left": 3}"#)];
        let said = of(&entries).unwrap_err().to_string();
        assert!(said.contains("detection 1") && said.contains("lists of intervals"), "{said}");
    }
}
