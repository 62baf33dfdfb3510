//! Figures of a tracker on one sequence.

use std::borrow::Cow;

use ebm_data::sequences::{Rect, Sequence};
use serde::{Deserialize, Serialize};

use super::convention::Convention;
use super::curves;
use super::diagnosis::{Diagnosis, ValidFrame};
use super::figures::TrackingFigures;
use super::overlap;
use super::prediction::prepare;
use crate::error::{Error, Result, TrackingProblem};

/// Annotation of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackingGroundTruth<'a> {
    /// Name of the sequence.
    pub name: Cow<'a, str>,
    /// Box of each frame, in the coordinates of the predictions.
    pub boxes: Cow<'a, [Rect]>,
    /// Whether the target is visible in each frame; none if unknown.
    pub visible: Option<Cow<'a, [bool]>>,
    /// Width and height of the frames in pixels, for conventions that clip.
    pub image_size: Option<[f64; 2]>,
}

impl<'a> TrackingGroundTruth<'a> {
    /// Creates an annotation from boxes alone, without visibility and image size.
    pub fn new(name: impl Into<Cow<'a, str>>, boxes: impl Into<Cow<'a, [Rect]>>) -> Self {
        Self { name: name.into(), boxes: boxes.into(), visible: None, image_size: None }
    }
}

impl<'a> From<&'a Sequence> for TrackingGroundTruth<'a> {
    fn from(sequence: &'a Sequence) -> Self {
        let visible = sequence.visible.as_deref().map(Cow::Borrowed);
        Self { visible, ..Self::new(sequence.name.as_str(), sequence.boxes.as_slice()) }
    }
}

/// Figures of a tracker on one sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceScores {
    /// Name of the sequence.
    pub name: String,
    /// Number of annotated frames.
    pub frames: usize,
    /// Number of frames that count.
    pub counted: usize,
    /// Figures over the frames that count.
    #[serde(flatten)]
    pub figures: TrackingFigures,
    /// Kinds of failures.
    #[serde(default)]
    pub diagnosis: Diagnosis,
}

/// Scores the boxes that a tracker predicted on a sequence, one for each frame from the first.
///
/// # Errors
/// [`Error::Tracking`] for a prediction that cannot belong to this sequence, or that the convention refuses.
pub fn score_sequence(
    truth: &TrackingGroundTruth<'_>,
    prediction: &[Rect],
    convention: &Convention,
) -> Result<SequenceScores> {
    let fail = |problem| Error::Tracking(truth.name.to_string(), problem);
    let frames = truth.boxes.len();
    if let Some(visible) = &truth.visible
        && visible.len() != frames
    {
        return Err(fail(TrackingProblem::Visibility(visible.len(), frames)));
    }
    let prediction = prepare(prediction, &truth.boxes, convention).map_err(fail)?;
    let measured = Measured::new(truth, &prediction, convention);
    if measured.overlaps.is_empty() {
        return Err(fail(TrackingProblem::NoFrames));
    }
    Ok(measured.scores(&truth.name, frames, convention))
}

/// Overlaps and errors of the frames that count.
#[derive(Default)]
struct Measured {
    overlaps: Vec<f64>,
    center_errors: Vec<f64>,
    normalized_errors: Vec<f64>,
    /// Frames with a valid annotation.
    seen: Vec<ValidFrame>,
}

impl Measured {
    fn new(truth: &TrackingGroundTruth<'_>, prediction: &[Rect], convention: &Convention) -> Self {
        let mut measured = Self::default();
        for (i, (annotated, predicted)) in truth.boxes.iter().zip(prediction).enumerate() {
            let seen = truth.visible.as_ref().is_none_or(|visible| visible[i]);
            let proper = !convention.valid_if_positive || annotated.iter().all(|&value| value > 0.0);
            let valid = seen && proper;
            let left_out = i == 0 && !convention.first_frame;
            if left_out || (convention.exclude_invalid_frames && !valid) {
                continue;
            }
            let predicted = if i == 0 { annotated } else { predicted };
            let [predicted, annotated] =
                [predicted, annotated].map(|rect| adjust(*rect, truth.image_size, convention));
            let error = |rule: Option<f64>, computed| rule.filter(|_| !valid).unwrap_or(computed);
            let normalized_rule =
                if seen { convention.invalid_normalized_error } else { convention.unseen_normalized_error };
            let overlap = if valid { overlap(&predicted, &annotated) } else { 0.0 };
            measured.overlaps.push(overlap);
            let [dx, dy] = offset(&predicted, &annotated);
            let center = dx.hypot(dy);
            measured.center_errors.push(error(convention.invalid_center_error, center));
            let normalized = (dx / annotated[2]).hypot(dy / annotated[3]);
            measured.normalized_errors.push(error(normalized_rule, normalized));
            if valid {
                measured.seen.push(ValidFrame { frame: i, overlap, normalized_error: normalized });
            }
        }
        measured
    }

    fn scores(&self, name: &str, frames: usize, convention: &Convention) -> SequenceScores {
        let Self { overlaps, center_errors, normalized_errors, seen } = self;
        let curve = curves::success(overlaps, convention.success_thresholds);
        let last = curves::MAX_CENTER_ERROR;
        let precision_curve = curves::precision(center_errors, last + 1, last as f64);
        let (count, last) = (curves::NORMALIZED_THRESHOLDS, curves::MAX_NORMALIZED_ERROR);
        let norm_precision_curve = curves::precision(normalized_errors, count, last);
        let norm_precision =
            curves::percentage(normalized_errors, |error| error <= curves::NORMALIZED_PRECISION_AT);
        SequenceScores {
            name: name.to_owned(),
            frames,
            counted: overlaps.len(),
            figures: TrackingFigures {
                auc: curve.iter().sum::<f64>() / curve.len() as f64,
                op50: curves::percentage(overlaps, |overlap| overlap > 0.5),
                op75: curves::percentage(overlaps, |overlap| overlap > 0.75),
                precision: precision_curve[curves::PRECISION_AT],
                norm_precision,
                average_overlap: 100.0 * overlaps.iter().sum::<f64>() / overlaps.len() as f64,
                curve,
                precision_curve,
                norm_precision_curve,
            },
            diagnosis: Diagnosis::new(seen),
        }
    }
}

/// Returns the distance of the two centres along x and y, in pixels.
fn offset(a: &Rect, b: &Rect) -> [f64; 2] {
    [0, 1].map(|i| (a[i] - b[i]) + (a[i + 2] - b[i + 2]) / 2.0)
}

/// Clips a box as the convention requires.
fn adjust(mut rect: Rect, image_size: Option<[f64; 2]>, convention: &Convention) -> Rect {
    // Boxes with NaN stay as they are: `max` would turn NaN into zero.
    if convention.clip_to_image
        && let Some(size) = image_size
        && rect.iter().all(|value| value.is_finite())
    {
        for (i, limit) in size.into_iter().enumerate() {
            // `clamp` would panic on a size that is NaN.
            rect[i] = rect[i].max(0.0).min(limit);
            rect[i + 2] = rect[i + 2].max(0.0).min(limit - rect[i]);
        }
    }
    rect
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_of_centres() {
        assert_eq!(offset(&[0., 0., 10., 10.], &[3., 4., 10., 10.]), [-3., -4.]);
        assert_eq!(offset(&[0., 0., 4., 2.], &[1., 1., 2., 0.]), [0., 0.]);
    }
}
