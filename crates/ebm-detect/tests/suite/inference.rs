//! Guided suppression, and refined boxes at the border of an image.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, GradientAscent, StepRule};
use ebm_detect::config::{ExperimentConfig, Settings};
use ebm_detect::{
    BoxAscent, BoxFeatures, Candidate, Coordinates, Survivor, iou_guided_nms, refine_candidates,
};
use ebm_ops::boxes::{BBox, BoxConvention};

/// f = c_x/w: a step of length λ moves a box by λ of its own width to the right.
struct ToTheRight;

impl EnergyModel for ToTheRight {
    type Features = BoxFeatures;

    fn score(&self, _: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(y.narrow(2, 0, 1)?.squeeze(2)?)
    }
}

#[test]
fn refined_boxes_end_where_the_image_does_or_go_on() {
    let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
    let level = |side: usize| Tensor::zeros((2, 4, side, side), DType::F32, &Device::Cpu).unwrap();
    let pyramid: Vec<Tensor> = [16, 8, 4, 2, 1].map(level).into();
    let candidate = |label, bbox| Candidate { bbox, label, score: 0.9 };
    let first = vec![candidate(1, [10., 5., 20., 15.]), candidate(2, [24., 5., 34., 15.])];
    let candidates = [first, vec![candidate(1, [10., 5., 20., 15.])]];
    let rule = StepRule::Backtracking;
    let ascent = GradientAscent { steps: 5, step_length: vec![0.5; 4], decay: 0.5, rule };
    let ascent = BoxAscent { ascent, coordinates: Coordinates::Relative };
    let mut refined = |clip_refined| -> Vec<Vec<BBox>> {
        config.clip_refined = clip_refined;
        // Images with 40 and 64 columns.
        let sizes = [(30, 40), (30, 64)];
        let found = refine_candidates(&ToTheRight, &pyramid, &candidates, &sizes, &ascent, &config).unwrap();
        found.iter().map(|image| image.after.iter().map(|c| c.bbox.map(f32::round)).collect()).collect()
    };
    let free = [vec![[35., 5., 45., 15.], [49., 5., 59., 15.]], vec![[35., 5., 45., 15.]]];
    let clipped = [vec![[35., 5., 40., 15.], [40., 5., 40., 15.]], vec![[35., 5., 45., 15.]]];
    assert_eq!((refined(false), refined(true)), (free.into(), clipped.into()));
}

#[test]
fn of_overlapping_boxes_f_or_the_class_score_keeps_one() {
    let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
    let level = |side: usize| Tensor::zeros((1, 4, side, side), DType::F32, &Device::Cpu).unwrap();
    let pyramid: Vec<Tensor> = [16, 8, 4, 2, 1].map(level).into();
    let candidate = |score, bbox| Candidate { bbox, label: 1, score };
    let candidates = [vec![candidate(0.9, [10., 5., 30., 25.]), candidate(0.6, [13., 5., 33., 25.])]];
    let ascent =
        GradientAscent { steps: 0, step_length: vec![0.5; 4], decay: 0.5, rule: StepRule::Backtracking };
    let ascent = BoxAscent { ascent, coordinates: Coordinates::Relative };
    for (guided, left) in [(true, 13.0), (false, 10.0)] {
        config.guided_suppression = guided;
        let sizes = [(60, 60)];
        let found = refine_candidates(&ToTheRight, &pyramid, &candidates, &sizes, &ascent, &config).unwrap();
        let [kept] = &found[0].before[..] else { unreachable!() };
        assert_eq!((kept.bbox[0], kept.score), (left, 0.9));
    }
}

const BOXES: [BBox; 4] = [[0., 0., 9., 9.], [1., 1., 10., 10.], [20., 20., 29., 29.], [0., 0., 9., 4.]];

#[test]
fn golden_clusters() {
    let kept =
        iou_guided_nms(&BOXES, &[0.9, 0.6, 0.7, 0.8], &[0.2, 0.5, 0.1, 0.4], 0.5, BoxConvention::Inclusive)
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
