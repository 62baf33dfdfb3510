//! Residual networks from weight files, a real one among them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_face::{
    Backbone, Error, ResNetBackbone, ResNetBackboneConfig, ResNetFile, ResNetNorm, load_resnet,
    preload_resnet,
};
use ebm_nn::import::{load_safetensors, save_safetensors};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_testing::external;

const CPU: Device = Device::Cpu;

fn largest(t: &Tensor) -> f64 {
    t.abs().unwrap().max_all().unwrap().to_dtype(DType::F64).unwrap().to_scalar().unwrap()
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &Tensor, bound: f64) {
    assert_eq!(found.dims(), expected.dims());
    let difference = largest(&(found - expected).unwrap());
    assert!(difference <= bound * largest(expected), "{difference} of {}", largest(expected));
}

/// The images of golden/resnet50_folded.py.
fn images() -> Tensor {
    let values: Vec<f32> =
        (0..2 * 3 * 97 * 64u64).map(|i| ((i * 7919 % 1_000_003) as f64 * 0.1).sin() as f32).collect();
    Tensor::from_vec(values, (2, 3, 97, 64), &CPU).unwrap()
}

#[test]
fn folded_imagenet_weights_have_torchs_features() {
    let Some(path) = external("weights/resnet50_pruned_int8_imagenet.safetensors") else { return };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/resnet50_folded.safetensors");
    let expected = &load_safetensors(&golden, &CPU).unwrap()["features"];

    let (config, trunk) = load_resnet(&path, ResNetFile::default(), &CPU).unwrap();
    assert_eq!(config, ResNetBackboneConfig::resnet50_msra(ResNetNorm::Folded));
    let features = trunk.features(&images(), false).unwrap();
    assert_eq!(features.dims(), [2, config.num_features()]);
    assert_close(&features, expected, 1e-4);

    // The other place of the stride is another function.
    let torchvision = ResNetFile { stride_in_1x1: Some(false), ..ResNetFile::default() };
    let (_, other) = load_resnet(&path, torchvision, &CPU).unwrap();
    let difference = (other.features(&images(), false).unwrap() - expected).unwrap();
    assert!(largest(&difference) > 0.1 * largest(expected));

    // For training: the same values, every one in the graph.
    let store = ParamStore::new(Key::new(0));
    let config = preload_resnet(&store, "trunk", &path, ResNetFile::default(), &CPU).unwrap();
    let trunk = ResNetBackbone::new(&config, store.var_builder(DType::F32, &CPU).pp("trunk")).unwrap();
    let report = store.preload_report();
    assert!(report.is_exact() && report.loaded.len() == 2 * 53, "{report}");
    let features = trunk.features(&images(), true).unwrap();
    assert_close(&features, expected, 1e-4);
    let gradients = features.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    for (name, var) in store.trainable() {
        let gradient = gradients.get(&var).unwrap_or_else(|| unreachable!("{name}"));
        assert!(largest(gradient).is_finite() && largest(gradient) > 0.0, "{name}");
    }
}

fn tiny(norm: ResNetNorm) -> ResNetBackboneConfig {
    ResNetBackboneConfig { layers: [1, 2, 1, 1], width: 2, norm, stride_in_1x1: false }
}

/// The tensors of a drawn backbone, as a checkpoint with a classifier has them.
fn checkpoint(norm: ResNetNorm) -> BTreeMap<String, Tensor> {
    let store = ParamStore::new(Key::new(5));
    ResNetBackbone::new(&tiny(norm), store.var_builder(DType::F32, &CPU)).unwrap();
    let mut tensors = store.tensors().unwrap();
    tensors.insert("fc.weight".to_owned(), Tensor::zeros((10, 64), DType::F32, &CPU).unwrap());
    tensors.insert("bn1.num_batches_tracked".to_owned(), Tensor::zeros((), DType::I64, &CPU).unwrap());
    tensors
}

#[test]
fn the_configuration_is_told_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trunk.safetensors");
    let save = |tensors: &BTreeMap<String, Tensor>| save_safetensors(&path, tensors).unwrap();
    let load = |file| load_resnet(&path, file, &CPU);
    let frozen = ResNetFile { frozen_norm: true, ..ResNetFile::default() };
    let msra = ResNetFile { stride_in_1x1: Some(true), ..ResNetFile::default() };

    let tensors = checkpoint(ResNetNorm::Train);
    save(&tensors);
    assert_eq!(load(ResNetFile::default()).unwrap().0, tiny(ResNetNorm::Train));
    assert_eq!(load(frozen).unwrap().0, tiny(ResNetNorm::Frozen));
    assert_eq!(
        load(msra).unwrap().0,
        ResNetBackboneConfig { stride_in_1x1: true, ..tiny(ResNetNorm::Train) }
    );
    // A double file serves as well.
    let double = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    save(&tensors.iter().map(|(name, t)| (name.clone(), double(t))).collect());
    let (_, trunk) = load(ResNetFile::default()).unwrap();
    assert_eq!(trunk.features(&images(), false).unwrap().dtype(), DType::F32);

    save(&checkpoint(ResNetNorm::Folded));
    let told = ResNetFile { stride_in_1x1: Some(false), ..ResNetFile::default() };
    assert_eq!(load(told).unwrap().0, tiny(ResNetNorm::Folded));
    let noted = |value: &str| {
        let metadata = HashMap::from([("stride_in_1x1".to_owned(), value.to_owned())]);
        let bytes = safetensors::serialize(&checkpoint(ResNetNorm::Folded), Some(metadata)).unwrap();
        std::fs::write(&path, bytes).unwrap();
        load(ResNetFile::default())
    };
    for stride_in_1x1 in [true, false] {
        let (config, _) = noted(&stride_in_1x1.to_string()).unwrap();
        assert_eq!(config, ResNetBackboneConfig { stride_in_1x1, ..tiny(ResNetNorm::Folded) });
    }
    let unclear = noted("perhaps");
    save(&checkpoint(ResNetNorm::Folded));
    for refused in [unclear.unwrap_err(), load(ResNetFile::default()).unwrap_err()] {
        let says = matches!(&refused, Error::Weights { reason, .. } if reason.contains("stride_in_1x1"));
        assert!(says, "{refused}");
    }
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trunk.safetensors");
    let refused = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), part: &str| {
        let mut tensors = checkpoint(ResNetNorm::Train);
        change(&mut tensors);
        save_safetensors(&path, &tensors).unwrap();
        let error = load_resnet(&path, ResNetFile::default(), &CPU).unwrap_err();
        assert!(matches!(&error, Error::Weights { reason, .. } if reason.contains(part)), "{error}");
    };
    refused(&|t| drop(t.remove("conv1.weight")), "conv1.weight");
    refused(&|t| drop(t.remove("layer3.0.conv1.weight")), "layer1 to layer4");
    refused(&|t| drop(t.remove("bn1.weight")), "normalisation");
    refused(&|t| drop(t.remove("layer2.1.conv3.weight")), "1 missing: layer2.1.conv3.weight");
    let one = || Tensor::zeros(1, DType::F32, &CPU).unwrap();
    refused(&|t| drop(t.insert("mask".to_owned(), one())), "1 unexpected: mask");
    refused(
        &|t| drop(t.insert("layer1.0.bn2.bias".to_owned(), one())),
        "layer1.0.bn2.bias (expected [2], found [1])",
    );
    let missing = load_resnet(&directory.path().join("none"), ResNetFile::default(), &CPU);
    assert!(matches!(missing, Err(Error::Nn(ebm_nn::Error::Io { .. }))));
}
