//! Non-maximum suppression on every device.

use ebm_ops::boxes::{BBox, BoxConvention, batched_nms, batched_nms_on};

use crate::differences::{devices, noise};

#[test]
fn every_device_keeps_the_same_boxes() {
    const LARGE: [f32; 4] = [1e30, -1e30, f32::MAX, 1e-45];
    for (salt, len, num_groups) in [(1, 1, 1), (2, 64, 1), (3, 200, 3), (4, 700, 1), (5, 700, 5), (6, 40, 40)]
    {
        let numbers = noise(5 * len, salt);
        let boxes: Vec<BBox> = (0..len)
            .map(|i| {
                let [x, y, w, h] = [0, 1, 2, 3].map(|k| numbers[5 * i + k] as f32 * 40.0);
                // Whole numbers give overlaps equal to the threshold. The area of some boxes overflows.
                let [x, y] = [x, y].map(f32::round);
                let side = if i % 50 == 7 { LARGE[i / 50 % 4] } else { 12.0 };
                [x, y, x + (w + side).round(), y + (h * 0.5 + side).round()]
            })
            .collect();
        let scores: Vec<f32> = (0..len).map(|i| (numbers[5 * i + 4] * 20.0).round() as f32).collect();
        let groups: Vec<usize> = (0..len).map(|i| (i * i + 3) % num_groups).collect();
        for convention in [BoxConvention::HalfOpen, BoxConvention::Inclusive] {
            for threshold in [0.0, 0.25, 0.5, 0.7] {
                let expected = batched_nms(&boxes, &scores, &groups, threshold, convention).unwrap();
                assert!(len < 64 || num_groups == len || expected.len() < len);
                for device in devices() {
                    let found = batched_nms_on(&device, &boxes, &scores, &groups, threshold, convention);
                    assert_eq!(found.unwrap(), expected, "{len} boxes, {num_groups} groups, {threshold}");
                }
            }
        }
    }
}

#[test]
fn every_device_refuses_what_has_no_rank() {
    let boxes = [[0.0, 0.0, 1.0, 1.0]; 2];
    for device in devices() {
        let run = |scores: &[f32], groups: &[usize]| {
            batched_nms_on(&device, &boxes, scores, groups, 0.5, BoxConvention::HalfOpen)
        };
        assert!(run(&[1.0, f32::NAN], &[0, 0]).is_err() && run(&[1.0, 2.0], &[0]).is_err());
        assert_eq!(run(&[1.0, 2.0], &[0, 0]).unwrap(), [1]);
        assert!(batched_nms_on(&device, &[], &[], &[], 0.5, BoxConvention::HalfOpen).unwrap().is_empty());
    }
}
