//! Formulas of `golden/networks.py` and comparisons with its results, for the golden tests.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../ebm-ops/tests/common/mod.rs"]
mod values;

use std::collections::BTreeMap;

use candle_core::Tensor;
use ebm_nn::params::ParamStore;
pub use values::*;

/// Sets every parameter of `store` to its [`value`].
pub fn fill(store: &ParamStore) {
    for name in store.names() {
        let var = store.var(&name).unwrap();
        var.set(&value(&name, var.dims()).to_dtype(var.dtype()).unwrap()).unwrap();
    }
}

/// The message of the error of an import.
#[track_caller]
pub fn message(result: ebm_nn::Result<BTreeMap<String, Tensor>>) -> String {
    result.unwrap_err().to_string()
}

/// Compares a training step of the network of `store` with `golden`: the loss Σ output · [`formula`], its
/// gradients except the one of `without`, and the running statistics. The squares of a gradient that a later
/// normalisation cancels sum to less than `vanishing`. Returns the number of golden gradients and statistics.
#[track_caller]
pub fn assert_training_step(
    golden: &BTreeMap<String, Tensor>,
    store: &ParamStore,
    outputs: &[Tensor],
    tolerance: f64,
    vanishing: f64,
    without: &str,
) -> [usize; 2] {
    let loss = (outputs.iter().enumerate())
        .map(|(i, m)| (m * formula(&format!("out{i}"), m.dims())).unwrap().sum_all().unwrap())
        .reduce(|a, b| (a + b).unwrap())
        .unwrap();
    assert_near("loss", &[loss.to_scalar().unwrap()], &to_vec(&golden["train.loss"]), 1e-9);
    let grads = ebm_ops::backward(&loss).unwrap();
    for (name, var) in store.trainable().iter().filter(|(name, _)| name != without) {
        let (gradient, expected) = (grads.get(var).unwrap(), &golden[&format!("train.grad.{name}")]);
        if to_vec(expected)[33] < vanishing {
            assert!(summary(gradient)[33] < vanishing, "{name}");
            continue;
        }
        assert_summary(name, gradient, expected, tolerance);
    }
    let buffers = golden.iter().filter_map(|(name, t)| Some((name.strip_prefix("train.buffer.")?, t)));
    let mut count = 0;
    for (name, expected) in buffers {
        assert_summary(name, store.var(name).unwrap().as_tensor(), expected, 1e-9);
        count += 1;
    }
    [golden.keys().filter(|name| name.starts_with("train.grad.")).count(), count]
}
