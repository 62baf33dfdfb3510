//! EfficientNet-Lite0 against PyTorch's layers: maps, gradients and running statistics.

use crate::common::{CPU, assert_summary, assert_training_step, fill, formula, golden, to_vec};
use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::params::ParamStore;
use ebm_ops::nn::BatchNormConfig;

const MAPS: usize = EfficientNetLite0::STRIDES.len();

fn build(norm: BatchNormConfig, dtype: DType) -> (ParamStore, EfficientNetLite0) {
    let store = ParamStore::new(Key::new(0));
    let net = EfficientNetLite0::new(norm, MAPS, store.var_builder(dtype, &CPU)).unwrap();
    fill(&store);
    (store, net)
}

/// Large enough for ReLU6 to cut off.
fn input(shape: &[usize], dtype: DType) -> Tensor {
    (formula("input", shape) * 5.0).unwrap().to_dtype(dtype).unwrap()
}

/// Returns the maps in torch's layout.
fn forward(net: &EfficientNetLite0, x: &Tensor, train: bool) -> Vec<Tensor> {
    let maps = net.forward_channels_last(x, MAPS, train).unwrap();
    maps.iter().map(|map| map.permute((0, 3, 1, 2)).unwrap()).collect()
}

#[test]
fn maps_are_torchs_at_odd_and_even_sizes() {
    let golden = golden("efficientnet");
    let (store, net) = build(EfficientNetLite0::NORM, DType::F32);
    let constants = store.constants().unwrap();
    let vb = constants.var_builder(DType::F32, &CPU);
    let constant = EfficientNetLite0::new(EfficientNetLite0::NORM, MAPS, vb).unwrap();
    for (name, shape) in [("odd", [2, 3, 65, 97]), ("even", [1, 3, 64, 96])] {
        // The last time uses the kept tensors and reused buffers.
        for net in [&net, &constant, &constant] {
            for (i, map) in forward(net, &input(&shape, DType::F32), false).iter().enumerate() {
                let dims: Vec<f64> = map.dims().iter().map(|d| *d as f64).collect();
                assert_eq!(dims, to_vec(&golden[&format!("{name}.shape{i}")]));
                assert_eq!(map.dim(1).unwrap(), EfficientNetLite0::CHANNELS[i]);
                let key = format!("{name}.map{i}");
                assert_summary(&key, map, &golden[&key], 1e-4);
            }
        }
    }
}

#[test]
fn a_training_step_has_torchs_gradients_and_statistics() {
    let golden = golden("efficientnet");
    let (store, net) = build(EfficientNetLite0::NORM, DType::F64);
    let maps = forward(&net, &input(&[2, 3, 33, 52], DType::F64), true);
    let [gradients, count] = assert_training_step(&golden, &store, &maps, 1e-6, 1e-18, "");
    let trainable = store.trainable();
    assert_eq!((trainable.len(), store.names().len()), (gradients, gradients + count));
}

#[test]
fn frozen_normalisation_is_that_of_evaluation() {
    let (_, net) = build(EfficientNetLite0::NORM, DType::F32);
    let (_, frozen) = build(BatchNormConfig::frozen(EfficientNetLite0::NORM.eps), DType::F32);
    let x = input(&[1, 3, 33, 40], DType::F32);
    for (a, b) in forward(&net, &x, false).iter().zip(&forward(&frozen, &x, true)) {
        assert_eq!(to_vec(a), to_vec(b));
    }
}

#[test]
fn fewer_maps_are_the_first_ones() {
    let (_, whole) = build(EfficientNetLite0::NORM, DType::F32);
    let store = ParamStore::new(Key::new(0));
    let vb = || store.var_builder(DType::F32, &CPU);
    let part = EfficientNetLite0::new(EfficientNetLite0::NORM, 3, vb()).unwrap();
    fill(&store);
    assert!(store.names().iter().any(|name| name.starts_with("_blocks.4.")));
    assert!(!store.names().iter().any(|name| name.starts_with("_blocks.5.")));
    let x = input(&[1, 3, 33, 40], DType::F32);
    let all = forward(&whole, &x, false);
    let maps = part.forward_channels_last(&x, 3, false).unwrap();
    for (a, b) in maps.iter().zip(&all) {
        assert_eq!(to_vec(&a.permute((0, 3, 1, 2)).unwrap()), to_vec(b));
    }
    let message = part.forward_channels_last(&x, 4, false).unwrap_err().to_string();
    assert!(message.contains("4 maps were requested; ask for 1 to 3"), "{message}");
    assert!(EfficientNetLite0::new(EfficientNetLite0::NORM, 0, vb()).is_err());
    assert!(EfficientNetLite0::is_classifier("_fc.bias") && !EfficientNetLite0::is_classifier("_bn0.bias"));
}

#[test]
fn maps_know_their_parameters() {
    let (store, _) = build(EfficientNetLite0::NORM, DType::F32);
    let part = ParamStore::new(Key::new(0));
    for maps in 1..=MAPS {
        EfficientNetLite0::new(EfficientNetLite0::NORM, maps, part.var_builder(DType::F32, &CPU)).unwrap();
        let needed = store.names().into_iter().filter(|name| EfficientNetLite0::map_of(name) <= maps);
        assert_eq!(part.names(), needed.collect::<Vec<_>>());
    }
}
