//! IoU-guided non-maximum suppression (IoU-Net, Algorithm 1; the paper guides it with f).

use ebm_ops::boxes::{BBox, BoxConvention, iou};

use crate::{Error, Result};

/// A box that survived: its index and the classification score it inherits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survivor {
    /// Index into the input.
    pub index: usize,
    /// The highest classification score among the boxes it stands for.
    pub score: f32,
}

/// Suppression among boxes of one class, ranked by localisation confidence `guide` (f or a predicted IoU).
///
/// The remaining box with the highest `guide` is kept and absorbs every box that overlaps it by more than
/// `threshold`; it takes the highest classification score of them all. Survivors come in descending `guide`,
/// equal values in input order.
///
/// # Errors
/// [`Error::Input`] when a score or guide is not a number: an order over them would be meaningless.
pub fn iou_guided_nms(
    boxes: &[BBox],
    scores: &[f32],
    guide: &[f32],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<Survivor>> {
    if let Some(i) = (0..boxes.len()).find(|&i| !guide[i].is_finite() || !scores[i].is_finite()) {
        return Err(Error::input(
            "iou_guided_nms",
            format!("box {i} has score {} and localisation confidence {}", scores[i], guide[i]),
        ));
    }
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| guide[b].total_cmp(&guide[a]).then(a.cmp(&b)));
    let mut survivors = Vec::new();
    while let Some(&index) = order.first() {
        let mut score = scores[index];
        order.retain(|&other| {
            let absorbed = other == index || iou(&boxes[index], &boxes[other], convention) > threshold;
            if absorbed {
                score = score.max(scores[other]);
            }
            !absorbed
        });
        survivors.push(Survivor { index, score });
    }
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOXES: [BBox; 4] = [[0., 0., 9., 9.], [1., 1., 10., 10.], [20., 20., 29., 29.], [0., 0., 9., 4.]];

    #[test]
    fn golden_clusters() {
        let kept = iou_guided_nms(
            &BOXES,
            &[0.9, 0.6, 0.7, 0.8],
            &[0.2, 0.5, 0.1, 0.4],
            0.5,
            BoxConvention::Inclusive,
        )
        .unwrap();
        let golden = [(1, 0.9), (3, 0.8), (2, 0.7)].map(|(index, score)| Survivor { index, score });
        assert_eq!(kept, golden);
    }

    #[test]
    fn a_nan_is_refused() {
        let guide = [0.2, f32::NAN, 0.1, 0.4];
        assert!(iou_guided_nms(&BOXES, &[0.9; 4], &guide, 0.5, BoxConvention::HalfOpen).is_err());
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert_eq!(iou_guided_nms(&[], &[], &[], 0.5, BoxConvention::HalfOpen).unwrap(), []);
    }
}
