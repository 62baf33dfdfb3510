//! The whole detector against torchvision's `fasterrcnn_resnet50_fpn` on a real image, with weights that are
//! a formula of name and position. `golden/make_faster_rcnn.py` made the golden file and holds the same
//! formula.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::{decode::read_image, transform::padded_size};
use ebm_detect::{
    Candidate, FasterRcnn, ImageBatch,
    config::{ExperimentConfig, Settings},
};
use ebm_nn::{import::LoadPolicy, params::ParamStore};
use ebm_ops::boxes::{BBox, BoxConvention, iou};
use ebm_testing::fixture;

use crate::formula::hashed;
use crate::tensors::golden;

fn bounds(name: &str, shape: &[usize]) -> (f64, f64) {
    if name.ends_with("running_var") {
        return (0.5, 1.5);
    }
    if name.ends_with("running_mean") {
        return (-0.1, 0.1);
    }
    if shape.len() == 1 {
        return if name.ends_with("weight") { (0.3, 0.7) } else { (-0.05, 0.05) };
    }
    let gain = match name.rsplit('.').nth(1) {
        Some("cls_score") => 2.5,
        Some("cls_logits") => 4.0,
        _ => 1.0,
    };
    let bound = gain * (6.0 / shape[1..].iter().product::<usize>() as f64).sqrt();
    (-bound, bound)
}

fn detector(short_side: usize) -> FasterRcnn {
    let mut config = ExperimentConfig::embedded("torchvision").unwrap().detector;
    config.input.short_side = short_side;
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let detector = FasterRcnn::new(&config, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    let mut tensors = BTreeMap::new();
    for (name, tensor) in store.tensors().unwrap() {
        let (low, high) = bounds(&name, tensor.dims());
        let values: Vec<f32> =
            (0..tensor.elem_count()).map(|i| (low + (high - low) * hashed(&name, i)) as f32).collect();
        tensors.insert(name, Tensor::from_vec(values, tensor.shape(), &Device::Cpu).unwrap());
    }
    store.load(&tensors, LoadPolicy::Strict).unwrap();
    detector
}

/// Returns the largest difference, relative to the largest value.
fn relative_error(ours: &[f32], golden: &[f32]) -> f32 {
    assert_eq!(ours.len(), golden.len());
    let scale = golden.iter().fold(0f32, |m, v| m.max(v.abs()));
    ours.iter().zip(golden).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

pub fn boxes(tensor: &Tensor) -> Vec<BBox> {
    values(tensor).chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]).collect()
}

/// Returns the number of boxes in `golden` with a counterpart in `ours`, with every corner within 1e-3 of the image's
/// longer side.
fn found(golden: &[BBox], ours: &[BBox], side: f32) -> usize {
    let close = |a: &BBox, b: &BBox| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-3 * side);
    golden.iter().filter(|g| ours.iter().any(|o| close(g, o))).count()
}

#[test]
fn features_proposals_and_detections_are_torchvisions() {
    let image = read_image(&fixture("coco/val2017/000000005001.jpg")).unwrap();
    let golden = golden("faster_rcnn_320");
    let detector = detector(320);
    let (planes, (height, width)) = detector.config().input.transform().apply(&image);
    let (h, w) = padded_size([(height, width)]);
    let shape: Vec<i64> = golden["input"].to_vec1().unwrap();
    assert_eq!(shape, [1, 3, h as i64, w as i64, height as i64, width as i64]);
    let unpadded = Tensor::from_vec(planes, (1, 3, height, width), &Device::Cpu).unwrap();
    let pixels = unpadded.pad_with_zeros(2, 0, h - height).unwrap().pad_with_zeros(3, 0, w - width).unwrap();
    let sampled: Vec<f32> = values(&pixels).into_iter().step_by(9973).collect();
    assert!(relative_error(&sampled, &values(&golden["pixels"])) < 1e-4);

    let images = ImageBatch { pixels, sizes: vec![(height, width)] };
    let pyramid = detector.features(&images.pixels, false).unwrap();
    for (level, name) in pyramid.iter().zip(["0", "1", "2", "3", "pool"]) {
        let every = (level.elem_count() / 2000).max(1);
        let ours: Vec<f32> = values(level).into_iter().step_by(every).collect();
        let error = relative_error(&ours, &values(&golden[&format!("features.{name}")]));
        assert!(error < 1e-3, "level {name}: {error}");
    }

    let side = width.max(height) as f32;
    let proposals: Vec<BBox> =
        detector.proposals(&pyramid, &images).unwrap().remove(0).iter().map(|p| p.bbox).collect();
    let expected = boxes(&golden["proposals"]);
    assert_eq!(proposals.len(), expected.len());
    // Rounding in the last digit can change a suppression; one box in a hundred may differ.
    let agreeing = found(&expected, &proposals, side);
    assert!(agreeing * 100 >= expected.len() * 99, "{agreeing} of {} proposals agree", expected.len());

    let candidates = detector.candidates(&pyramid, &images).unwrap().remove(0);
    let detections: Vec<Candidate> = detector.suppress(&candidates).unwrap();
    let (expected, scores) = (boxes(&golden["boxes"]), values(&golden["scores"]));
    let labels: Vec<i64> = golden["labels"].to_vec1().unwrap();
    assert_eq!(detections.len(), expected.len());
    let mut agreeing = 0;
    for ((bbox, score), label) in expected.iter().zip(&scores).zip(&labels) {
        let same = |c: &&Candidate| c.label as i64 == *label && (c.score - score).abs() < 1e-3;
        let best = detections.iter().filter(same).map(|c| iou(&c.bbox, bbox, BoxConvention::HalfOpen));
        agreeing += usize::from(best.fold(0.0, f32::max) > 0.99);
    }
    assert!(agreeing * 100 >= expected.len() * 97, "{agreeing} of {} detections agree", expected.len());
    println!("{agreeing} of {} detections agree", expected.len());
}
