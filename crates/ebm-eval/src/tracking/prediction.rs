//! Preparation of predicted boxes for scoring: one box for each frame, repaired by the convention's rules.

use std::borrow::Cow;

use ebm_data::sequences::Rect;

use super::convention::Convention;
use super::overlap;
use crate::error::TrackingProblem;

/// Checks `prediction` against the `annotation`, repairs it by the convention's rules, and extends it to the
/// annotation's length.
pub(super) fn prepare<'a>(
    prediction: &'a [Rect],
    annotation: &[Rect],
    convention: &Convention,
) -> Result<Cow<'a, [Rect]>, TrackingProblem> {
    check_sequence(prediction, annotation, convention)?;
    let mut prepared = Cow::Borrowed(prediction);
    for i in 0..prediction.len() {
        let malformed = is_malformed(&prepared[i]);
        if malformed && !convention.repeat_malformed {
            return Err(TrackingProblem::Malformed(i + 1, prepared[i]));
        }
        let empty = prepared[i][2..].contains(&0.0);
        let repeated = malformed || (empty && convention.repeat_empty);
        if repeated && i > 0 {
            let previous = prepared[i - 1];
            prepared.to_mut()[i] = previous;
        }
    }
    if prepared.len() < annotation.len() {
        prepared.to_mut().resize(annotation.len(), [0.0; 4]);
    }
    Ok(prepared)
}

fn is_malformed(rect: &Rect) -> bool {
    rect.iter().any(|value| !value.is_finite()) || rect[2] < 0.0 || rect[3] < 0.0
}

/// Checks that a prediction can be a result for the annotated sequence: it has no more boxes than there are
/// frames, and its first box overlaps the annotated one, which every tracker is given.
fn check_sequence(
    prediction: &[Rect],
    annotation: &[Rect],
    convention: &Convention,
) -> Result<(), TrackingProblem> {
    let (found, frames) = (prediction.len(), annotation.len());
    if found > frames {
        return Err(TrackingProblem::Long(found, frames));
    }
    let (Some(first), Some(annotated)) = (prediction.first(), annotation.first()) else {
        return Err(if frames == 0 {
            TrackingProblem::NoFrames
        } else {
            TrackingProblem::Short(found, frames)
        });
    };
    if overlap(annotated, annotated) > 0.0 && overlap(first, annotated) == 0.0 {
        return Err(TrackingProblem::FirstBox(*first, *annotated));
    }
    if found < frames && convention.refuse_short {
        return Err(TrackingProblem::Short(found, frames));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Rect = [1., 2., 10., 10.];
    const B: Rect = [2., 2., 10., 10.];
    const EMPTY: Rect = [5., 5., 0., 3.];

    fn prepared(prediction: &[Rect], convention: &Convention) -> Result<Vec<Rect>, TrackingProblem> {
        prepare(prediction, &[A; 4], convention).map(Cow::into_owned)
    }

    #[test]
    fn empty_boxes_repeat_the_one_before_but_padding_does_not() {
        let convention = Convention::pytracking();
        assert_eq!(prepared(&[A, B, EMPTY, EMPTY], &convention).unwrap(), [A, B, B, B]);
        assert_eq!(prepared(&[A, B, EMPTY], &convention).unwrap(), [A, B, B, [0.; 4]]);
        assert_eq!(prepared(&[A, B, EMPTY, A], &Convention::got10k_otb()).unwrap(), [A, B, EMPTY, A]);
    }

    #[test]
    fn malformed_boxes_are_refused_or_repeat_the_one_before() {
        for bad in [[1., 2., -3., 4.], [f64::NAN, 2., 3., 4.], [1., f64::INFINITY, 3., 4.]] {
            let refused = prepared(&[A, B, bad, A], &Convention::pytracking()).unwrap_err();
            assert!(matches!(refused, TrackingProblem::Malformed(3, _)));
            assert_eq!(prepared(&[A, B, bad, A], &Convention::otb()).unwrap(), [A, B, B, A]);
        }
    }

    #[test]
    fn the_result_of_another_sequence_is_refused() {
        let convention = Convention::pytracking();
        assert_eq!(prepared(&[A; 5], &convention), Err(TrackingProblem::Long(5, 4)));
        assert_eq!(prepared(&[], &convention), Err(TrackingProblem::Short(0, 4)));
        let far = [100., 2., 10., 10.];
        let expected = TrackingProblem::FirstBox(far, A);
        assert_eq!(prepared(&[far, A, A, A], &convention), Err(expected));
        let short = prepared(&[A; 3], &Convention::pytracking_lasot());
        assert_eq!(short, Err(TrackingProblem::Short(3, 4)));
        assert_eq!(prepare(&[], &[], &convention), Err(TrackingProblem::NoFrames));
    }
}
