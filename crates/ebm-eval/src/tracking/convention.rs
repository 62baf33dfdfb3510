//! What the toolkits do differently, each difference a field.

use serde::{Deserialize, Serialize};

/// The centre error that makes a frame a hit, whatever was predicted.
pub const HIT: f64 = -1.0;
/// The centre error that makes a frame a failure: beyond every threshold.
pub const MISS: f64 = 1e9;

/// How frames become figures. Named constructors give what a toolkit does; any field can then be changed, and
/// the report records them all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convention {
    /// What to call it in reports.
    pub name: String,
    /// Whether the first frame counts, with the annotated box, which the tracker was given, in place of the
    /// predicted one.
    pub first_frame: bool,
    /// Whether a predicted box with a side of zero becomes the box before it; otherwise it is scored as it is:
    /// no overlap, but its centre counts.
    pub repeat_empty: bool,
    /// Whether a predicted box with a negative side or a number that is not finite becomes the box before it;
    /// otherwise the sequence fails.
    pub repeat_malformed: bool,
    /// Whether a sequence with fewer boxes than frames fails; otherwise boxes of zeros, scored as they are, stand in
    /// for the missing ones.
    pub refuse_short: bool,
    /// Whether an annotated box is valid with four numbers above zero alone: also x and y, so that a target at
    /// the left or upper border makes a frame invalid. A frame where the target is known to be out of sight is
    /// never valid.
    pub valid_if_positive: bool,
    /// Whether frames without a valid box are left out; otherwise they count, as failures where nothing below
    /// says other.
    pub exclude_invalid_frames: bool,
    /// The centre error in a frame without a valid box, [`HIT`] or [`MISS`]; none: as in any other frame.
    pub invalid_center_error: Option<f64>,
    /// The normalised centre error in a frame without a valid box.
    pub invalid_normalized_error: Option<f64>,
    /// The normalised centre error in a frame where the target is known to be out of sight; it goes before
    /// the field above.
    pub unseen_normalized_error: Option<f64>,
    /// Whether both boxes are first clipped to the image where its size is known: the left and upper edge
    /// moved inside, the sides shortened to what is then left. As a side keeps its length when an edge moves,
    /// a box that hangs over the left or upper border is shifted, not cut.
    pub clip_to_image: bool,
    /// Whether every frame counts alike; otherwise every sequence: the mean of the sequences' curves.
    pub weight_by_frames: bool,
    /// The number of thresholds of the success curve, at least 2, evenly spaced from 0 to 1. The comparison is strict,
    /// and no overlap is above 1, so that 21 thresholds give a success of at most 95.24 %.
    pub success_thresholds: usize,
}

impl Convention {
    /// pytracking on every dataset but those with a constructor of their own: OTB-100, NFS, GOT-10k.
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

    /// This one, called `name`.
    fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// pytracking on UAV123, where frames without the target count as hits in precision.
    pub fn pytracking_uav() -> Self {
        Self { invalid_center_error: Some(HIT), ..Self::pytracking() }.called("pytracking, UAV123")
    }

    /// pytracking on LaSOT, which refuses short results and counts frames where the target is out of sight as
    /// failures in normalised precision.
    pub fn pytracking_lasot() -> Self {
        Self { refuse_short: true, unseen_normalized_error: Some(MISS), ..Self::pytracking() }
            .called("pytracking, LaSOT")
    }

    /// The MATLAB toolkit of OTB, one-pass evaluation: frames without a valid box are hits in precision, and
    /// malformed boxes repeat the one before. It has no normalised precision; the field is as in pytracking.
    pub fn otb() -> Self {
        Self { repeat_malformed: true, refuse_short: true, ..Self::pytracking_uav() }.called("OTB toolkit")
    }

    /// The GOT-10k toolkit on OTB: no frame is invalid, and boxes are scored as they are.
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

    /// The GOT-10k toolkit on GOT-10k: AO, SR₀.₅ and SR₀.₇₅ are [`average_overlap`](super::TrackingFigures::average_overlap),
    /// `op50` and `op75` over all frames of all sequences together, without the first frames and those where the
    /// target can not be seen (cover label 0), boxes clipped to the image.
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

    /// Without the frames that have no valid box.
    #[must_use]
    pub fn excluding_invalid_frames(mut self) -> Self {
        self.exclude_invalid_frames = true;
        self.name.push_str(", without invalid frames");
        self
    }
}
