//! A network of constant parameters, which keeps packed weights, equals one whose parameters are variables.

use crate::common::{CPU, fill, formula};
use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_nn::fpn::Fpn;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};

/// Returns the largest difference divided by the largest element.
fn relative_difference(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let largest = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
    largest(&(a - b).unwrap()) / largest(b)
}

fn check(config: &ResNetConfig, shape: [usize; 4]) {
    let store = ParamStore::new(Key::new(0));
    let net = ResNet::new(config, store.var_builder(DType::F32, &CPU)).unwrap();
    fill(&store);
    let constants = store.constants().unwrap();
    let constant = ResNet::new(config, constants.var_builder(DType::F32, &CPU)).unwrap();
    let x = formula("input", &shape).to_dtype(DType::F32).unwrap();
    let expected = net.forward(&x, false).unwrap();
    // The second time uses the kept tensors and reused buffers.
    for _ in 0..2 {
        let maps = constant.forward_stages(&x, 4, false).unwrap();
        for (map, expected) in maps.iter().zip(&expected) {
            let difference = relative_difference(map, expected);
            assert!(difference < 1e-4, "{difference}");
        }
    }
    assert_eq!(constant.forward_stages(&x, 2, false).unwrap().len(), 2);
    assert!(constant.forward_stages(&x, 5, false).is_err());
}

#[test]
fn a_pyramid_on_a_network() {
    let config = ResNetConfig { layers: [1, 1, 1, 1], ..ResNetConfig::resnet18(Norm::Train) };
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(DType::F32, &CPU);
    let body = ResNet::new(&config, vb.pp("body")).unwrap();
    let fpn = Fpn::new(&config.channels(), 32, vb.pp("fpn")).unwrap();
    fill(&store);
    let vb = store.constants().unwrap().var_builder(DType::F32, &CPU);
    let constant_body = ResNet::new(&config, vb.pp("body")).unwrap();
    let constant_fpn = Fpn::new(&config.channels(), 32, vb.pp("fpn")).unwrap();
    let x = formula("input", &[2, 3, 65, 97]).to_dtype(DType::F32).unwrap();
    let expected = fpn.forward(&body.forward(&x, false).unwrap()).unwrap();
    for _ in 0..2 {
        let levels = constant_fpn.forward(&constant_body.forward(&x, false).unwrap()).unwrap();
        assert_eq!(levels.len(), expected.len());
        for (level, expected) in levels.iter().zip(&expected) {
            assert!(relative_difference(level, expected) < 1e-4);
        }
    }
}

#[test]
fn later_steps_of_training_change_nothing_in_constants() {
    let config = ResNetConfig { layers: [1, 0, 0, 0], width: 8, ..ResNetConfig::resnet18(Norm::Train) };
    let store = ParamStore::new(Key::new(0));
    let net = ResNet::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    fill(&store);
    let vb = store.constants().unwrap().var_builder(DType::F32, &CPU);
    let constant = ResNet::new(&config, vb).unwrap();
    let x = formula("input", &[2, 3, 32, 32]).to_dtype(DType::F32).unwrap();
    let run = |net: &ResNet| net.forward_stages(&x, 1, false).unwrap().remove(0);
    let before = run(&constant);
    for name in store.names() {
        let var = store.var(&name).unwrap();
        var.set(&(var.as_detached_tensor() * 2.0).unwrap()).unwrap();
    }
    assert!(relative_difference(&run(&net), &before) > 1e-2);
    assert_eq!(relative_difference(&run(&constant), &before), 0.0);
    // A use as in training changes the network's own statistics, and the kept tensors are made again.
    constant.forward_stages(&x, 1, true).unwrap();
    assert!(relative_difference(&run(&constant), &before) > 1e-5);
}

#[test]
fn basic_blocks() {
    check(&ResNetConfig::resnet18(Norm::Train), [2, 3, 65, 97]);
}

#[test]
fn bottlenecks() {
    check(&ResNetConfig::resnet50(Norm::Frozen { eps: 0.0 }), [1, 3, 70, 45]);
}

#[test]
fn folded_with_the_stride_in_the_first_convolution() {
    check(
        &ResNetConfig { width: 16, layers: [1, 1, 1, 1], ..ResNetConfig::resnet50_msra(Norm::Folded) },
        [1, 3, 130, 131],
    );
}
