//! ResNets against torchvision's, by names, features, running statistics and gradients.

use crate::common::{CPU, assert_summary, assert_training_step, fill, formula, golden, to_vec};
use candle_core::DType;
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig, is_norm};

fn build(config: &ResNetConfig, dtype: DType) -> (ParamStore, ResNet) {
    let store = ParamStore::new(Key::new(0));
    let net = ResNet::new(config, store.var_builder(dtype, &CPU)).unwrap();
    fill(&store);
    (store, net)
}

fn check(name: &str, config: ResNetConfig, shape: [usize; 4]) {
    let (_, net) = build(&config, DType::F32);
    check_network(name, &net, config, shape);
}

fn check_network(name: &str, net: &ResNet, config: ResNetConfig, shape: [usize; 4]) {
    let golden = golden("resnet");
    let x = formula("input", &shape).to_dtype(DType::F32).unwrap();
    let maps = net.forward(&x, false).unwrap();
    for (i, map) in maps.iter().enumerate() {
        assert_eq!(map.dim(1).unwrap(), config.channels()[i]);
        if let Some(expected) = golden.get(&format!("{name}.shape{i}")) {
            let dims: Vec<f64> = map.dims().iter().map(|d| *d as f64).collect();
            assert_eq!(dims, to_vec(expected));
        }
        let c = format!("{name}.c{}", i + 2);
        assert_summary(&c, map, &golden[&c], 1e-4);
    }
}

#[test]
fn resnet18_in_evaluation() {
    check("resnet18", ResNetConfig::resnet18(Norm::Train), [2, 3, 65, 97]);
}

#[test]
fn a_frozen_network() {
    check("narrow", ResNetConfig { norm: Norm::Frozen { eps: 1e-5 }, ..narrow() }, [2, 3, 65, 97]);
}

#[test]
fn resnet34_in_evaluation() {
    check("resnet34", ResNetConfig::resnet34(Norm::Train), [1, 3, 70, 45]);
}

#[test]
fn resnet50_in_evaluation_with_either_place_of_the_stride() {
    let config = ResNetConfig::resnet50(Norm::Train);
    let (store, net) = build(&config, DType::F32);
    check_network("resnet50", &net, config, [1, 3, 65, 97]);
    // The same parameters: only the strides differ.
    let config = ResNetConfig::resnet50_msra(Norm::Train);
    let net = ResNet::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    check_network("msra", &net, config, [1, 3, 65, 97]);
}

#[test]
fn a_narrow_network_in_evaluation() {
    check("narrow", narrow(), [2, 3, 65, 97]);
}

fn narrow() -> ResNetConfig {
    ResNetConfig { width: 16, ..ResNetConfig::resnet18(Norm::Train) }
}

#[test]
fn a_training_step_has_torchs_gradients_and_statistics() {
    let golden = golden("resnet");
    let (store, net) = build(&narrow(), DType::F64);
    let maps = net.forward(&formula("input", &[2, 3, 65, 97]), true).unwrap();
    let [gradients, count] = assert_training_step(&golden, &store, &maps, 1e-8, 0., "");
    assert_eq!((store.trainable().len(), count), (gradients, 40));
    assert_eq!(store.names().len(), gradients + count);
}

#[test]
fn both_ways_back_through_a_network_give_the_same_gradients() {
    for config in [narrow(), ResNetConfig { width: 16, ..ResNetConfig::resnet50(Norm::Train) }] {
        let (store, net) = build(&config, DType::F32);
        let x = formula("input", &[2, 3, 65, 97]).to_dtype(DType::F32).unwrap();
        let loss = net.forward(&x, true).unwrap()[3].sqr().unwrap().mean_all().unwrap();
        let (found, expected) = (ebm_ops::backward(&loss).unwrap(), loss.backward().unwrap());
        for (name, var) in store.trainable() {
            let [found, expected] = [&found, &expected].map(|gradients| to_vec(gradients.get(&var).unwrap()));
            crate::common::assert_near(&name, &found, &expected, 1e-5);
        }
    }
}

#[test]
fn folded_weights_give_the_same_features() {
    let (store, net) = build(&narrow(), DType::F64);
    let folded = ParamStore::new(Key::new(0));
    let config = ResNetConfig { norm: Norm::Folded, ..narrow() };
    let net_folded = ResNet::new(&config, folded.var_builder(DType::F64, &CPU)).unwrap();
    let get = |name: String| store.var(&name).unwrap().as_detached_tensor();
    for name in folded.names() {
        let Some(conv) = name.strip_suffix(".weight") else { continue };
        let norm = conv.replace("conv", "bn").replace("downsample.0", "downsample.1");
        let std = (get(format!("{norm}.running_var")) + 1e-5).unwrap().sqrt().unwrap();
        let scale = (get(format!("{norm}.weight")) / std).unwrap();
        let weight = get(name.clone()).broadcast_mul(&scale.reshape(((), 1, 1, 1)).unwrap()).unwrap();
        let shift =
            (get(format!("{norm}.bias")) - (get(format!("{norm}.running_mean")) * scale).unwrap()).unwrap();
        folded.var(&name).unwrap().set(&weight).unwrap();
        folded.var(&format!("{conv}.bias")).unwrap().set(&shift).unwrap();
    }
    let x = formula("input", &[1, 3, 41, 38]);
    let (a, b) = (net.forward(&x, false).unwrap(), net_folded.forward(&x, true).unwrap());
    for (a, b) in a.iter().zip(&b) {
        crate::common::assert_near("folded", &to_vec(b), &to_vec(a), 1e-10);
    }
}

#[test]
fn fewer_stages_are_the_first_ones() {
    let (_, whole) = build(&narrow(), DType::F64);
    let (store, part) = build(&narrow().up_to(3), DType::F64);
    assert!(store.names().iter().all(|name| !name.starts_with("layer4")));
    let x = formula("input", &[1, 3, 33, 40]);
    let (a, b) = (whole.forward(&x, false).unwrap(), part.forward_stages(&x, 3, false).unwrap());
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(to_vec(a), to_vec(b));
    }
    assert_eq!(part.forward_stages(&x, 2, false).unwrap().len(), 2);
    let message = part.forward(&x, false).unwrap_err().to_string();
    assert!(message.contains("4 stages were requested and only 3 were built"), "{message}");
}

#[test]
fn only_convolutions_learn_beside_frozen_normalisation() {
    let store = ParamStore::new(Key::new(0));
    store.freeze(is_norm);
    let config = ResNetConfig { norm: Norm::Frozen { eps: 0. }, ..narrow() };
    let net = ResNet::new(&config, store.var_builder(DType::F64, &CPU)).unwrap();
    let x = formula("input", &[1, 3, 33, 40]);
    let grads = net.forward(&x, true).unwrap()[3].sqr().unwrap().sum_all().unwrap().backward().unwrap();
    let trainable = store.trainable();
    assert_eq!(trainable.len(), 20);
    for (name, var) in trainable {
        assert!(name.contains("conv") || name.ends_with("downsample.0.weight"), "{name}");
        assert!(to_vec(grads.get(&var).unwrap()).iter().any(|g| *g != 0.), "{name}");
    }
    assert!(!is_norm("bn1") && is_norm("bn1.weight") && is_norm("body.layer2.0.downsample.1.running_var"));
}

#[test]
fn a_frozen_backbone_has_no_graph() {
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let config = ResNetConfig { norm: Norm::Frozen { eps: 0. }, ..narrow() };
    let net = ResNet::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    let x = formula("input", &[1, 3, 33, 40]).to_dtype(DType::F32).unwrap();
    let before = store.tensors().unwrap();
    for map in net.forward(&x, true).unwrap() {
        assert!(!map.track_op());
    }
    let after = store.tensors().unwrap();
    assert!(before.iter().all(|(name, t)| to_vec(t) == to_vec(&after[name])), "a statistic moved");
    assert!(store.trainable().is_empty());
}
