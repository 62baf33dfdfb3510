//! What the toolkits do differently, each difference a field.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How frames become figures. Named constructors give what a toolkit does; any field can then be changed, and
/// the report records them all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convention {
    /// What to call it in reports.
    pub name: String,
    /// The frame whose box the tracker was given.
    pub first_frame: FirstFrame,
    /// A predicted box with a side of zero.
    pub empty_prediction: EmptyPrediction,
    /// A predicted box with a negative side or a number that is not finite.
    pub malformed_prediction: MalformedPrediction,
    /// Fewer boxes than frames.
    pub short_result: ShortResult,
    /// Which annotated boxes are valid. A frame where the target is known to be out of sight is never valid.
    pub valid_box: ValidBox,
    /// Whether frames without a valid box are left out; otherwise they count, as failures where nothing below
    /// says other.
    pub exclude_invalid_frames: bool,
    /// The centre error in a frame without a valid box.
    pub invalid_center_error: InvalidError,
    /// The normalised centre error in a frame without a valid box.
    pub invalid_normalized_error: InvalidError,
    /// The normalised centre error in a frame where the target is known to be out of sight; it goes before
    /// the field above.
    pub unseen_normalized_error: InvalidError,
    /// Whether both boxes are first clipped to the image where its size is known: the left and upper edge
    /// moved inside, the sides shortened to what is then left. As a side keeps its length when an edge moves,
    /// a box that hangs over the left or upper border is shifted, not cut.
    pub clip_to_image: bool,
    /// Whether both boxes are first rounded to integers, halves to even.
    pub round_boxes: bool,
    /// What counts alike.
    pub weighting: Weighting,
    /// The number of thresholds of the success curve, evenly spaced from 0 to 1; the comparison is strict.
    pub success_thresholds: usize,
    /// The number of thresholds of the normalised precision curve, evenly spaced from 0 to 0.5.
    pub normalized_thresholds: usize,
    /// How the area under a curve is computed.
    pub area: Area,
    /// Which number of its curve stands for normalised precision.
    pub normalized_precision: NormalizedPrecision,
}

/// The frame whose box the tracker was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstFrame {
    /// It counts, with the annotated box in place of the predicted one.
    Overwritten,
    /// It does not count.
    LeftOut,
}

/// A predicted box with a side of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyPrediction {
    /// The box before it is taken.
    Previous,
    /// It is scored as it is: no overlap, but its centre counts.
    Kept,
}

/// A predicted box with a negative side or a number that is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MalformedPrediction {
    /// The sequence fails.
    Refused,
    /// The box before it is taken.
    Previous,
}

/// Fewer boxes than frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortResult {
    /// Boxes of zeros follow, which are scored as they are.
    Padded,
    /// The other frames are failures.
    Missed,
    /// The sequence fails.
    Refused,
}

/// Which annotated boxes are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidBox {
    /// All four numbers are above zero: also x and y, so that a target at the left or upper border makes a
    /// frame invalid.
    AllPositive,
    /// Any.
    Any,
}

/// An error in a frame without a valid box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidError {
    /// −1: a hit, whatever was predicted.
    Hit,
    /// Infinite: a failure.
    Miss,
    /// As in any other frame; a failure where the annotation has no numbers.
    Computed,
}

/// What counts alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weighting {
    /// Every sequence: the mean of the sequences' curves.
    Sequences,
    /// Every frame.
    Frames,
}

/// How the area under a curve is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The mean of the values. No overlap is above 1, so that 21 thresholds give a success of at most 95.24
    /// %.
    Mean,
    /// The trapezoidal rule, divided by the range of the thresholds.
    Trapezoid,
}

/// Which number of its curve stands for normalised precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormalizedPrecision {
    /// The value at 0.20.
    At20,
    /// The area from 0 to 0.5.
    Area,
}

impl Convention {
    /// pytracking on every dataset but those with a constructor of their own: OTB-100, NFS, GOT-10k.
    pub fn pytracking() -> Self {
        Self {
            name: "pytracking".to_owned(),
            first_frame: FirstFrame::Overwritten,
            empty_prediction: EmptyPrediction::Previous,
            malformed_prediction: MalformedPrediction::Refused,
            short_result: ShortResult::Padded,
            valid_box: ValidBox::AllPositive,
            exclude_invalid_frames: false,
            invalid_center_error: InvalidError::Miss,
            invalid_normalized_error: InvalidError::Hit,
            unseen_normalized_error: InvalidError::Hit,
            clip_to_image: false,
            round_boxes: false,
            weighting: Weighting::Sequences,
            success_thresholds: 21,
            normalized_thresholds: 51,
            area: Area::Mean,
            normalized_precision: NormalizedPrecision::At20,
        }
    }

    /// pytracking on UAV123, where frames without the target count as hits in precision.
    pub fn pytracking_uav() -> Self {
        Self {
            name: "pytracking, UAV123".to_owned(),
            invalid_center_error: InvalidError::Hit,
            ..Self::pytracking()
        }
    }

    /// pytracking on LaSOT, which refuses short results and counts frames where the target is out of sight as
    /// failures in normalised precision.
    pub fn pytracking_lasot() -> Self {
        Self {
            name: "pytracking, LaSOT".to_owned(),
            short_result: ShortResult::Refused,
            unseen_normalized_error: InvalidError::Miss,
            ..Self::pytracking()
        }
    }

    /// The MATLAB toolkit of OTB, one-pass evaluation: frames without a valid box are hits in precision, and
    /// malformed boxes repeat the one before. It has no normalised precision; the field is as in pytracking.
    pub fn otb() -> Self {
        Self {
            name: "OTB toolkit".to_owned(),
            malformed_prediction: MalformedPrediction::Previous,
            short_result: ShortResult::Refused,
            invalid_center_error: InvalidError::Hit,
            ..Self::pytracking()
        }
    }

    /// The GOT-10k toolkit on OTB: no frame is invalid, and boxes are scored as they are.
    pub fn got10k_otb() -> Self {
        Self {
            name: "GOT-10k toolkit, OTB".to_owned(),
            empty_prediction: EmptyPrediction::Kept,
            short_result: ShortResult::Refused,
            valid_box: ValidBox::Any,
            invalid_center_error: InvalidError::Computed,
            invalid_normalized_error: InvalidError::Computed,
            unseen_normalized_error: InvalidError::Computed,
            ..Self::pytracking()
        }
    }

    /// The GOT-10k toolkit on GOT-10k: AO, SR₀.₅ and SR₀.₇₅ are [`average_overlap`](super::TrackingReport::average_overlap),
    /// `op50` and `op75` over all frames of all sequences together, without the first frames and those where the
    /// target can not be seen (cover label 0), boxes clipped to the image.
    pub fn got10k() -> Self {
        Self {
            name: "GOT-10k toolkit".to_owned(),
            first_frame: FirstFrame::LeftOut,
            exclude_invalid_frames: true,
            clip_to_image: true,
            weighting: Weighting::Frames,
            success_thresholds: 101,
            ..Self::got10k_otb()
        }
    }

    /// The evaluation of TrackingNet: boxes rounded, areas by the trapezoidal rule, normalised precision as
    /// an area. Precision is that at 20 pixels, as in the published tables.
    pub fn trackingnet() -> Self {
        Self {
            name: "TrackingNet".to_owned(),
            short_result: ShortResult::Missed,
            round_boxes: true,
            normalized_thresholds: 21,
            area: Area::Trapezoid,
            normalized_precision: NormalizedPrecision::Area,
            ..Self::got10k_otb()
        }
    }

    /// Without the frames that have no valid box.
    #[must_use]
    pub fn excluding_invalid_frames(mut self) -> Self {
        self.exclude_invalid_frames = true;
        self.name.push_str(", without invalid frames");
        self
    }

    /// A curve needs its two ends.
    pub(super) fn check(&self) -> Result<()> {
        let counts = [
            ("thresholds of success", self.success_thresholds),
            ("thresholds of normalised precision", self.normalized_thresholds),
        ];
        for (what, found) in counts {
            if found < 2 {
                return Err(Error::TooFew { what, found, needed: 2 });
            }
        }
        Ok(())
    }
}
