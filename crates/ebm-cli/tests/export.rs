//! `ebm export`: the files are the same that onnxruntime ran for tests/golden/onnx_values.py, and its outputs equal
//! this program's.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it measured"
)]

use crate::common::program::{fails, in_tree, refused, succeeds, text};

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_detect::{BoxFeatures, BoxRefiner, RefinerNetwork};
use ebm_face::config::{ExperimentConfig, Settings};
use ebm_face::network::{ENERGY, Head, TRUNK};
use ebm_face::saved::{BackboneSource, RunConfig, Saved, save};
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_ops::boxes::BoxConvention;
use ebm_track::box_module::{BoxModule, BoxModuleConfig, BoxNetwork as _, corners};
use ebm_track::config::ExperimentConfig as TrackingConfig;
use ebm_track::saved::SavedConfig;
use ebm_track::tracker::TrackerConfig;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Names of the parts that a model may have.
const PARTS: [&str; 3] = ["reference", "features", "head"];

/// Largest difference between the two programs' numbers.
const TOLERANCE: f64 = 1e-4;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/onnx.json")).unwrap()
}

/// Returns numbers that the script uses as inputs, too.
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

/// Asserts that `tensors`, named `name`_0 and so on, have the means of the golden values.
fn assert_means(tensors: &[Tensor], name: &str, golden: &Value) {
    for (i, tensor) in tensors.iter().enumerate() {
        let mean = tensor.mean_all().unwrap().to_scalar::<f32>().unwrap();
        let expected = golden["means"][format!("{name}_{i}")].as_f64().unwrap();
        assert!((f64::from(mean) - expected).abs() <= TOLERANCE, "{name}_{i}: {mean} and {expected}");
    }
}

/// Exports `model`, and compares both files' bytes with those that the golden values of this name are of; they are.
fn export(model: &Path, name: &str) -> Value {
    let (dir, golden) = (tempfile::tempdir().unwrap(), golden()[name].clone());
    let out = dir.path().join("model.onnx");
    let args = ["export", text(model), text(&out)];
    succeeds(&args);
    let mut digests = Vec::new();
    for part in PARTS {
        let file = dir.path().join(format!("model_{part}.onnx"));
        let Ok(bytes) = std::fs::read(&file) else { continue };
        if let Some(kept) = std::env::var_os("EBM_ONNX_FILES") {
            std::fs::copy(&file, Path::new(&kept).join(format!("{name}_{part}.onnx"))).unwrap();
        }
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        digests.push((part, digest));
    }
    let expected = PARTS.into_iter().filter(|part| golden.get(part).is_some());
    assert!(expected.eq(digests.iter().map(|(part, _)| *part)), "{name} is of other files than {digests:?}");
    for (part, digest) in digests {
        assert_eq!(golden[part], digest, "{name}, {part}: run tests/golden/onnx_values.py again");
    }
    refused(&args, &["--force"]);
    golden
}

/// Values of the size of those that layers begin with, the same on every machine.
fn value_of(name: &str, like: &Tensor) -> Tensor {
    let salt: usize = name.bytes().map(usize::from).sum();
    let fan_in = like.elem_count() / like.dim(0).unwrap_or(1).max(1);
    let is_scale = name.ends_with("running_var") || like.rank() == 1 && name.ends_with("weight");
    let values = (0..like.elem_count()).map(|i| {
        let value = ((i * 7919 + salt) % 509) as f64 / 254.0 - 1.0;
        let value = if like.rank() > 1 {
            value * (6.0 / fan_in as f64).sqrt()
        } else if is_scale {
            1.0 + 0.3 * value
        } else {
            0.1 * value
        };
        value as f32
    });
    Tensor::from_vec(values.collect::<Vec<_>>(), like.shape(), &Device::Cpu).unwrap()
}

/// [`value_of`] the parameters of what `build` builds.
fn store_of(build: impl Fn(&ParamStore)) -> ParamStore {
    let [drawn, store] = [0, 1].map(|seed| ParamStore::new(Key::new(seed)));
    build(&drawn);
    let tensors = drawn.tensors().unwrap();
    store.preload(tensors.iter().map(|(name, tensor)| (name.clone(), value_of(name, tensor))).collect());
    build(&store);
    store
}

/// Saves an energy model of these settings, of [`value_of`] its parameters, in the run `dir`.
fn write_face_model(dir: &Path, settings: &str) {
    let experiment = ExperimentConfig::parse("test", settings).unwrap();
    let store = store_of(|store| {
        let trunk = experiment.trunk.build(store, TRUNK, DType::F32, &Device::Cpu).unwrap();
        Head::of(&experiment, ENERGY, trunk.num_features(), store, &Device::Cpu).unwrap();
    });
    let trunk = BackboneSource::Own(experiment.trunk.clone());
    std::fs::create_dir(dir).unwrap();
    save(&store, dir, &RunConfig { method: ENERGY.into(), seed: 0, trunk, experiment }).unwrap();
}

/// Asserts that onnxruntime computes the same from the files of a model with these settings, of y with `dim`
/// coordinates.
fn assert_same_elsewhere(name: &str, settings: &str, dim: usize) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("ebm-0");
    write_face_model(&run, settings);
    let golden = export(&run.join("model.safetensors"), name);
    let saved = Saved::load(&run, None).unwrap();
    let g_x = saved.trunk.features(&numbers(&[1, 3, 32, 32]), false).unwrap();
    let places = Tensor::arange_step(0u32, g_x.dim(1).unwrap() as u32, 32, &Device::Cpu).unwrap();
    assert_near(&g_x.index_select(&places, 1).unwrap(), &golden["g_x"], &format!("g_x of {name}"));
    let head = &saved.head;
    assert!(head.is_energy());
    let y = (numbers(&[1, 4, dim]) * 30.0).unwrap();
    let f = head.score(&head.features(&g_x).unwrap(), &y).unwrap();
    assert_near(&f, &golden["f"], &format!("f of {name}"));
}

#[test]
fn a_residual_network_is_that_of_onnxruntime() {
    let settings = "extends = 'head_pose_mini'\ninput.size = 32\n\
                    trunk = { kind = 'resnet', layers = [1, 2, 1, 1], width = 4 }\n\
                    head = { y_layers = [8, 8], hidden = 16 }";
    assert_same_elsewhere("pose_resnet", settings, 3);
}

#[test]
fn ages_are_those_of_onnxruntime() {
    let golden = &export(&in_tree("weights/age"), "age");
    let saved = Saved::load(&in_tree("weights/age/ebm-0"), None).unwrap();
    let g_x = saved.trunk.features(&numbers(&[2, 3, 112, 112]), false).unwrap();
    let places = Tensor::arange_step(0u32, 512, 32, &Device::Cpu).unwrap();
    assert_near(&g_x.index_select(&places, 1).unwrap(), &golden["g_x"], "g_x of faces");
    let y: Vec<f32> = list(&golden["y"]).into_iter().map(|y| y as f32).collect();
    let y = Tensor::from_vec(y, (2, 5, 1), &Device::Cpu).unwrap();
    let head = &saved.head;
    let f = head.score(&head.features(&g_x).unwrap(), &y).unwrap();
    assert_near(&f, &golden["f"], "f of ages");
}

#[test]
fn boxes_score_as_with_onnxruntime() {
    let file = in_tree("weights/refiner.safetensors");
    let golden = &export(&file, "refiner");
    let config = BoxRefiner::open(&file).unwrap().config().clone();
    let (network, _) = RefinerNetwork::with_body(&config, &file, &Device::Cpu, Key::new(0)).unwrap();
    let maps = network.maps(&numbers(&[1, 3, 128, 160])).unwrap();
    let pyramid: Vec<Tensor> = network.pyramid(&maps).unwrap().iter().map(Tensor::detach).collect();
    assert_means(&pyramid, "level", golden);
    let boxes = golden["boxes"].as_array().unwrap().iter();
    let boxes: Vec<[f32; 4]> = boxes
        .map(|corners| list(corners).iter().map(|x| *x as f32).collect::<Vec<_>>().try_into().unwrap())
        .collect();
    let (images, labels) = (vec![0; boxes.len()], vec![0; boxes.len()]);
    let features = BoxFeatures::new(&pyramid, images, labels, &boxes, BoxConvention::HalfOpen).unwrap();
    let f = network.head().score(&features, &features.targets().unwrap()).unwrap();
    assert_near(&f, &golden["f"], "f of boxes");
}

/// Asserts that onnxruntime computes the same from the files of the tracker in `run`.
fn assert_tracks_the_same_elsewhere(name: &str, run: &Path) {
    let golden = &export(run, name);
    let boxes = |name: &str| {
        let numbers: Vec<f32> =
            golden[name].as_array().unwrap().iter().flat_map(list).map(|x| x as f32).collect();
        Tensor::from_vec(numbers.clone(), (1, numbers.len() / 4, 4), &Device::Cpu).unwrap()
    };
    let (_, backbone, module) = SavedConfig::load(run, None, &Device::Cpu).unwrap();
    let reference = backbone.features(&numbers(&[1, 3, 128, 128])).unwrap();
    let modulation = module.modulation(&reference, &boxes("box").squeeze(0).unwrap()).unwrap();
    assert_means(&modulation.0, "modulation", golden);
    let test = backbone.features(&numbers(&[1, 3, 128, 160])).unwrap();
    let test = module.test_features(&test, &modulation).unwrap();
    assert_means(&test.0, "map", golden);
    let f = module.corner_scores(&test, &corners(&boxes("boxes")).unwrap()).unwrap();
    assert_near(&f, &golden["f"], &format!("f of {name}"));
}

#[test]
fn a_tracker_is_that_of_onnxruntime() {
    assert_tracks_the_same_elsewhere("tracker", &in_tree("weights/tracker"));
}

#[test]
fn a_tracker_on_a_residual_network_is_that_of_onnxruntime() {
    let (dir, device) = (tempfile::tempdir().unwrap(), Device::Cpu);
    let (run, backbone) = (dir.path().join("ebm-0"), "backbone.safetensors");
    std::fs::create_dir(&run).unwrap();
    let resnet =
        ResNetConfig { width: 4, layers: [1, 2, 1, 0], ..ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 }) };
    let build =
        |store: &ParamStore| _ = ResNet::new(&resnet, store.var_builder(DType::F32, &device)).unwrap();
    store_of(build).save(&dir.path().join(backbone)).unwrap();
    let box_module = BoxModuleConfig::atom([8, 16]).narrowed(32);
    let build = |store: &ParamStore| {
        BoxModule::new(&box_module, store.var_builder(DType::F32, &device)).unwrap();
    };
    let methods = TrackingConfig::embedded("mini").unwrap().methods;
    let saved = SavedConfig {
        method: methods[0].key.clone(),
        seed: 0,
        backbone: backbone.into(),
        box_module: box_module.clone(),
        refinement: methods[0].refinement.clone(),
        density: None,
        tracker: TrackerConfig::default(),
    };
    saved.save(&store_of(build).tensors().unwrap(), &run).unwrap();
    assert_tracks_the_same_elsewhere("tracker_resnet", &run);

    // A backbone that is elsewhere is asked for by the argument that there is.
    let (moved, out) = (dir.path().join("moved"), dir.path().join("x.onnx"));
    std::fs::rename(dir.path().join(backbone), &moved).unwrap();
    refused(&["export", text(&run), text(&out)], &["--backbone"]);
    succeeds(&["export", text(&run), text(&out), "--backbone", text(&moved)]);
}

#[test]
fn other_models_are_refused() {
    let refused = |code: i32, model: &str, out: &str, part: &str| {
        fails(&["export", text(&in_tree(model)), out], code, &[part]);
    };
    refused(3, "weights/age/direct_l2-0/model.safetensors", "x.onnx", "no energy model");
    refused(3, "weights/detector_mini.safetensors", "x.onnx", "have an ONNX form");
    refused(3, "docs", "x.onnx", "does not say what it is");
    refused(1, "weights/age", "x.pb", "end in .onnx");
}
