//! The parameter store: drawing by name, freezing, loading, saving.

use std::collections::BTreeMap;

use crate::common::{CPU, formula, to_vec};
use candle_core::{DType, Tensor};
use candle_nn::{Module, VarBuilder};
use ebm_base::Key;
use ebm_nn::import::{self, LoadPolicy};
use ebm_nn::init;
use ebm_nn::params::ParamStore;
use ebm_ops::nn::{BatchNorm, BatchNormConfig};
use ebm_testing::files::names;

fn store() -> (ParamStore, VarBuilder<'static>) {
    let store = ParamStore::new(Key::new(5));
    let vb = store.var_builder(DType::F32, &CPU);
    (store, vb)
}

/// Two linear layers and a normalisation.
fn build(vb: &VarBuilder<'static>) -> (candle_nn::Linear, candle_nn::Linear, BatchNorm) {
    let first = init::linear(3, 4, vb.pp("first")).unwrap();
    let norm = BatchNorm::new(4, BatchNormConfig::TRAIN, vb.pp("norm")).unwrap();
    (first, candle_nn::linear(4, 2, vb.pp("second")).unwrap(), norm)
}

const NAMES: [&str; 8] = [
    "first.bias",
    "first.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.weight",
    "second.bias",
    "second.weight",
];

fn same(a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>) -> bool {
    a.keys().eq(b.keys()) && a.iter().all(|(name, t)| to_vec(t) == to_vec(&b[name]))
}

#[test]
fn values_depend_on_the_key_and_the_name_and_not_on_the_order() {
    let (a, vb) = store();
    build(&vb);
    let (b, vb) = store();
    candle_nn::linear(4, 2, vb.pp("second")).unwrap();
    build(&vb);
    assert_eq!(a.names(), NAMES);
    assert!(same(&a.tensors().unwrap(), &b.tensors().unwrap()));
    let other = ParamStore::new(Key::new(6));
    build(&other.var_builder(DType::F32, &CPU));
    assert!(
        to_vec(&a.tensors().unwrap()["first.weight"]) != to_vec(&other.tensors().unwrap()["first.weight"])
    );
    let get = |name| vb.get_with_hints(8, name, init::normal(1.)).unwrap();
    assert!(to_vec(&get("x")) != to_vec(&get("y")), "two names share their draw");
    assert_eq!(to_vec(&get("x")), to_vec(&get("x")));
}

#[test]
fn buffers_are_saved_and_not_trained() {
    let (store, vb) = store();
    let (_, _, norm) = build(&vb);
    let names: Vec<_> = store.trainable().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, NAMES.iter().filter(|n| !n.contains("running")).copied().collect::<Vec<_>>());
    let snapshot = store.tensors().unwrap();
    norm.forward(&formula("x", &[6, 4]).to_dtype(DType::F32).unwrap(), true).unwrap();
    assert_eq!(to_vec(&snapshot["norm.running_mean"]), [0.; 4], "a snapshot moved");
    assert!(to_vec(&store.tensors().unwrap()["norm.running_mean"]) != [0.; 4], "the store missed the update");
}

#[test]
fn preloaded_tensors_become_the_first_values() {
    let (store, vb) = store();
    let mut given = BTreeMap::new();
    given.insert("first.weight".to_owned(), formula("w", &[4, 3]));
    given.insert("other".to_owned(), formula("o", &[1]));
    given.insert("norm.num_batches_tracked".to_owned(), Tensor::new(3i64, &CPU).unwrap());
    store.preload(given);
    build(&vb);
    let weight = &store.tensors().unwrap()["first.weight"];
    assert_eq!(weight.dtype(), DType::F32);
    assert_eq!(to_vec(weight), to_vec(&formula("w", &[4, 3]).to_dtype(DType::F32).unwrap()));
    let report = store.preload_report();
    assert_eq!(report.loaded, ["first.weight"]);
    assert_eq!(report.missing.len(), 7);
    assert_eq!(report.unexpected, ["other"]);
    assert!(!report.is_exact());
}

#[test]
fn a_saved_network_is_built_from_all_its_tensors_or_not_at_all() {
    let (store, vb) = store();
    build(&vb);
    let saved = store.tensors().unwrap();
    let network = |store: &ParamStore| {
        build(&store.var_builder(DType::F32, &CPU));
        Ok::<_, ebm_nn::Error>(())
    };
    let ((), built) = ParamStore::build(&saved, network).unwrap();
    assert!(same(&built.tensors().unwrap(), &saved) && built.trainable().is_empty());
    let mut other = saved.clone();
    other.insert("other".to_owned(), formula("o", &[1]));
    other.insert("first.weight".to_owned(), formula("w", &[3, 4]));
    other.remove("first.bias");
    let reason = ParamStore::build(&other, network).err().unwrap();
    let parts =
        ["1 missing: first.bias", "1 unexpected: other", "first.weight (expected [4, 3], found [3, 4])"];
    assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
    // A petabyte is not asked for.
    let huge = |store: &ParamStore| {
        store.var_builder(DType::F32, &CPU).get_with_hints((1 << 24, 1 << 24), "huge", init::constant(0.0))
    };
    let reason = ParamStore::build(&saved, huge).err().unwrap();
    assert!(reason.contains("1 missing: huge"), "{reason}");
}

#[test]
fn a_preloaded_tensor_of_another_shape_fails_the_build_by_name() {
    let (store, vb) = store();
    store.preload(BTreeMap::from([("first.weight".to_owned(), formula("w", &[3, 4]))]));
    let message = init::linear(3, 4, vb.pp("first")).unwrap_err().to_string();
    assert!(message.contains("first.weight has shape [3, 4] where the layer needs [4, 3]"), "{message}");
    assert!(vb.get_with_hints(2, "x", init::constant(0.)).is_ok());
    let message = vb.get_with_hints(3, "x", init::constant(0.)).unwrap_err().to_string();
    assert!(message.contains("x has shape [2] where the layer needs [3]"), "{message}");
    let message = vb.get_with_hints_dtype(2, "x", init::constant(0.), DType::F64).unwrap_err().to_string();
    assert!(message.contains("parameter x was made as F32"), "{message}");
}

#[test]
fn loading_reports_every_difference_and_is_all_or_nothing() {
    let (store, vb) = store();
    build(&vb);
    let before = store.tensors().unwrap();
    let mut given = before.clone();
    given.remove("first.bias");
    given.insert("first.weight".to_owned(), formula("w", &[4, 4]));
    given.insert("norm.bias".to_owned(), formula("b", &[4]));
    given.insert("extra".to_owned(), formula("e", &[1]));
    let message = store.load(&given, LoadPolicy::Strict).unwrap_err().to_string();
    let parts =
        ["1 missing: first.bias", "1 unexpected: extra", "first.weight (expected [4, 3], found [4, 4])"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    assert!(same(&store.tensors().unwrap(), &before), "a refused load changed a value");
    let report = store.load(&given, LoadPolicy::Lenient).unwrap();
    assert_eq!((report.loaded.len(), report.missing.len(), report.unexpected.len()), (6, 1, 1));
    assert_eq!(report.mismatched.len(), 1);
    let after = store.tensors().unwrap();
    assert_eq!(to_vec(&after["first.weight"]), to_vec(&before["first.weight"]));
    assert_eq!(to_vec(&after["norm.bias"]), to_vec(&formula("b", &[4]).to_dtype(DType::F32).unwrap()));
    assert!(store.load(&before, LoadPolicy::Strict).unwrap().is_exact());
    assert!(same(&store.tensors().unwrap(), &before));
    // A store's own variables are accepted too.
    let own =
        store.names().into_iter().map(|n| (n.clone(), store.var(&n).unwrap().as_detached_tensor())).collect();
    assert!(store.load(&own, LoadPolicy::Strict).unwrap().is_exact());
}

#[test]
fn loading_reaches_layers_that_exist_frozen_or_not() {
    let (store, vb) = store();
    store.freeze(|name| name.starts_with("second"));
    let (first, second, _) = build(&vb);
    let x = formula("x", &[2, 3]).to_dtype(DType::F32).unwrap();
    let zeros = |n: &String| (n.clone(), store.var(n).unwrap().zeros_like().unwrap());
    store.load(&store.names().iter().map(zeros).collect(), LoadPolicy::Strict).unwrap();
    let hidden = first.forward(&x).unwrap();
    assert_eq!(to_vec(&hidden), [0.; 8]);
    assert_eq!(to_vec(&second.forward(&(hidden + 1.).unwrap()).unwrap()), [0.; 4]);
}

#[test]
fn frozen_parameters_are_outside_the_graph() {
    let (store, vb) = store();
    store.freeze(|name| name.starts_with("first"));
    let (first, second, _) = build(&vb);
    assert!(!first.weight().is_variable() && second.weight().is_variable());
    assert!(store.trainable().iter().all(|(name, _)| !name.starts_with("first")));
    // The layer was frozen later: it keeps its variable, and the optimiser does not get it.
    store.freeze(|name| name.starts_with("second"));
    assert!(store.trainable().iter().all(|(name, _)| name.starts_with("norm")));
    // A layer that is built again gets constants.
    let (_, second, _) = build(&vb);
    assert!(!second.weight().is_variable());
}

#[test]
fn files_are_deterministic_whole_and_read_back() {
    let (a, vb) = store();
    build(&vb);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.safetensors");
    a.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), import::to_safetensors(&a.tensors().unwrap()).unwrap());
    a.save(&path).unwrap();
    assert_eq!(names(dir.path()), ["net.safetensors"], "litter");
    let b = ParamStore::new(Key::new(9));
    build(&b.var_builder(DType::F32, &CPU));
    assert!(b.load(&import::load(&path, &CPU).unwrap(), LoadPolicy::Strict).unwrap().is_exact());
    assert!(same(&a.tensors().unwrap(), &b.tensors().unwrap()));
    let message = a.save(&dir.path().join("none/net.safetensors")).unwrap_err().to_string();
    assert!(message.contains("none/net.safetensors"), "{message}");
    // A directory in the way: the write fails at the rename and leaves nothing behind.
    std::fs::create_dir(dir.path().join("taken")).unwrap();
    assert!(a.save(&dir.path().join("taken")).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
