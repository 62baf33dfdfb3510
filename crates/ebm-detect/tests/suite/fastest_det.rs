//! FastestDet with its published weights against onnxruntime's answers for its published ONNX file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::{Image, decode::read_image};
use ebm_detect::{DensityOptions, Detection, Detector, DetectorOptions, weights::WeightFile};
use ebm_eval::tracking::overlap;
use ebm_testing::{external, fixture};
use serde::Deserialize;

use crate::tensors;

/// The photograph among the fixtures.
const FIXTURE: u64 = 168_974;

#[derive(Deserialize)]
struct Golden {
    /// Label, score, corners.
    detections: Vec<(usize, f64, f64, f64, f64, f64)>,
    /// By image: x, y, width, height, score.
    recorded: BTreeMap<u64, Vec<[f64; 5]>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/fastest_det.json")).unwrap()
}

fn weights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights/fastestdet.safetensors")
}

fn photograph(folder: &Path, id: u64) -> Image {
    read_image(&folder.join(format!("{id:012}.jpg"))).unwrap()
}

/// Asserts that scores and boxes of `found` are as `expected`, in any order.
#[track_caller]
fn assert_same(found: &[Detection], expected: &[(f64, [f64; 4])], tolerance: [f64; 2]) {
    assert_eq!(found.len(), expected.len());
    for (score, bbox) in expected {
        let apart = |found: &Detection| {
            let sides = found.bbox.iter().zip(bbox).map(|(a, b)| (a - b).abs());
            [(f64::from(found.score) - score).abs(), sides.fold(0.0, f64::max)]
        };
        let near = found.iter().any(|found| {
            let [score, sides] = apart(found);
            score <= tolerance[0] && sides <= tolerance[1]
        });
        assert!(near, "nothing like {score} {bbox:?} in {found:?}");
    }
}

#[test]
fn the_network_says_what_onnxruntime_says() {
    let numbers: Vec<f32> =
        (0..3 * 352 * 352).map(|i| crate::formula::hashed("fastest_det", i) as f32).collect();
    let pixels = Tensor::from_vec(numbers, (1, 3, 352, 352), &Device::Cpu).unwrap();
    let network = WeightFile::open(&weights(), &Device::Cpu).unwrap().fastest_det().unwrap();
    let cells = network.forward(&pixels).unwrap().get(0).unwrap();
    assert_eq!(cells.dims(), [22, 22, 85]);
    let expected = tensors::golden("fastest_det").remove("cells").unwrap();
    let every_other = Tensor::arange_step(0u32, 22, 2, &Device::Cpu).unwrap();
    let cells = cells.index_select(&every_other, 0).unwrap().index_select(&every_other, 1).unwrap();
    let apart = tensors::difference(&cells, &expected);
    assert!(apart < 1e-4, "{apart}");
}

#[test]
fn a_photograph_has_the_same_detections_of_all_classes() {
    let detector = Detector::open(weights()).unwrap();
    let path = tensors::golden_path("fastest_det.png");
    let found = detector.detect(&read_image(&path).unwrap()).unwrap();
    let expected = golden().detections;
    let sorted = |mut labels: Vec<usize>| {
        labels.sort_unstable();
        labels
    };
    let labels = sorted(found.iter().map(|found| found.label).collect());
    assert_eq!(labels, sorted(expected.iter().map(|found| found.0).collect()));
    let boxes: Vec<_> =
        expected.iter().map(|&(_, score, x0, y0, x1, y1)| (score, [x0, y0, x1 - x0, y1 - y0])).collect();
    assert_same(&found, &boxes, [1e-4, 0.02]);
    // COCO's own names and ids.
    let classes = detector.classes();
    assert_eq!((classes.len(), detector.labels()), (80, None));
    assert_eq!((classes[0].name.as_str(), classes[79].id), ("person", 90));
    assert!(found.iter().all(|found| found.class.as_ref().unwrap().label == found.label));
}

#[test]
fn without_a_file_persons_are_refined_too() {
    let bundled = Detector::bundled(&DetectorOptions::default()).unwrap();
    bundled.check_density().unwrap();
    let image = photograph(&fixture("coco/val2017"), FIXTURE);
    let (found, alone) = (bundled.detect(&image).unwrap(), Detector::open(weights()).unwrap());
    let alone = alone.detect(&image).unwrap();
    let (width, height) = (image.width as f64, image.height as f64);
    let mut moved = 0;
    for (found, alone) in found.iter().zip(&alone) {
        assert_eq!((found.label, found.score, found.before), (alone.label, alone.score, alone.bbox));
        if found.name() != "person" {
            assert_eq!(found.bbox, found.before, "{} is no class of the refiner's", found.name());
            continue;
        }
        moved += usize::from(found.bbox != found.before);
        let [x, y, w, h] = found.bbox;
        assert!(x >= 0.0 && y >= 0.0 && x + w <= width + 1e-6 && y + h <= height + 1e-6);
    }
    assert!(found.len() == alone.len() && moved > 0);
    let options = DensityOptions { min_score: 0.4, samples: 64 };
    let with_density = bundled.detect_with_density(&image, &options, &mut Key::new(1).rng()).unwrap();
    for found in &with_density {
        assert_eq!(found.density.is_some(), found.name() == "person" && found.score >= 0.4);
    }
    assert!(with_density.iter().any(|found| found.density.is_some()));
}

/// The published detections of persons that are not faint: two libraries decode a JPEG to slightly different
/// pixels, which faint ones do not survive.
fn check_recorded(folder: &Path, ids: &[u64]) {
    let (detector, recorded) = (Detector::open(weights()).unwrap(), golden().recorded);
    for id in ids {
        let found = detector.detect(&photograph(folder, *id)).unwrap();
        for &[x, y, w, h, score] in recorded[id].iter().filter(|recorded| recorded[4] >= 0.4) {
            let is_same = |found: &Detection| {
                let overlap = overlap(&found.bbox, &[x, y, w, h]);
                found.name() == "person" && (f64::from(found.score) - score).abs() < 0.01 && overlap > 0.95
            };
            assert!(found.iter().any(is_same), "{id}: nothing like {score} at {x}, {y}, {w}, {h}");
        }
    }
}

#[test]
fn persons_are_where_they_were_published() {
    check_recorded(&fixture("coco/val2017"), &[FIXTURE]);
}

#[test]
fn persons_in_other_images_are_where_they_were_published() {
    let Some(folder) = external("coco/val2017") else { return };
    check_recorded(&folder, &[158_227, 435_205, 515_077]);
}

#[test]
fn the_weights_are_the_published_ones() {
    let Some(published) = external("weights/fastestdet/fastestdet_280-epoch.pth") else { return };
    let [published, ours] =
        [published, weights()].map(|path| WeightFile::open(&path, &Device::Cpu).unwrap().tensors);
    assert_eq!(published.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    for (name, tensor) in &published {
        let numbers = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!((tensor.dims(), numbers(tensor)), (ours[name].dims(), numbers(&ours[name])), "{name}");
    }
}

#[test]
fn it_is_opened_alone() {
    let refused = |options: &DetectorOptions| {
        Detector::open_with(weights(), options).err().map(|error| error.to_string()).unwrap()
    };
    let branch = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights/detector_mini.safetensors"));
    assert!(refused(&DetectorOptions { branch, ..Default::default() }).contains("give it alone"));
    let file = WeightFile::open(&weights(), &Device::Cpu).unwrap();
    assert!(file.configuration().unwrap_err().to_string().contains("give one of two stages"));
    let detector = Detector::open(weights()).unwrap();
    assert!(detector.check_density().unwrap_err().to_string().contains("FastestDet has none"));
    // Another network's names are listed.
    let mut tensors = file.tensors.clone();
    tensors.remove("SPP.S1.0.weight");
    tensors.insert("SPP.S4".into(), Tensor::zeros(1, DType::F32, &Device::Cpu).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.safetensors");
    ebm_nn::import::save_safetensors(&other, &tensors).unwrap();
    let message = Detector::open(&other).err().unwrap().to_string();
    assert!(message.contains("1 missing: SPP.S1.0.weight; 1 unexpected: SPP.S4"), "{message}");
}
