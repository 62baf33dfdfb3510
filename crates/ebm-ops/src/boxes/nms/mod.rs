//! Non-maximum suppression.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::Device;

use super::{BBox, BoxConvention, area, iou_with_areas};
use crate::error::{Error, Result};

const OP: &str = "nms";

/// Suppresses non-maximum boxes greedily within each group (a class, a level, an image). Boxes of different groups do not
/// suppress each other. Returns the indices of the kept boxes of all groups by descending score, ties by index.
///
/// A box is removed if its IoU with a kept box of higher rank exceeds `threshold` under [`BoxConvention::HalfOpen`], as in
/// torchvision. Under [`BoxConvention::Inclusive`] it is also removed at equality, as in maskrcnn-benchmark on the CPU.
///
/// # Errors
/// [`Error::Argument`] if the lengths differ, or if a score, a coordinate or the threshold is NaN or infinite, because such a
/// score has no rank.
pub fn batched_nms(
    boxes: &[BBox],
    scores: &[f32],
    groups: &[usize],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<usize>> {
    batched_nms_on(&Device::Cpu, boxes, scores, groups, threshold, convention)
}

/// Computes [`batched_nms`] on `device`, with the same result. The boxes lie on the host. The CPU compares them if there are
/// more than 32 768 or if the device has no kernel.
///
/// # Errors
/// The errors of [`batched_nms`], and an error if the device is out of memory.
pub fn batched_nms_on(
    device: &Device,
    boxes: &[BBox],
    scores: &[f32],
    groups: &[usize],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<usize>> {
    check(boxes, scores, groups, threshold)?;
    let (order, sizes) = in_groups(scores, groups);
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device
        && (1..=MOST_ON_A_GPU).contains(&boxes.len())
    {
        let stays = cuda::suppress(device, &order, &sizes, boxes, threshold, convention)?;
        let kept = order.into_iter().zip(stays).filter_map(|(index, stays)| stays.then_some(index));
        return Ok(ranked(kept.collect(), scores));
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    let (mut kept, mut start) = (Vec::new(), 0);
    for size in sizes {
        kept.extend(suppress(&order[start..start + size], boxes, threshold, convention));
        start += size;
    }
    Ok(ranked(kept, scores))
}

/// Most boxes for the kernel, which keeps a bit for each pair of boxes.
#[cfg(feature = "cuda")]
const MOST_ON_A_GPU: usize = 1 << 15;

/// Returns the indices by group and then by descending score, and the size of each group.
fn in_groups(scores: &[f32], groups: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    sort_by_score(&mut order, scores);
    // The sort is stable, so the order within a group stays the order of the scores.
    let group = |&i: &usize| groups.get(i).copied();
    order.sort_by_key(group);
    let sizes = order.chunk_by(|a, b| group(a) == group(b)).map(<[usize]>::len).collect();
    (order, sizes)
}

/// Sorts indices by descending score, ties by index.
fn ranked(mut kept: Vec<usize>, scores: &[f32]) -> Vec<usize> {
    kept.sort_unstable();
    sort_by_score(&mut kept, scores);
    kept
}

fn check(boxes: &[BBox], scores: &[f32], groups: &[usize], threshold: f32) -> Result<()> {
    let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
    for (len, what) in [(scores.len(), "scores"), (groups.len(), "groups")] {
        if boxes.len() != len {
            return refuse(format!("{} boxes come with {len} {what}; one for each is expected", boxes.len()));
        }
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

/// Sorts ascending indices by descending score, and keeps the order of ties.
fn sort_by_score(indices: &mut [usize], scores: &[f32]) {
    // −0 and 0 are a tie, which `total_cmp` alone would order.
    indices.sort_by(|&a, &b| (scores[b] + 0.0).total_cmp(&(scores[a] + 0.0)));
}

/// Suppresses boxes greedily in the given order, and returns the kept ones.
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
