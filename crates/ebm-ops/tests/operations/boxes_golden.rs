//! Boxes: closed forms, torchvision's IoU and NMS (golden/roi_torchvision.py), absurd input.

use candle_core::{DType, Device, Tensor};
use ebm_ops::Error;
use ebm_ops::boxes::{BBox, BoxConvention, area, batched_nms, clip, iou, paired_iou};
use proptest::prelude::*;

use crate::common::golden;

use BoxConvention::{HalfOpen, Inclusive};

fn boxes_of(t: &Tensor) -> Vec<BBox> {
    t.to_vec2::<f32>().unwrap().iter().map(|b| b.as_slice().try_into().unwrap()).collect()
}

fn indices(t: &Tensor) -> Vec<usize> {
    t.to_vec1::<i64>().unwrap().into_iter().map(|i| i as usize).collect()
}

/// All in one group.
fn nms(
    boxes: &[BBox],
    scores: &[f32],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<usize>, Error> {
    batched_nms(boxes, scores, &vec![0; boxes.len()], threshold, convention)
}

#[test]
fn closed_forms() {
    let (a, b) = ([0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 15.0, 15.0]);
    assert_eq!((area(&a, HalfOpen), area(&a, Inclusive)), (100.0, 121.0));
    assert!((iou(&a, &b, HalfOpen) - 1.0 / 7.0).abs() < 1e-7);
    assert!((iou(&a, &b, Inclusive) - 36.0 / 206.0).abs() < 1e-7);
    assert_eq!(iou(&a, &a, HalfOpen), 1.0);
    assert_eq!(iou(&a, &[10.0, 0.0, 20.0, 10.0], HalfOpen), 0.0);
    assert!(iou(&a, &[10.0, 0.0, 20.0, 10.0], Inclusive) > 0.0);
    assert_eq!(area(&[3.0, 3.0, 1.0, 9.0], HalfOpen), 0.0);
    assert_eq!(iou(&[3.0; 4], &[3.0; 4], HalfOpen), 0.0);
    assert_eq!(iou(&[3.0; 4], &[3.0; 4], Inclusive), 1.0);
    assert_eq!(clip(&[-3.0, 2.0, 30.0, 40.0], 20.0, 10.0, HalfOpen), [0.0, 2.0, 20.0, 10.0]);
    assert_eq!(clip(&[-3.0, 2.0, 30.0, 40.0], 20.0, 10.0, Inclusive), [0.0, 2.0, 19.0, 9.0]);
}

#[test]
fn iou_and_nms_are_torchvisions() {
    let golden = golden("roi_torchvision");
    let boxes = boxes_of(&golden["boxes"]);
    let scores = golden["scores"].to_vec1::<f32>().unwrap();
    let groups = indices(&golden["groups"]);
    let expected = golden["iou"].flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let found: Vec<f32> =
        boxes[..20].iter().flat_map(|a| boxes[20..60].iter().map(move |b| iou(a, b, HalfOpen))).collect();
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() < 1e-6, "pair {i}: {a} against {b}");
    }
    for threshold in [0.3, 0.5, 0.7] {
        let kept = nms(&boxes, &scores, threshold, HalfOpen).unwrap();
        assert_eq!(kept, indices(&golden[&format!("nms.{threshold}")]), "nms {threshold}");
        let kept = batched_nms(&boxes, &scores, &groups, threshold, HalfOpen).unwrap();
        assert_eq!(kept, indices(&golden[&format!("batched_nms.{threshold}")]), "batched_nms {threshold}");
    }
}

#[test]
fn at_equality_only_the_inclusive_convention_suppresses() {
    // IoU exactly one half: 8 × 4 within 8 × 8, and 8 × 4 pixels within 8 × 8 pixels.
    let scores = [0.5, 0.9];
    let half_open = [[0.0, 0.0, 8.0, 4.0], [0.0, 0.0, 8.0, 8.0]];
    let inclusive = [[0.0, 0.0, 7.0, 3.0], [0.0, 0.0, 7.0, 7.0]];
    assert_eq!(nms(&half_open, &scores, 0.5, HalfOpen).unwrap(), [1, 0]);
    assert_eq!(nms(&inclusive, &scores, 0.5, Inclusive).unwrap(), [1]);
    assert_eq!(nms(&half_open, &scores, 0.499, HalfOpen).unwrap(), [1]);
}

#[test]
fn ties_are_ordered_by_index_and_groups_are_separate() {
    let same = [[0.0, 0.0, 4.0, 4.0]; 4];
    assert_eq!(nms(&same, &[0.5, 0.5, 0.5, 0.5], 0.5, HalfOpen).unwrap(), [0]);
    assert_eq!(nms(&same, &[-0.0, 0.0, -0.0, 0.0], 0.5, HalfOpen).unwrap(), [0]);
    let kept = batched_nms(&same, &[0.1, 0.5, 0.5, 0.7], &[7, 3, 3, 7], 0.5, HalfOpen).unwrap();
    assert_eq!(kept, [3, 1]);
    let apart = [[0.0, 0.0, 4.0, 4.0], [9.0, 9.0, 12.0, 12.0], [20.0, 0.0, 24.0, 4.0]];
    assert_eq!(nms(&apart, &[0.5, 0.5, 0.9], 0.5, HalfOpen).unwrap(), [2, 0, 1]);
    assert!(nms(&[], &[], 0.5, HalfOpen).unwrap().is_empty());
    assert!(batched_nms(&[], &[], &[], 0.5, HalfOpen).unwrap().is_empty());
}

#[test]
fn non_finite_input_is_refused() {
    let good = [[0.0, 0.0, 4.0, 4.0]; 3];
    let mut bad = good;
    bad[2][1] = f32::INFINITY;
    let reason = |result: Result<Vec<usize>, Error>| match result {
        Err(Error::Argument { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(nms(&good, &[0.1, f32::NAN, 0.3], 0.5, HalfOpen)).contains("score 1"));
    assert!(reason(nms(&bad, &[0.1, 0.2, 0.3], 0.5, HalfOpen)).contains("box 2"));
    assert!(reason(nms(&good, &[0.1, 0.2, 0.3], f32::NAN, HalfOpen)).contains("threshold"));
    assert!(reason(nms(&good, &[0.1, 0.2], 0.5, HalfOpen)).contains("3 boxes come with 2 scores"));
    assert!(reason(batched_nms(&good, &[0.1, 0.2, 0.3], &[0], 0.5, HalfOpen)).contains("1 groups"));
    assert!(reason(batched_nms(&good, &[0.1, f32::NAN, 0.3], &[0; 3], 0.5, HalfOpen)).contains("score 1"));
}

#[test]
fn paired_iou_is_the_scalar_iou() {
    let boxes = boxes_of(&golden("roi_torchvision")["boxes"]);
    for dtype in [DType::F32, DType::F64] {
        let y = Tensor::from_slice(&boxes[..60].concat(), (3, 20, 4), &Device::Cpu)
            .unwrap()
            .to_dtype(dtype)
            .unwrap();
        let y_i = Tensor::from_slice(&boxes[60..63].concat(), (3, 4), &Device::Cpu)
            .unwrap()
            .to_dtype(dtype)
            .unwrap();
        let found = paired_iou(&y, &y_i).unwrap();
        assert_eq!((found.dims(), found.dtype()), (&[3, 20][..], dtype));
        let found = found.flatten_all().unwrap().to_dtype(DType::F32).unwrap().to_vec1::<f32>().unwrap();
        for (i, value) in found.iter().enumerate() {
            let expected = iou(&boxes[i], &boxes[60 + i / 20], HalfOpen);
            assert!((value - expected).abs() < 1e-5, "pair {i}: {value} against {expected}");
        }
        assert!(found.iter().any(|&v| v > 0.2));
    }
    let degenerate = Tensor::zeros((1, 2, 4), DType::F32, &Device::Cpu).unwrap();
    let target = Tensor::zeros((1, 4), DType::F32, &Device::Cpu).unwrap();
    assert_eq!(paired_iou(&degenerate, &target).unwrap().to_vec2::<f32>().unwrap(), [[0.0, 0.0]]);
    assert!(matches!(paired_iou(&target, &target), Err(Error::Argument { .. })));
    let empty = Tensor::zeros((1, 0, 4), DType::F32, &Device::Cpu).unwrap();
    assert_eq!(paired_iou(&empty, &target).unwrap().dims(), &[1, 0]);
}

fn any_box() -> impl Strategy<Value = BBox> {
    let coordinate = prop_oneof![
        5 => -20.0f32..40.0,
        1 => prop::sample::select(vec![0.0, 1e30, -1e30, f32::MAX, f32::MIN, 1e-30, 1e-45]),
    ];
    [coordinate.clone(), coordinate.clone(), coordinate.clone(), coordinate]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_finite_boxes(boxes in prop::collection::vec(any_box(), 1..30), seed in any::<u64>(), threshold in 0.0f32..1.0) {
        let scores: Vec<f32> = (0..boxes.len() as u64).map(|i| (i.wrapping_mul(seed | 1) % 13) as f32).collect();
        for convention in [HalfOpen, Inclusive] {
            for value in boxes.iter().flat_map(|a| boxes.iter().map(move |b| iou(a, b, convention))) {
                prop_assert!((0.0..=1.0).contains(&value));
            }
            let kept = nms(&boxes, &scores, threshold, convention).unwrap();
            for (rank, &i) in kept.iter().enumerate() {
                for &j in &kept[..rank] {
                    prop_assert!(scores[j] > scores[i] || (scores[j] == scores[i] && j < i));
                    prop_assert!(iou(&boxes[j], &boxes[i], convention) <= threshold);
                }
            }
            // What is gone overlaps something that is kept and ranks before it.
            for i in (0..boxes.len()).filter(|i| !kept.contains(i)) {
                let reason = kept
                    .iter()
                    .any(|&j| scores[j] >= scores[i] && iou(&boxes[j], &boxes[i], convention) >= threshold);
                prop_assert!(reason);
            }
            let together = batched_nms(&boxes, &scores, &vec![5; boxes.len()], threshold, convention).unwrap();
            prop_assert_eq!(&together, &kept);
            let apart: Vec<usize> = (0..boxes.len()).collect();
            prop_assert_eq!(batched_nms(&boxes, &scores, &apart, threshold, convention).unwrap().len(), boxes.len());
        }
        let corners: Vec<f32> = boxes.concat();
        let y = Tensor::from_vec(corners, (1, boxes.len(), 4), &Device::Cpu).unwrap();
        let found = paired_iou(&y, &y.narrow(1, 0, 1).unwrap().squeeze(1).unwrap()).unwrap();
        for value in found.flatten_all().unwrap().to_vec1::<f32>().unwrap() {
            prop_assert!((0.0..=1.0).contains(&value), "{}", value);
        }
    }
}
