//! Non-maximum suppression.

use super::{BBox, BoxConvention, area, iou_with_areas};
use crate::error::{Error, Result};

const OP: &str = "nms";

/// Greedy non-maximum suppression: indices of the kept boxes by descending score, ties by index.
///
/// A box goes where its IoU with a kept one of higher rank exceeds `threshold` under [`BoxConvention::HalfOpen`], as in
/// torchvision; under [`BoxConvention::Inclusive`] it goes at equality too, as in maskrcnn-benchmark on the CPU.
///
/// # Errors
/// [`Error::Argument`] where the lengths differ or a score, a coordinate or the threshold is NaN or infinite: such a score has no
/// rank.
pub fn nms(boxes: &[BBox], scores: &[f32], threshold: f32, convention: BoxConvention) -> Result<Vec<usize>> {
    check(boxes, scores, threshold)?;
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    sort_by_score(&mut order, scores);
    Ok(suppress(&order, boxes, threshold, convention))
}

/// [`nms`] within each group (a class, a level, an image): boxes of different groups do not suppress each other. The kept
/// indices of all groups together are by descending score, ties by index.
///
/// # Errors
/// As [`nms`], and where `groups` has another length.
pub fn batched_nms(
    boxes: &[BBox],
    scores: &[f32],
    groups: &[usize],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<usize>> {
    check(boxes, scores, threshold)?;
    if groups.len() != boxes.len() {
        let reason =
            format!("{} boxes come with {} groups; one for each is expected", boxes.len(), groups.len());
        return Err(Error::Argument { op: OP, reason });
    }
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    sort_by_score(&mut order, scores);
    // Stable: within a group the order stays that of the scores.
    let group = |&i: &usize| groups.get(i).copied();
    order.sort_by_key(group);
    let mut kept = Vec::new();
    for members in order.chunk_by(|a, b| group(a) == group(b)) {
        kept.extend(suppress(members, boxes, threshold, convention));
    }
    kept.sort_unstable();
    sort_by_score(&mut kept, scores);
    Ok(kept)
}

fn check(boxes: &[BBox], scores: &[f32], threshold: f32) -> Result<()> {
    let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
    if boxes.len() != scores.len() {
        return refuse(format!(
            "{} boxes come with {} scores; one for each is expected",
            boxes.len(),
            scores.len()
        ));
    }
    if !threshold.is_finite() {
        return refuse(format!("the threshold is {threshold}; a number in [0, 1] is expected"));
    }
    if let Some(i) = scores.iter().position(|s| !s.is_finite()) {
        return refuse(format!("score {i} is {}; remove such boxes first", scores[i]));
    }
    if let Some(i) = boxes.iter().position(|b| b.iter().any(|v| !v.is_finite())) {
        return refuse(format!("box {i} is {:?}; remove such boxes first", boxes[i]));
    }
    Ok(())
}

/// Sorts ascending indices by descending score, keeping the order of ties.
fn sort_by_score(indices: &mut [usize], scores: &[f32]) {
    // −0 and 0 are a tie, which `total_cmp` alone would order.
    indices.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
}

/// Greedy suppression of boxes in the order given.
fn suppress(order: &[usize], boxes: &[BBox], threshold: f32, convention: BoxConvention) -> Vec<usize> {
    let candidates: Vec<(BBox, f32)> =
        order.iter().map(|&i| (boxes[i], area(&boxes[i], convention))).collect();
    let mut gone = vec![false; order.len()];
    let mut kept = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        if gone[rank] {
            continue;
        }
        kept.push(index);
        let (bbox, own) = &candidates[rank];
        for ((other, area), gone) in candidates[rank + 1..].iter().zip(&mut gone[rank + 1..]) {
            let overlap = iou_with_areas(bbox, *own, other, *area, convention);
            *gone |= match convention {
                BoxConvention::HalfOpen => overlap > threshold,
                BoxConvention::Inclusive => overlap >= threshold,
            };
        }
    }
    kept
}
