//! The backbone against torch.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_testing::external;
use ebm_track::{Backbone, Error};

use crate::tensors::{CPU, difference, golden, largest};

/// The images of golden/backbone.py.
fn images(shape: (usize, usize, usize, usize)) -> Tensor {
    let count = (shape.0 * shape.1 * shape.2 * shape.3) as u64;
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 % 1_000_003) as f64 * 0.1).sin() as f32).collect();
    Tensor::from_vec(values, shape, &CPU).unwrap()
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &Tensor) {
    let difference = difference(found, expected) / largest(expected);
    println!("relative difference {difference:e}");
    assert!(difference < 1e-5, "{difference}");
}

/// The small network's tensors as torchvision has them, counters and a classifier among them.
fn small() -> BTreeMap<String, Tensor> {
    let network = golden("backbone_small").into_iter();
    let mut tensors: BTreeMap<String, Tensor> =
        network.filter_map(|(name, tensor)| Some((name.strip_prefix("net.")?.to_owned(), tensor))).collect();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &CPU).unwrap();
    tensors.insert("fc.weight".to_owned(), zeros(&[10, 32]));
    tensors.insert("layer4.0.conv1.weight".to_owned(), zeros(&[32, 16, 3, 3]));
    tensors
}

#[test]
fn the_real_folded_weights_have_torchs_features() {
    let Some(path) = external("weights/resnet18_tv_folded_to_layer3_fp32.safetensors") else { return };
    let backbone = Backbone::load(&path, &CPU).unwrap();
    assert_eq!(backbone.channels(), [128, 256]);
    let features = backbone.features(&images((1, 3, 40, 48))).unwrap();
    let expected = golden("resnet18_folded");
    assert_close(&features.layer2, &expected["layer2"]);
    assert_close(&features.layer3, &expected["layer3"]);
}

#[test]
fn a_small_network_is_torchvisions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small.safetensors");
    save_safetensors(&path, &small()).unwrap();
    let backbone = Backbone::load(&path, &CPU).unwrap();
    assert_eq!(backbone.channels(), [8, 16]);
    let features = backbone.features(&images((2, 3, 41, 48))).unwrap();
    let expected = golden("backbone_small");
    assert_close(&features.layer2, &expected["layer2"]);
    assert_close(&features.layer3, &expected["layer3"]);
}

#[test]
fn a_network_that_was_trained_here_serves() {
    let store = ParamStore::new(Key::new(3));
    let config = ResNetConfig { width: 4, ..ResNetConfig::resnet18(Norm::Train) };
    let network = ResNet::new(&config, store.var_builder(DType::F32, &CPU).pp("net")).unwrap();
    let x = images((1, 3, 32, 32));
    let maps = network.forward_stages(&x, 3, false).unwrap();
    let features = Backbone::of_store(&store, "net.", &CPU).unwrap().features(&x).unwrap();
    assert_close(&features.layer2, &maps[1]);
    assert_close(&features.layer3, &maps[2]);
    assert!(matches!(
        Backbone::of_store(&store, "other.", &CPU),
        Err(Error::Config { name, .. }) if name == "of the backbone"
    ));
}

/// A file may hold more than the network, under whose prefix its names are; images come with ImageNet's mean and
/// deviation, and the network was trained on (x − 127) / 128.
#[test]
fn an_efficientnet_lite0_serves_out_of_a_larger_file() {
    let store = ParamStore::new(Key::new(4));
    let whole =
        EfficientNetLite0::new(EfficientNetLite0::NORM, 5, store.var_builder(DType::F32, &CPU)).unwrap();
    let named = |prefix: &str| -> BTreeMap<String, Tensor> {
        let tensors = store.tensors().unwrap().into_iter();
        tensors.map(|(name, tensor)| (format!("{prefix}{name}"), tensor)).collect()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("refiner.safetensors");
    let mut tensors = named("backbone.body.");
    tensors.insert("roi_heads.bias".to_owned(), Tensor::zeros(1, DType::F32, &CPU).unwrap());
    tensors.insert("backbone.body._fc.weight".to_owned(), Tensor::zeros(3, DType::F32, &CPU).unwrap());
    save_safetensors(&path, &tensors).unwrap();
    let backbone = Backbone::load(&path, &CPU).unwrap();
    assert_eq!(backbone.channels(), [40, 112]);

    let pixels: Vec<f32> = (0..3 * 48 * 64).map(|i| (i * 7919 % 256) as f32).collect();
    let normalised = |of: &dyn Fn(usize, f32) -> f32| {
        let values = pixels.iter().enumerate().map(|(i, &x)| of(i / (48 * 64), x)).collect::<Vec<_>>();
        Tensor::from_vec(values, (1, 3, 48, 64), &CPU).unwrap()
    };
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let features = backbone.features(&normalised(&|c, x| (x / 255.0 - mean[c]) / std[c])).unwrap();
    let maps = whole.forward_channels_last(&normalised(&|_, x| (x - 127.0) / 128.0), 4, false).unwrap();
    for (found, expected) in [(&features.layer2, &maps[2]), (&features.layer3, &maps[3])] {
        assert!(largest(expected) > 0.0);
        assert_close(found, &expected.permute((0, 3, 1, 2)).unwrap());
    }

    let mut lacking = named("");
    lacking.remove("_blocks.9._bn1.weight");
    save_safetensors(&path, &lacking).unwrap();
    let error = Backbone::load(&path, &CPU).unwrap_err().to_string();
    assert!(error.contains("EfficientNet-Lite0") && error.contains("_blocks.9._bn1.weight"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backbone.safetensors");
    let refused = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), part: &str| {
        let mut tensors = small();
        change(&mut tensors);
        save_safetensors(&path, &tensors).unwrap();
        let error = Backbone::load(&path, &CPU).unwrap_err();
        assert!(matches!(&error, Error::Weights { reason, .. } if reason.contains(part)), "{error}");
    };
    let one = || Tensor::zeros(1, DType::F32, &CPU).unwrap();
    refused(&|t| drop(t.remove("conv1.weight")), "conv1.weight");
    refused(&|t| drop(t.remove("layer3.0.conv1.weight")), "no layer3");
    refused(&|t| drop(t.remove("bn1.weight")), "normalisation");
    refused(&|t| drop(t.remove("layer2.1.conv2.weight")), "layer2.1.conv2.weight");
    refused(&|t| drop(t.insert("layer1.0.conv3.weight".to_owned(), one())), "layer1.0.conv3.weight");
    refused(&|t| drop(t.insert("layer1.0.bn2.bias".to_owned(), one())), "layer1.0.bn2.bias");
    let missing = Backbone::load(&directory.path().join("none"), &CPU);
    assert!(matches!(missing, Err(Error::Nn(ebm_nn::Error::Io { .. }))));
}
