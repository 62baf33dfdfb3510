//! A narrow detector in maskrcnn-benchmark's convention, from a weight file in the form of that project's,
//! against an independent computation: `golden/make_maskrcnn_benchmark.py` made both.

use std::{collections::BTreeMap, path::Path};

use candle_core::{Device, Tensor};
use ebm_data::loader::Sample;
use ebm_detect::{
    FasterRcnn, ImageBatch,
    config::{ChannelOrder, DetectorConfig, ExperimentConfig, Settings},
    input::to_original,
    weights::{ConvertOptions, Family, WeightFile, convert},
};
use ebm_nn::import::{self, save_safetensors};
use ebm_ops::boxes::{BBox, BoxConvention, iou};

use crate::faster_rcnn::{boxes, values};
use crate::tensors::{CPU, golden, golden_path};

const PADDED: (usize, usize) = (256, 320);
const SIZE: (usize, usize) = (250, 310);
/// Size of the image file.
const ORIGINAL: (usize, usize) = (150, 187);

/// `paper` with a 32nd of the channels.
fn narrow() -> DetectorConfig {
    let mut config = ExperimentConfig::embedded("paper").unwrap().detector;
    (config.backbone.width, config.backbone.fpn_channels, config.roi.representation) = (2, 8, 8);
    config
}

fn load_detector(config: &DetectorConfig, path: &Path, device: &Device) -> ebm_detect::Result<FasterRcnn> {
    WeightFile::open(path, device)?.detector(config)
}

/// The formula of the script.
fn images() -> ImageBatch {
    let (h, w) = PADDED;
    let pixel = |i: usize| {
        let (y, x) = (i / w % h, i % w);
        let i = i as f64;
        let value = 60. * (i * 0.0137).sin() + 60. * (i * i * 1e-7).sin();
        if y < SIZE.0 && x < SIZE.1 { value as f32 } else { 0. }
    };
    let pixels = Tensor::from_vec((0..3 * h * w).map(pixel).collect(), (1, 3, h, w), &CPU).unwrap();
    ImageBatch { pixels, sizes: vec![SIZE] }
}

fn sample() -> Sample {
    let ((height, width), original) = (SIZE, ORIGINAL);
    let (boxes, labels, flipped) = (vec![], vec![], false);
    Sample { image_id: 1, index: 0, height, width, original, boxes, labels, flipped }
}

/// The largest difference of P2 … P6 from the golden ones, relative to a level's largest value.
fn feature_error(pyramid: &[Tensor], golden: &BTreeMap<String, Tensor>) -> f32 {
    let error = |(i, level): (usize, &Tensor)| {
        let golden = values(&golden[&format!("p{}", i + 2)]);
        let every = (level.elem_count() / 1000).max(1);
        let ours = values(level).into_iter().step_by(every);
        let scale = golden.iter().fold(0f32, |m, v| m.max(v.abs()));
        ours.zip(&golden).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale
    };
    pyramid.iter().enumerate().map(error).fold(0., f32::max)
}

/// Returns the share of the golden proposals that the detector makes too, within 0.05 pixels.
fn proposals_found(detector: &FasterRcnn, pyramid: &[Tensor], golden: &BTreeMap<String, Tensor>) -> f64 {
    let ours = detector.proposals(pyramid, &images()).unwrap().remove(0);
    let expected = boxes(&golden["proposals"]);
    let close = |a: &BBox, b: &BBox| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05);
    let found = expected.iter().filter(|e| ours.iter().any(|p| close(e, &p.bbox))).count();
    assert!(ours.len().abs_diff(expected.len()) < 10, "{} proposals for {}", ours.len(), expected.len());
    found as f64 / expected.len() as f64
}

/// The published experiment with the golden network.
fn experiment() -> ExperimentConfig {
    ExperimentConfig { detector: narrow(), ..ExperimentConfig::embedded("paper").unwrap() }
}

fn options(config: &ExperimentConfig) -> ConvertOptions<'_> {
    ConvertOptions { config: Some(config), ..ConvertOptions::default() }
}

#[test]
fn converted_weights_see_what_the_published_convention_sees() {
    let (golden, dir) = (golden("maskrcnn_benchmark"), tempfile::tempdir().unwrap());
    let converted = dir.path().join("converted.safetensors");
    let pth = golden_path("maskrcnn_benchmark.pth");
    let found = convert(&pth, &converted, &options(&experiment())).unwrap();
    assert_eq!((found.family, found.configuration), (Family::MaskrcnnBenchmark, None));
    assert_eq!(found.unused.len(), 5, "{:?}", found.unused);

    let detector = load_detector(&narrow(), &converted, &CPU).unwrap();
    let images = images();
    let pyramid = detector.features(&images.pixels, false).unwrap();
    let error = feature_error(&pyramid, &golden);
    assert!(error < 1e-4, "{error}");

    let share = proposals_found(&detector, &pyramid, &golden);
    // Rounding in the last digit can change a suppression; one box in a hundred may differ.
    assert!(share >= 0.99, "{share} of the proposals agree");

    let candidates = detector.candidates(&pyramid, &images).unwrap().remove(0);
    let detections = detector.suppress(&candidates).unwrap();
    let (expected, scores) = (boxes(&golden["boxes"]), values(&golden["scores"]));
    let labels: Vec<i64> = golden["labels"].to_vec1().unwrap();
    assert_eq!(detections.len(), expected.len());
    let results: Vec<f64> = golden["image_boxes"].flatten_all().unwrap().to_vec1().unwrap();
    let sample = sample();
    let (mut agreeing, mut apart) = (0, 0f64);
    for (i, ((bbox, score), label)) in expected.iter().zip(&scores).zip(&labels).enumerate() {
        let same = |c: &&ebm_detect::Candidate| c.label as i64 == *label && (c.score - score).abs() < 1e-3;
        let overlap = |c: &ebm_detect::Candidate| iou(&c.bbox, bbox, BoxConvention::Inclusive);
        let best = detections.iter().filter(same).max_by(|a, b| overlap(a).total_cmp(&overlap(b)));
        let Some(best) = best.filter(|best| overlap(best) > 0.99) else { continue };
        agreeing += 1;
        // COCO's results, in pixels of the image file.
        let found = to_original(&best.bbox, &sample, BoxConvention::Inclusive);
        let off = found.iter().zip(&results[4 * i..]).map(|(a, b)| (a - b).abs());
        apart = off.fold(apart, f64::max);
    }
    assert!(agreeing >= 97, "{agreeing} of 100 detections agree");
    assert!(apart < 0.05, "{apart} pixels of the image");
    println!("features {error:e}, proposals {share}, detections {agreeing} of 100");

    // The file as it was published is the same detector.
    let direct = load_detector(&narrow(), &pth, &CPU).unwrap();
    let again = direct.features(&images.pixels, false).unwrap();
    for (a, b) in again.iter().zip(&pyramid) {
        assert_eq!(values(a), values(b));
    }
}

/// Each part of the convention changes what the golden values see: the comparison above could have failed.
#[test]
fn another_convention_sees_something_else() {
    let (golden, dir) = (golden("maskrcnn_benchmark"), tempfile::tempdir().unwrap());
    // Without metadata and with names that may be anybody's, any convention can be tried.
    let bare = dir.path().join("bare.safetensors");
    save_safetensors(&bare, &WeightFile::open(&golden_path("maskrcnn_benchmark.pth"), &CPU).unwrap().tensors)
        .unwrap();
    let images = images();
    let with = |change: fn(&mut DetectorConfig)| {
        let mut config = narrow();
        change(&mut config);
        let detector = load_detector(&config, &bare, &CPU).unwrap();
        let pyramid = detector.features(&images.pixels, false).unwrap();
        let error = feature_error(&pyramid, &golden);
        (detector, pyramid, error)
    };
    assert!(with(|_| {}).2 < 1e-4);
    assert!(with(|config| config.backbone.stride_in_1x1 = false).2 > 0.01);
    assert!(with(|config| config.backbone.norm_eps = 1e-5).2 > 1e-3);
    let (detector, pyramid, error) = with(|config| config.convention = BoxConvention::HalfOpen);
    assert!(error < 1e-4);
    let ours = detector.proposals(&pyramid, &images).unwrap().remove(0);
    let expected = boxes(&golden["proposals"]);
    let close = |a: &BBox, b: &BBox| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05);
    let found = expected.iter().filter(|e| ours.iter().any(|p| close(e, &p.bbox))).count();
    assert!(found * 2 < expected.len(), "{found} of {}", expected.len());
}

#[test]
fn a_converted_file_says_what_it_takes_for_granted() {
    let dir = tempfile::tempdir().unwrap();
    let converted = dir.path().join("converted.safetensors");
    let pth = golden_path("maskrcnn_benchmark.pth");
    // As if these widths were the published ones.
    convert(&pth, &converted, &ConvertOptions { half: true, ..options(&experiment()) }).unwrap();
    // The converted file holds its own configuration, the published one is of a known family.
    let configuration = |path: &Path| WeightFile::open(path, &CPU).unwrap().configuration().unwrap();
    assert_eq!(configuration(&converted), experiment());
    assert_eq!(configuration(&pth), ExperimentConfig::embedded("paper").unwrap());
    assert_eq!(import::metadata(&converted).unwrap()["family"], "maskrcnn_benchmark");
    for path in [&converted, &pth] {
        let mut config = narrow();
        (config.convention, config.input.channels) = (BoxConvention::HalfOpen, ChannelOrder::Rgb);
        let message = load_detector(&config, path, &CPU).err().unwrap().to_string();
        let remedy = if path == &pth { "--config paper" } else { "leave --config out" };
        for part in ["boxes = \"inclusive\" (here: \"half_open\")", "channels = \"bgr\"", remedy] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
    }
    let mut config = narrow();
    config.rpn.anchor_sizes[1] = 60.0;
    let message = load_detector(&config, &pth, &CPU).err().unwrap().to_string();
    assert!(message.contains("anchors of level P3"), "{message}");
    // The published widths: every name fits, no shape does.
    let published = ExperimentConfig::embedded("paper").unwrap().detector;
    let message = load_detector(&published, &pth, &CPU).err().unwrap().to_string();
    assert!(message.contains("of another shape") && !message.contains("missing"), "{message}");
    assert!(message.contains("(expected [64], found [2])") && message.contains("and 283 more;"), "{message}");
}

#[test]
fn what_is_missing_left_over_or_nobodys_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let changed = dir.path().join("changed.safetensors");
    let output = dir.path().join("output.safetensors");
    let original = import::load(&golden_path("maskrcnn_benchmark.pth"), &CPU).unwrap();
    let refused = |tensors: &BTreeMap<String, Tensor>| {
        save_safetensors(&changed, tensors).unwrap();
        let message = convert(&changed, &output, &options(&experiment())).unwrap_err().to_string();
        assert!(!output.exists());
        message
    };
    let mut tensors = original.clone();
    let bias = tensors.remove("module.rpn.head.cls_logits.bias").unwrap();
    tensors.insert("module.roi_heads.mask.predictor.conv5_mask.bias".to_owned(), bias.clone());
    let message = refused(&tensors);
    assert!(
        message.contains("1 missing: rpn.head.cls_logits.bias; 1 unexpected: roi_heads.mask"),
        "{message}"
    );

    let mut tensors = original.clone();
    tensors.insert("rpn.head.cls_logits.bias".to_owned(), bias);
    assert!(refused(&tensors).contains("two tensors are rpn.head.cls_logits.bias"));

    let foreign =
        original.into_iter().map(|(name, tensor)| (name.replace("module.", "net."), tensor)).collect();
    let message = refused(&foreign);
    for part in ["torchvision's (backbone.fpn.inner_blocks.…", "maskrcnn_benchmark's", "net.backbone.body"]
    {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }

    std::fs::copy(golden_path("maskrcnn_benchmark.pth"), &changed).unwrap();
    let message = convert(&changed, &changed, &options(&experiment())).unwrap_err().to_string();
    assert!(message.contains("another name for the output"), "{message}");
    // Which configuration is no question for the published architecture only.
    let message = convert(&changed, &output, &ConvertOptions::default()).unwrap_err().to_string();
    assert!(message.contains("of another shape"), "{message}");
}
