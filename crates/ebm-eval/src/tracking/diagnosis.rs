//! Failures in a sequence: a wrong box, or a wrong place.

use serde::{Deserialize, Serialize};

/// Overlap above which a target counts as followed.
const FOLLOWED: f64 = 0.5;
/// Distance of the centres, in sides of the annotated box, above which a target counts as lost: roughly beyond
/// the border of the box.
const LOST: f64 = 0.5;

/// Behaviour of a tracker in a sequence. In each frame it followed the target, was at the target with a wrong
/// box, or was elsewhere. Frames without a valid annotation are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Fraction of frames with an overlap above 0.5.
    pub followed: f64,
    /// Fraction of frames with less overlap whose centres are within half a side of each other.
    pub box_wrong: f64,
    /// Fraction of frames with less overlap whose centres are further apart.
    pub lost: f64,
    /// First frame in which the target was lost, from 0.
    pub first_lost: Option<usize>,
    /// Number of times that the target was lost.
    pub times_lost: usize,
    /// Number of times that the target was found again.
    pub times_found: usize,
}

/// A frame with a valid annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValidFrame {
    /// Number of the frame, from 0.
    pub frame: usize,
    /// Overlap (IoU) of the boxes.
    pub overlap: f64,
    /// Distance of the centres, in sides of the annotated box.
    pub normalized_error: f64,
}

impl Diagnosis {
    /// Computes the diagnosis from the frames in their order.
    pub(super) fn new(frames: &[ValidFrame]) -> Self {
        let is_far = |error: f64| error > LOST || error.is_nan();
        let is_lost = |seen: &ValidFrame| seen.overlap <= FOLLOWED && is_far(seen.normalized_error);
        let share = |count: usize| count as f64 / frames.len().max(1) as f64;
        let lost = frames.iter().filter(|seen| is_lost(seen)).count();
        let followed = frames.iter().filter(|seen| seen.overlap > FOLLOWED).count();
        let (mut times_lost, mut times_found, mut before) = (0, 0, false);
        for seen in frames {
            let now = is_lost(seen);
            times_lost += usize::from(now && !before);
            times_found += usize::from(before && !now);
            before = now;
        }
        Self {
            followed: share(followed),
            box_wrong: share(frames.len() - followed - lost),
            lost: share(lost),
            first_lost: frames.iter().find(|seen| is_lost(seen)).map(|seen| seen.frame),
            times_lost,
            times_found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_lost_and_found() {
        let of = |frames: &[(f64, f64)]| {
            let numbered = frames.iter().enumerate();
            let seen = numbered.map(|(frame, &(overlap, normalized_error))| ValidFrame {
                frame,
                overlap,
                normalized_error,
            });
            Diagnosis::new(&seen.collect::<Vec<_>>())
        };
        let (good, wrong, lost) = ((0.8, 0.1), (0.3, 0.4), (0.0, 2.0));
        let found = of(&[good, wrong, lost, lost, good, (0.0, f64::NAN), good, (0.5, 0.5), lost, lost]);
        let shares = (0.3, 0.2, 0.5);
        assert_eq!((found.followed, found.box_wrong, found.lost), shares);
        assert_eq!((found.first_lost, found.times_lost, found.times_found), (Some(2), 3, 2));
        assert_eq!(of(&[]), Diagnosis::default());
        assert_eq!(of(&[good, wrong]).first_lost, None);
    }
}
