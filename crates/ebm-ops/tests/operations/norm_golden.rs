//! Batch normalisation against torch's, and its gradients against central differences.

use std::collections::BTreeMap;

use crate::common::{CPU, assert_near, formula, golden, to_vec, value};
use candle_core::{DType, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};
use ebm_ops::nn::{BatchNorm, BatchNormConfig};

fn build(channels: usize, config: BatchNormConfig, dtype: DType) -> (BTreeMap<String, Var>, BatchNorm) {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, dtype, &CPU);
    let norm = BatchNorm::new(channels, config, vb).unwrap();
    let variables: BTreeMap<_, _> = variables.data().lock().unwrap().clone().into_iter().collect();
    for (name, var) in &variables {
        var.set(&value(name, var.dims()).to_dtype(dtype).unwrap()).unwrap();
    }
    (variables, norm)
}

#[test]
fn values_gradients_and_statistics_are_torchs() {
    let golden = golden("norm");
    for (case, shape) in [("flat", &[5, 3][..]), ("maps", &[3, 4, 5, 7])] {
        let (variables, norm) = build(shape[1], BatchNormConfig::TRAIN, DType::F64);
        let x = Var::from_tensor(&formula("x", shape).affine(2., 3.).unwrap()).unwrap();
        norm.forward(&x, true).unwrap();
        let y = norm.forward(&x, true).unwrap();
        let loss = (&y * formula("out", shape)).unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        let check = |what: &str, found: &Tensor| {
            assert_near(what, &to_vec(found), &to_vec(&golden[&format!("{case}.{what}")]), 1e-12);
        };
        let var = |name| &variables[name];
        check("y", &y);
        check("dx", grads.get(&x).unwrap());
        check("dweight", grads.get(var("weight")).unwrap());
        check("dbias", grads.get(var("bias")).unwrap());
        check("running_mean", var("running_mean"));
        check("running_var", var("running_var"));
        check("eval", &norm.forward(&x, false).unwrap());
        // f32 follows.
        let (_, norm32) = build(shape[1], BatchNormConfig::TRAIN, DType::F32);
        let y32 = norm32.forward(&x.to_dtype(DType::F32).unwrap(), true).unwrap();
        assert_near("f32", &to_vec(&y32), &to_vec(&y), 1e-6);
    }
}

#[test]
fn gradients_are_central_differences() {
    let shape = [2, 3, 2, 3];
    let (variables, norm) = build(3, BatchNormConfig::TRAIN, DType::F64);
    let x = Var::from_tensor(&formula("x", &shape)).unwrap();
    let loss = || (norm.forward(&x, true).unwrap() * formula("out", &shape)).unwrap().sum_all().unwrap();
    let grads = loss().backward().unwrap();
    for var in [&x, &variables["weight"], &variables["bias"]] {
        let (analytic, start) = (to_vec(grads.get(var).unwrap()), var.copy().unwrap().detach());
        let values = to_vec(&start);
        for i in 0..values.len() {
            let at = |step: f64| {
                let mut moved = values.clone();
                moved[i] += step;
                var.set(&Tensor::from_vec(moved, var.shape(), &CPU).unwrap()).unwrap();
                loss().to_scalar::<f64>().unwrap()
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((numeric - analytic[i]).abs() < 1e-8, "element {i}: {} and {numeric}", analytic[i]);
        }
        var.set(&start).unwrap();
    }
}

#[test]
fn a_frozen_layer_is_its_affine_map_and_never_changes() {
    for eps in [0., 1e-5] {
        let (variables, norm) = build(3, BatchNormConfig::frozen(eps), DType::F64);
        let x = Var::from_tensor(&formula("x", &[2, 3, 2, 2])).unwrap();
        let before = to_vec(&variables["running_mean"]);
        let y = norm.forward(&x, true).unwrap();
        assert_eq!(to_vec(&variables["running_mean"]), before);
        let get = |name, c: usize| to_vec(&variables[name])[c];
        let (xs, ys) = (to_vec(&x), to_vec(&y));
        for (i, (x, y)) in xs.iter().zip(&ys).enumerate() {
            let c = i / 4 % 3;
            let std = (get("running_var", c) + eps).sqrt();
            let expected = get("weight", c) * (x - get("running_mean", c)) / std + get("bias", c);
            assert!((y - expected).abs() < 1e-13);
        }
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert!(grads.get(&variables["weight"]).is_none());
        assert!(grads.get(&x).is_some());
    }
}

#[test]
fn impossible_inputs_are_refused() {
    let (_, norm) = build(3, BatchNormConfig::TRAIN, DType::F64);
    assert!(norm.forward(&formula("x", &[2, 4]), true).is_err());
    assert!(norm.forward(&formula("x", &[3]), true).is_err());
    let message = norm.forward(&formula("x", &[1, 3]), true).unwrap_err().to_string();
    assert!(message.contains("more than one value"), "{message}");
    assert!(norm.forward(&formula("x", &[1, 3]), false).is_ok());
}
