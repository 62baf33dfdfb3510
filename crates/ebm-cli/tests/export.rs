//! `ebm export`: the files are those of which tests/golden/onnx_values.py has told what onnxruntime makes, and that is what this
//! program makes of the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it measured"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use candle_core::{Device, Tensor};
use ebm_core::EnergyModel;
use ebm_detect::{BoxFeatures, BoxRefiner, RefinerNetwork};
use ebm_face::saved::Saved;
use ebm_nn::boxes::BoxConvention;
use ebm_seed::Key;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Numbers of either program may differ by so much.
const TOLERANCE: f64 = 1e-4;

fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn ebm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).output().unwrap()
}

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/onnx.json")).unwrap()
}

/// What the script computes on too.
fn numbers(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 % 509) as f64 / 254.0 - 1.0) as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn assert_near(found: &Tensor, expected: &Value, what: &str) {
    let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let expected = list(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    let differences = found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
    let worst = differences.fold(0.0, f64::max);
    eprintln!("{what}: {worst:e} at most, of {} numbers", expected.len());
    assert!(worst <= TOLERANCE, "{what}: {found:?} and {expected:?}");
}

/// Exports `model`, and compares both files' bytes with those that the golden values are of.
fn export(model: &str, golden: &Value) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model.onnx");
    let args = ["export", in_tree(model).to_str().unwrap(), out.to_str().unwrap()].map(str::to_owned);
    let args = args.each_ref().map(String::as_str);
    let output = ebm(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["features", "head"] {
        let bytes = std::fs::read(dir.path().join(format!("model_{part}.onnx"))).unwrap();
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(golden[part], digest, "{model}, {part}: run tests/golden/onnx_values.py again");
    }
    let again = ebm(&args);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("--force"));
}

#[test]
fn ages_are_those_of_onnxruntime() {
    let golden = &golden()["age"];
    export("weights/age", golden);
    let saved = Saved::load(&in_tree("weights/age/ebm-0"), None).unwrap();
    let g_x = saved.trunk.features(&numbers(&[2, 3, 112, 112]), false).unwrap();
    let places = Tensor::arange_step(0u32, 512, 32, &Device::Cpu).unwrap();
    assert_near(&g_x.index_select(&places, 1).unwrap(), &golden["g_x"], "g_x of faces");
    let y: Vec<f32> = list(&golden["y"]).into_iter().map(|y| y as f32).collect();
    let y = Tensor::from_vec(y, (2, 5, 1), &Device::Cpu).unwrap();
    let head = saved.head.energy().unwrap();
    let f = head.score(&head.features(&g_x).unwrap(), &y).unwrap();
    assert_near(&f, &golden["f"], "f of ages");
}

#[test]
fn boxes_score_as_with_onnxruntime() {
    let golden = &golden()["refiner"];
    export("weights/refiner.safetensors", golden);
    let file = in_tree("weights/refiner.safetensors");
    let config = BoxRefiner::open(&file).unwrap().config().clone();
    let (network, _) = RefinerNetwork::with_body(&config, &file, &Device::Cpu, Key::new(0)).unwrap();
    let maps = network.maps(&numbers(&[1, 3, 128, 160])).unwrap();
    let pyramid: Vec<Tensor> = network.pyramid(&maps).unwrap().iter().map(Tensor::detach).collect();
    for (level, map) in pyramid.iter().enumerate() {
        let mean = map.mean_all().unwrap().to_scalar::<f32>().unwrap();
        let expected = golden["means"][format!("level_{level}")].as_f64().unwrap();
        assert!((f64::from(mean) - expected).abs() <= TOLERANCE, "{level}: {mean} and {expected}");
    }
    let boxes = golden["boxes"].as_array().unwrap().iter();
    let boxes: Vec<[f32; 4]> = boxes
        .map(|corners| list(corners).iter().map(|x| *x as f32).collect::<Vec<_>>().try_into().unwrap())
        .collect();
    let (images, labels) = (vec![0; boxes.len()], vec![0; boxes.len()]);
    let features = BoxFeatures::new(&pyramid, images, labels, &boxes, BoxConvention::HalfOpen).unwrap();
    let f = network.head().score(&features, &features.targets().unwrap()).unwrap();
    assert_near(&f, &golden["f"], "f of boxes");
}

#[test]
fn other_models_are_refused() {
    let refused = |args: &[&str], part: &str| {
        let output = ebm(&[&["export"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(part), "{said}");
    };
    let path = |name: &str| in_tree(name).to_str().unwrap().to_owned();
    refused(&[&path("weights/tracker"), "x.onnx"], "a model for tracking");
    refused(&[&path("weights/age/direct_l2-0"), "x.onnx"], "no energy model");
    refused(&[&path("weights/detector_mini.safetensors"), "x.onnx"], "have an ONNX form");
    refused(&[&path("docs"), "x.onnx"], "does not say what it is");
    refused(&[&path("weights/age"), "x.pb"], "end in .onnx");
}
