//! Training with maps in bf16, on the CPU and on a GPU if there is one, against torch (golden/bf16.py). The error
//! against double precision may be as large as torch's own error in bf16.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use common::{CPU, assert_summary, formula, golden, to_vec, value};
use ebm_base::Key;
use ebm_nn::fpn::Fpn;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_ops::device::{Choice, open};

/// Levels and gradients of a narrow ResNet with a pyramid, at odd sizes, with parameters of one type and maps
/// of another.
fn run(device: &Device, dtype: DType, maps: DType) -> BTreeMap<String, Tensor> {
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(dtype, device);
    let norm = Norm::Frozen { eps: 1e-5 };
    let config = ResNetConfig { width: 8, ..ResNetConfig::resnet18(norm) };
    let net = ResNet::new(&config, vb.pp("body")).unwrap();
    let fpn = Fpn::new(&config.channels(), 6, vb.pp("fpn")).unwrap();
    let there = |tensor: Tensor, dtype| tensor.to_dtype(dtype).unwrap().to_device(device).unwrap();
    for name in store.names() {
        let var = store.var(&name).unwrap();
        var.set(&there(value(&name, var.dims()), dtype)).unwrap();
    }
    let x = there(formula("input", &[2, 3, 173, 234]), maps);
    let levels = fpn.forward(&net.forward(&x, true).unwrap()).unwrap();
    let levels: Vec<Tensor> = levels.iter().map(|level| level.to_dtype(dtype).unwrap()).collect();
    let loss = (levels.iter().enumerate())
        .map(|(i, m)| (m * there(formula(&format!("out{i}"), m.dims()), dtype)).unwrap().sum_all().unwrap())
        .reduce(|a, b| (a + b).unwrap())
        .unwrap();
    let grads = loss.backward().unwrap();
    let levels = levels.iter().enumerate().map(|(i, level)| (format!("level {i}"), level.detach()));
    let gradient = |(name, var): (String, Var)| Some((name, grads.get(&var)?.clone()));
    levels.chain(store.trainable().into_iter().filter_map(gradient)).collect()
}

#[test]
fn maps_in_bf16_are_as_exact_as_torchs() {
    let golden = golden("bf16");
    let exact = run(&CPU, DType::F64, DType::F64);
    assert_eq!(golden.len(), 2 * exact.len());
    for (name, exact) in &exact {
        assert_summary(name, exact, &golden[name], 1e-8);
    }
    let found = open(Choice::Auto).unwrap().device;
    let gpu = found.is_cuda().then_some(found);
    for device in [CPU].into_iter().chain(gpu) {
        let rounded = run(&device, DType::F32, DType::BF16);
        let mut ratios = Vec::new();
        for (name, exact) in &exact {
            assert_eq!(rounded[name].dtype(), DType::F32);
            let (found, exact) = (to_vec(&rounded[name].to_device(&CPU).unwrap()), to_vec(exact));
            let norm = |values: Vec<f64>| values.iter().map(|v| v * v).sum::<f64>().sqrt();
            let apart = norm(found.iter().zip(&exact).map(|(a, b)| a - b).collect()) / norm(exact);
            let torchs = to_vec(&golden[&format!("{name}: bf16")])[0];
            // The units that round to the other side of zero are random, in torch too. A GPU's kernels round at
            // other places than torch on a CPU, which made the golden numbers.
            let most = if device.is_cuda() { 2.5 } else { 1.5 };
            assert!(apart < most * torchs && apart < 0.4, "{name}: {apart}, torch's {torchs}");
            ratios.push((apart / torchs).ln());
        }
        let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
        assert!(mean < 1.1, "{mean} times as far as torch's");
    }
}
