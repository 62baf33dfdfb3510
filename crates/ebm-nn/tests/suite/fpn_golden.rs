//! The feature pyramid against torchvision's, on maps that do not halve evenly.

use crate::common::{CPU, assert_summary, fill, formula, golden, to_vec};
use candle_core::{DType, Var};
use ebm_base::Key;
use ebm_nn::fpn::Fpn;
use ebm_nn::params::ParamStore;

#[test]
fn levels_and_gradients_are_torchvisions() {
    let golden = golden("fpn");
    let store = ParamStore::new(Key::new(0));
    let inputs = [8, 12, 16, 20];
    let fpn = Fpn::new(&inputs, 10, store.var_builder(DType::F64, &CPU)).unwrap();
    fill(&store);
    let sizes = [[17, 25], [9, 13], [5, 7], [3, 4]];
    let maps: Vec<Var> = (0..4)
        .map(|i| formula(&format!("map{i}"), &[2, inputs[i], sizes[i][0], sizes[i][1]]))
        .map(|map| Var::from_tensor(&map).unwrap())
        .collect();
    let tensors: Vec<_> = maps.iter().map(|m| m.as_tensor().clone()).collect();
    let levels = fpn.forward(&tensors).unwrap();
    assert_eq!(levels.len(), 5);
    for (i, level) in levels.iter().enumerate() {
        let dims: Vec<f64> = level.dims().iter().map(|d| *d as f64).collect();
        assert_eq!(dims, to_vec(&golden[&format!("shape{i}")]));
        assert_summary("level", level, &golden[&format!("p{}", i + 2)], 1e-10);
    }
    let loss = (levels.iter().enumerate())
        .map(|(i, m)| (m * formula(&format!("out{i}"), m.dims())).unwrap().sum_all().unwrap())
        .reduce(|a, b| (a + b).unwrap())
        .unwrap();
    let grads = loss.backward().unwrap();
    for (i, map) in maps.iter().enumerate() {
        assert_summary("map", grads.get(map).unwrap(), &golden[&format!("grad.map{i}")], 1e-10);
    }
    assert_eq!(store.trainable().len(), 16);
    for (name, var) in store.trainable() {
        assert_summary(&name, grads.get(&var).unwrap(), &golden[&format!("grad.{name}")], 1e-10);
    }
}

#[test]
fn wrong_numbers_of_maps_are_refused() {
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(DType::F32, &CPU);
    assert!(Fpn::new(&[], 4, vb.pp("none")).is_err());
    let fpn = Fpn::new(&[2, 3], 4, vb).unwrap();
    let map = formula("map", &[1, 2, 4, 4]).to_dtype(DType::F32).unwrap();
    assert!(fpn.forward(std::slice::from_ref(&map)).is_err());
    assert!(fpn.forward(&[map.clone(), map]).is_err());
}
