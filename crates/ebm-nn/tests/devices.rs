//! Networks and optimisers on every available device, against the CPU.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use common::{CPU, assert_near, formula, to_vec};
use ebm_base::Key;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::fpn::Fpn;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_ops::device::{Choice, open};
use ebm_ops::nn::{BatchNorm, BatchNormConfig};
use ebm_ops::optim::{Adam, Optimizer, ParamGroup, Sgd, clip_grad_norm};

/// Returns the GPU, or prints why there is none.
fn gpu() -> Option<Device> {
    let opened = open(Choice::Auto).unwrap();
    let remedy = match &opened.why_cpu {
        Some(why) => format!("{why}; build with the stand-in of .ci/cuda on the library path"),
        None => String::new(),
    };
    ebm_testing::needs("cuda", "a GPU", &remedy, opened.why_cpu.is_none().then_some(opened.device))
}

/// Asserts that the named results of `run` on the GPU equal the CPU's within `tolerance` of their root mean
/// square.
fn compare(tolerance: f64, run: impl Fn(&Device) -> BTreeMap<String, Tensor>) {
    let Some(device) = gpu() else { return };
    let (found, expected) = (run(&device), run(&CPU));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, expected) in &expected {
        assert_near(name, &to_vec(&found[name].to_device(&CPU).unwrap()), &to_vec(expected), tolerance);
    }
}

fn on(device: &Device, dtype: DType, name: &str, shape: &[usize]) -> Tensor {
    formula(name, shape).to_dtype(dtype).unwrap().to_device(device).unwrap()
}

/// Two updates of a narrow ResNet with a pyramid, at odd sizes: maps, gradients, parameters and statistics.
fn train(device: &Device, dtype: DType, norm: Norm, adam: bool) -> BTreeMap<String, Tensor> {
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(dtype, device);
    let config = ResNetConfig { width: 8, norm, ..ResNetConfig::resnet18(norm) };
    let net = ResNet::new(&config, vb.pp("body")).unwrap();
    let fpn = Fpn::new(&config.channels(), 6, vb.pp("fpn")).unwrap();
    fill_from_cpu(&store);
    let mut optimizer: Box<dyn Optimizer> = if adam {
        Box::new(Adam::new(store.trainable(), |_| ParamGroup::decay(1e-4)))
    } else {
        Box::new(Sgd::new(store.trainable(), 0.9, ParamGroup::double_bias(1e-4)))
    };
    let x = on(device, dtype, "input", &[2, 3, 45, 58]);
    let mut found = BTreeMap::new();
    for step in 0..2 {
        let levels = fpn.forward(&net.forward(&x, true).unwrap()).unwrap();
        let loss = (levels.iter().enumerate())
            .map(|(i, m)| (m * on(device, dtype, &format!("out{i}"), m.dims())).unwrap().sum_all().unwrap())
            .reduce(|a, b| (a + b).unwrap())
            .unwrap();
        let mut grads = loss.backward().unwrap();
        for (i, level) in levels.iter().enumerate() {
            found.insert(format!("{step}: level {i}"), level.detach());
        }
        for (name, var) in store.trainable() {
            // A frozen layer's parameters have no gradient.
            if let Some(gradient) = grads.get(&var) {
                found.insert(format!("{step}: gradient of {name}"), gradient.clone());
            }
        }
        clip_grad_norm(optimizer.params(), &mut grads, 1.0).unwrap();
        optimizer.step(&grads, 1e-3).unwrap();
    }
    for name in store.names() {
        found.insert(name.clone(), store.var(&name).unwrap().as_detached_tensor().copy().unwrap());
    }
    found
}

/// Sets every parameter of a store on any device to its `value`.
fn fill_from_cpu(store: &ParamStore) {
    for name in store.names() {
        let var = store.var(&name).unwrap();
        let value = common::value(&name, var.dims()).to_dtype(var.dtype()).unwrap();
        var.set(&value.to_device(var.device()).unwrap()).unwrap();
    }
}

#[test]
fn training_in_double_precision() {
    compare(1e-9, |device| train(device, DType::F64, Norm::Train, false));
    compare(1e-9, |device| train(device, DType::F64, Norm::Frozen { eps: 1e-5 }, true));
}

#[test]
fn training_in_single_precision() {
    // Normalisation by a few numbers amplifies rounding.
    compare(2e-2, |device| train(device, DType::F32, Norm::Train, false));
}

/// Tests trained parameters, and constants, from which layers prepare tensors.
#[test]
fn inference_in_single_precision() {
    for (maps, is_constant, tolerance) in
        [(DType::F32, false, 1e-3), (DType::F32, true, 1e-3), (DType::BF16, true, 0.1)]
    {
        compare(tolerance, |device| {
            let store = ParamStore::new(Key::new(0));
            let config = ResNetConfig { width: 8, ..ResNetConfig::resnet50(Norm::Frozen { eps: 1e-5 }) };
            let net =
                |store: &ParamStore| ResNet::new(&config, store.var_builder(DType::F32, device)).unwrap();
            let trained = net(&store);
            fill_from_cpu(&store);
            let net = if is_constant { net(&store.constants().unwrap()) } else { trained };
            let x = on(device, DType::F32, "input", &[1, 3, 33, 47]).to_dtype(maps).unwrap();
            // The second time uses the prepared tensors; the CPU has no constant layers in bf16.
            let x = if device.is_cpu() { x.to_dtype(DType::F32).unwrap() } else { x };
            net.forward(&x, false).unwrap();
            let maps = net.forward(&x, false).unwrap().into_iter().enumerate();
            maps.map(|(i, map)| (format!("C{}", i + 2), map.detach().to_dtype(DType::F32).unwrap())).collect()
        });
    }
}

#[test]
fn training_of_a_mobile_network() {
    compare(1e-9, |device| {
        let store = ParamStore::new(Key::new(0));
        let vb = store.var_builder(DType::F64, device);
        let net = EfficientNetLite0::new(EfficientNetLite0::NORM, 3, vb).unwrap();
        fill_from_cpu(&store);
        // Large enough for ReLU6 to cut off.
        let x = (on(device, DType::F64, "input", &[2, 3, 33, 46]) * 5.0).unwrap();
        let maps = net.forward_channels_last(&x, 3, true).unwrap();
        let loss = (maps.iter().enumerate())
            .map(|(i, m)| {
                (m * on(device, DType::F64, &format!("out{i}"), m.dims())).unwrap().sum_all().unwrap()
            })
            .reduce(|a, b| (a + b).unwrap())
            .unwrap();
        let grads = loss.backward().unwrap();
        let gradients = store.trainable().into_iter();
        let gradients = gradients.map(|(name, var)| (name, grads.get(&var).unwrap().clone()));
        gradients.chain((0..).map(|i| format!("map {i}")).zip(maps)).collect()
    });
}

#[test]
fn batch_norm_with_what_follows() {
    // Channels that are read one by one, and four at a time.
    for channels in [5, 8] {
        compare(1e-10, |device| norm_and_residual(device, DType::F64, DType::F64, channels));
        compare(0.05, |device| norm_and_residual(device, DType::F32, DType::BF16, channels));
    }
}

fn norm_and_residual(
    device: &Device,
    dtype: DType,
    maps: DType,
    channels: usize,
) -> BTreeMap<String, Tensor> {
    let store = ParamStore::new(Key::new(0));
    let norm = BatchNorm::new(channels, BatchNormConfig::TRAIN, store.var_builder(dtype, device)).unwrap();
    fill_from_cpu(&store);
    let x = Var::from_tensor(&on(device, maps, "x", &[2, 4, 3, channels])).unwrap();
    let residual = Var::from_tensor(&on(device, maps, "residual", &[2, 4, 3, channels])).unwrap();
    let y = norm.forward_channels_last(&x, Some(&residual), true, true).unwrap();
    let weights = on(device, maps, "weights", y.dims());
    let grads = (&y * weights).unwrap().sum_all().unwrap().backward().unwrap();
    let mut found = BTreeMap::from([("y".to_owned(), y.detach())]);
    found.insert("dx".to_owned(), grads.get(&x).unwrap().clone());
    found.insert("d residual".to_owned(), grads.get(&residual).unwrap().clone());
    for (name, var) in store.trainable() {
        found.insert(format!("gradient of {name}"), grads.get(&var).unwrap().clone());
    }
    found
}
