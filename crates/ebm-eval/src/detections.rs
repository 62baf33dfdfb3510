//! Detections: reading and writing of the COCO result file, and the checks before scoring.

use crate::error::{BoxProblem, Error, Result};
use crate::ground_truth::GroundTruth;
use ebm_base::files::Durability;
use ebm_data::files::read_utf8;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Largest magnitude of a coordinate or size in pixels. Its square is the upper end of COCO's area
/// range "all"; an unmatched detection beyond that range would silently not count as a false positive.
pub const MAX_COORDINATE: f64 = 1e5;

/// Largest magnitude of a score. Scores may be probabilities or energies.
pub const MAX_SCORE: f64 = 1e6;

/// One detected box, in the field names of the COCO result format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Id of the image in the annotation file.
    pub image_id: u64,
    /// Id of the category in the annotation file (for COCO 1 to 90 with gaps, not the class index).
    pub category_id: u64,
    /// Left, top, width, height in pixels of the original image.
    pub bbox: [f64; 4],
    /// Confidence; higher is better.
    pub score: f64,
}

impl Detection {
    /// Checks that the box and the score can be scored.
    ///
    /// # Errors
    /// Returns the first problem: a value that is not finite, a negative size, or a magnitude beyond
    /// [`MAX_COORDINATE`] or [`MAX_SCORE`]. A size of zero is accepted, as in pycocotools.
    pub fn check(&self) -> std::result::Result<(), BoxProblem> {
        check_box(&self.bbox)?;
        check_range("score", self.score, MAX_SCORE)
    }
}

/// Reads a COCO result file: a JSON array of detections. Fields other than [`Detection`]'s are ignored.
///
/// # Errors
/// [`Error::Io`], [`Error::Json`], or [`Error::Detection`] for the first one that fails
/// [`Detection::check`]. Ids are checked against the annotations by [`check_ids`].
pub fn read_results(path: &Path) -> Result<Vec<Detection>> {
    let detections: Vec<Detection> = read_json(path)?;
    check_boxes(&detections, &path.display().to_string())?;
    Ok(detections)
}

/// Reads a COCO result file for scoring on `truth`, or for the evaluation server that scores on it.
/// An empty list is valid: nothing was found.
///
/// # Errors
/// The errors of [`read_results`] and [`check_ids`], and [`Error::Detection`] for a score outside 0 to 1 and
/// for a detection that repeats another one.
pub fn read_results_for(path: &Path, truth: &GroundTruth) -> Result<Vec<Detection>> {
    let detections = read_results(path)?;
    let origin = path.display().to_string();
    check_ids(&detections, truth, &origin)?;
    first_problem(&detections, &origin, |_, detection| {
        let score = detection.score;
        if (0.0..=1.0).contains(&score) { Ok(()) } else { Err(BoxProblem::NoProbability(score)) }
    })?;
    let mut seen = BTreeMap::new();
    first_problem(&detections, &origin, |index, detection| {
        let numbers = detection.bbox.map(f64::to_bits);
        let key = (detection.image_id, detection.category_id, numbers, detection.score.to_bits());
        let first = *seen.entry(key).or_insert(index);
        if first == index { Ok(()) } else { Err(BoxProblem::Repeated(first)) }
    })?;
    Ok(detections)
}

/// Writes a COCO result file. The file appears whole or not at all: it is written under a temporary name,
/// synchronised and renamed. The boxes are checked first, because JSON has no NaN.
///
/// # Errors
/// [`Error::Detection`] or [`Error::Io`].
pub fn write_results(path: &Path, detections: &[Detection]) -> Result<()> {
    check_boxes(detections, &path.display().to_string())?;
    let json = serde_json::to_vec(detections).map_err(|source| Error::Json { path: path.into(), source })?;
    replace_file(path, &json)
}

/// Writes the result file for an evaluation server. Servers limit the size of an upload, so coordinates are
/// rounded to hundredths of a pixel and scores to five decimals; otherwise the file is that of [`write_results`].
///
/// # Errors
/// The errors of [`write_results`].
pub fn write_results_for_server(path: &Path, detections: &[Detection]) -> Result<()> {
    let round = |value: f64, unit: f64| (value * unit).round() / unit;
    let rounded = |detection: &Detection| Detection {
        bbox: detection.bbox.map(|value| round(value, 1e2)),
        score: round(detection.score, 1e5),
        ..*detection
    };
    write_results(path, &detections.iter().map(rounded).collect::<Vec<_>>())
}

/// Checks every box and score.
///
/// # Errors
/// [`Error::Detection`] for the first bad detection, with `origin` as its file.
pub fn check_boxes(detections: &[Detection], origin: &str) -> Result<()> {
    first_problem(detections, origin, |_, detection| detection.check())
}

/// Checks that every image id and category id exists in `truth`. An unknown id never matches an object, so it
/// would silently lower the figures.
///
/// # Errors
/// [`Error::Detection`] for the first bad detection, with `origin` as its file.
pub fn check_ids(detections: &[Detection], truth: &GroundTruth, origin: &str) -> Result<()> {
    let (images, categories) = truth.id_sets();
    first_problem(detections, origin, |_, detection| {
        if !images.contains(&detection.image_id) {
            return Err(BoxProblem::UnknownImage(detection.image_id));
        }
        if !categories.contains(&detection.category_id) {
            return Err(BoxProblem::UnknownCategory(detection.category_id));
        }
        Ok(())
    })
}

/// Reports the first problem that `check` finds, and the number of detections with a problem of its kind.
fn first_problem(
    detections: &[Detection],
    origin: &str,
    mut check: impl FnMut(usize, &Detection) -> std::result::Result<(), BoxProblem>,
) -> Result<()> {
    let mut first: Option<(usize, BoxProblem)> = None;
    let mut count = 0;
    for (at, detection) in detections.iter().enumerate() {
        let Err(problem) = check(at, detection) else { continue };
        let (_, known) = first.get_or_insert_with(|| (at, problem.clone()));
        count += usize::from(std::mem::discriminant(known) == std::mem::discriminant(&problem));
    }
    let Some((index, problem)) = first else { return Ok(()) };
    Err(Error::Detection { origin: origin.into(), index, problem, count, total: detections.len() })
}

/// Checks a box (x, y, width, height): finite, no negative size, within [`MAX_COORDINATE`].
pub(crate) fn check_box(&[x, y, width, height]: &[f64; 4]) -> std::result::Result<(), BoxProblem> {
    for (field, value) in [("x", x), ("y", y), ("width", width), ("height", height)] {
        check_range(field, value, MAX_COORDINATE)?;
    }
    check_size("width", width)?;
    check_size("height", height)
}

/// Checks that a size is not negative.
pub(crate) fn check_size(field: &'static str, value: f64) -> std::result::Result<(), BoxProblem> {
    if value < 0.0 { Err(BoxProblem::Negative(field, value)) } else { Ok(()) }
}

/// Checks that a value is finite and within ±`limit`.
pub(crate) fn check_range(
    field: &'static str,
    value: f64,
    limit: f64,
) -> std::result::Result<(), BoxProblem> {
    if !value.is_finite() {
        return Err(BoxProblem::NonFinite(field, value));
    }
    if value.abs() > limit {
        return Err(BoxProblem::Absurd(field, value, limit));
    }
    Ok(())
}

/// Largest accepted size of a JSON file, in bytes.
pub(crate) const MAX_JSON_BYTES: u64 = 4 << 30;

/// Reads and parses a whole JSON file.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = read_utf8(path, MAX_JSON_BYTES).map_err(|error| match error {
        ebm_data::Error::Io { path, action, source } => Error::Io { path, action, source },
        other => other.into(),
    })?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json { path: path.into(), source })
}

/// Writes a file whole or not at all, and synchronises it to the disk.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = ebm_base::files::replace(path, bytes, Durability::Synced);
    written.map_err(|source| Error::Io { path: path.into(), action: "write", source })
}
