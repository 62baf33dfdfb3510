//! Differences between the toolkits' ways of scoring; each difference is a field.

use serde::{Deserialize, Serialize};

/// Centre error that makes a frame a hit with any prediction.
pub const HIT: f64 = -1.0;
/// Centre error that makes a frame a failure: larger than every threshold.
pub const MISS: f64 = 1e9;

/// Rules for computing figures from frames. Named constructors give the rules of a toolkit; any field can then be
/// changed, and the report records all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convention {
    /// Name of the convention in reports.
    pub name: String,
    /// Whether the first frame counts. Its prediction is then the annotated box, which the tracker was given.
    pub first_frame: bool,
    /// Whether a predicted box with a side of zero is replaced by the box before it; otherwise it is scored as it is,
    /// with no overlap but a valid centre.
    pub repeat_empty: bool,
    /// Whether a predicted box with a negative side or a number that is not finite is replaced by the box before it;
    /// otherwise the sequence fails.
    pub repeat_malformed: bool,
    /// Whether a sequence with fewer boxes than frames fails; otherwise the missing boxes are zeros, scored as they are.
    pub refuse_short: bool,
    /// Whether an annotated box is valid only if its four numbers are above zero. This includes x and y, so that a
    /// target at the left or upper border makes a frame invalid. A frame where the target is known to be out of sight
    /// is never valid.
    pub valid_if_positive: bool,
    /// Whether frames without a valid box are left out; otherwise they count as failures, unless a field below
    /// states another rule.
    pub exclude_invalid_frames: bool,
    /// Centre error in a frame without a valid box, [`HIT`] or [`MISS`]; none computes it as in other frames.
    pub invalid_center_error: Option<f64>,
    /// Normalised centre error in a frame without a valid box; none computes it as in other frames.
    pub invalid_normalized_error: Option<f64>,
    /// Normalised centre error in a frame where the target is known to be out of sight; it replaces the field
    /// above there.
    pub unseen_normalized_error: Option<f64>,
    /// Whether both boxes are first clipped to the image, if its size is known: the left and upper edges are moved
    /// inside, then the sides are shortened to fit. A side keeps its length when its edge moves, so a box that
    /// crosses the left or upper border is shifted, not cut.
    pub clip_to_image: bool,
    /// Whether every frame has equal weight; otherwise every sequence has: the figures are means over sequences.
    pub weight_by_frames: bool,
    /// Number of thresholds of the success curve, at least 2, evenly spaced from 0 to 1. The comparison is strict and no
    /// overlap is above 1, so 21 thresholds give a success of at most 95.24 %.
    pub success_thresholds: usize,
}

impl Convention {
    /// Returns pytracking's rules for datasets without a constructor of their own: OTB-100, NFS, GOT-10k.
    pub fn pytracking() -> Self {
        Self {
            name: "pytracking".to_owned(),
            first_frame: true,
            repeat_empty: true,
            repeat_malformed: false,
            refuse_short: false,
            valid_if_positive: true,
            exclude_invalid_frames: false,
            invalid_center_error: Some(MISS),
            invalid_normalized_error: Some(HIT),
            unseen_normalized_error: Some(HIT),
            clip_to_image: false,
            weight_by_frames: false,
            success_thresholds: 21,
        }
    }

    /// Returns this convention under another name.
    fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Returns pytracking's rules for UAV123, where frames without the target count as hits in precision.
    pub fn pytracking_uav() -> Self {
        Self { invalid_center_error: Some(HIT), ..Self::pytracking() }.called("pytracking, UAV123")
    }

    /// Returns pytracking's rules for LaSOT, which refuse short results and count frames where the target is out of
    /// sight as failures in normalised precision.
    pub fn pytracking_lasot() -> Self {
        Self { refuse_short: true, unseen_normalized_error: Some(MISS), ..Self::pytracking() }
            .called("pytracking, LaSOT")
    }

    /// Returns the rules of OTB's MATLAB toolkit for one-pass evaluation: frames without a valid box are hits in
    /// precision, and a malformed box is replaced by the one before. The toolkit has no normalised precision; that
    /// field is as in pytracking.
    pub fn otb() -> Self {
        Self { repeat_malformed: true, refuse_short: true, ..Self::pytracking_uav() }.called("OTB toolkit")
    }

    /// Returns the GOT-10k toolkit's rules for OTB: no frame is invalid, and boxes are scored as they are.
    pub fn got10k_otb() -> Self {
        Self {
            repeat_empty: false,
            refuse_short: true,
            valid_if_positive: false,
            invalid_center_error: None,
            invalid_normalized_error: None,
            unseen_normalized_error: None,
            ..Self::pytracking()
        }
        .called("GOT-10k toolkit, OTB")
    }

    /// Returns the GOT-10k toolkit's rules for GOT-10k. AO, SR₀.₅ and SR₀.₇₅ are
    /// [`average_overlap`](super::TrackingFigures::average_overlap), `op50` and `op75` over all frames of all sequences
    /// together, without the first frames and without frames where the target is out of sight (cover label 0). Boxes are
    /// clipped to the image.
    pub fn got10k() -> Self {
        Self {
            first_frame: false,
            exclude_invalid_frames: true,
            clip_to_image: true,
            weight_by_frames: true,
            success_thresholds: 101,
            ..Self::got10k_otb()
        }
        .called("GOT-10k toolkit")
    }

    /// Leaves out the frames without a valid box.
    #[must_use]
    pub fn excluding_invalid_frames(mut self) -> Self {
        self.exclude_invalid_frames = true;
        self.name.push_str(", without invalid frames");
        self
    }
}
