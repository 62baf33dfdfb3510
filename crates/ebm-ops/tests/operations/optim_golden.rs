//! Optimisers against torch's, by whole trajectories, and their saved state.

use std::collections::BTreeMap;

use crate::common::{CPU, assert_near, formula, golden, to_vec};
use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};
use ebm_ops::optim::{Adam, Optimizer, ParamGroup, Sgd, clip_grad_norm, grad_norm};

type Make = fn(Vec<(String, Var)>) -> Box<dyn Optimizer>;

const SHAPES: [(&str, &[usize]); 3] = [("a.bias", &[5]), ("a.weight", &[5, 7]), ("b.weight", &[3, 2, 3, 3])];
const OPTIMISERS: [(&str, Make); 2] = [
    ("sgd", |params| Box::new(Sgd::new(params, 0.9, ParamGroup::double_bias(0.05)))),
    ("adam", |params| Box::new(Adam::new(params, ParamGroup::double_bias(0.05)))),
];

/// The gradients of Σ g·p are g: candle makes no other gradient store.
fn grads_of(pairs: &[(&Var, Tensor)]) -> GradStore {
    let terms = pairs.iter().map(|(p, g)| (p.as_tensor() * g).unwrap().sum_all().unwrap());
    terms.reduce(|a, b| (a + b).unwrap()).unwrap().backward().unwrap()
}

fn start(dtype: DType) -> Vec<(String, Var)> {
    let var = |name, shape| Var::from_tensor(&formula(name, shape).to_dtype(dtype).unwrap()).unwrap();
    SHAPES.iter().map(|&(name, shape)| (name.to_owned(), var(name, shape))).collect()
}

fn steps(optimiser: &mut dyn Optimizer, params: &[(String, Var)], range: std::ops::Range<usize>) {
    for step in range {
        let pairs: Vec<_> = (params.iter())
            .filter(|(name, _)| name != "b.weight" || step >= 3)
            .map(|(name, var)| {
                let grad = formula(&format!("{name}.grad{step}"), var.dims());
                (var, grad.to_dtype(var.dtype()).unwrap())
            })
            .collect();
        optimiser.step(&grads_of(&pairs), 0.01).unwrap();
    }
}

#[test]
fn ten_steps_are_torchs() {
    let golden = golden("optim");
    for (kind, make) in OPTIMISERS {
        for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
            let params = start(dtype);
            steps(&mut *make(params.clone()), &params, 0..10);
            for (name, var) in &params {
                let expected = to_vec(&golden[&format!("{kind}.{name}")]);
                assert_near(name, &to_vec(var), &expected, tolerance);
                assert!(to_vec(var) != to_vec(&formula(name, var.dims()).to_dtype(dtype).unwrap()));
            }
        }
    }
}

#[test]
fn single_values_are_torchs() {
    // Printed by golden/norm_optim.py.
    let run = |make: &dyn Fn(Vec<(String, Var)>) -> Box<dyn Optimizer>, grads: &[f64]| {
        let p = Var::new(&[1f64], &CPU).unwrap();
        let mut optimiser = make(vec![("p".to_owned(), p.clone())]);
        for g in grads {
            optimiser.step(&grads_of(&[(&p, Tensor::new(&[*g], &CPU).unwrap())]), 1e-3).unwrap();
        }
        to_vec(&p)[0]
    };
    let adam = |decay| move |p| Box::new(Adam::new(p, |_| ParamGroup::decay(decay))) as Box<dyn Optimizer>;
    let grads = [0.5, -0.2, 0.1];
    assert!((run(&adam(0.), &grads) - 0.998275002408357).abs() < 1e-14);
    assert!((run(&adam(1e-3), &grads) - 0.9982700880316244).abs() < 1e-14);
    let sgd = |p| Box::new(Sgd::new(p, 0.9, |_| ParamGroup::decay(1e-4))) as Box<dyn Optimizer>;
    assert!((run(&sgd, &[0.5, 0.5]) - 0.99854971005001).abs() < 1e-14);
}

#[test]
fn saved_state_continues_bit_for_bit() {
    for (_, make) in OPTIMISERS {
        let whole = start(DType::F32);
        steps(&mut *make(whole.clone()), &whole, 0..10);
        let halves = start(DType::F32);
        let mut first = make(halves.clone());
        steps(&mut *first, &halves, 0..4);
        let state = first.state().unwrap();
        let saved: Vec<_> = state.values().map(to_vec).collect();
        // Later steps of the first optimiser must not reach the saved state.
        let copies: Vec<_> =
            halves.iter().map(|(n, v)| (n.clone(), Var::from_tensor(&v.detach()).unwrap())).collect();
        steps(&mut *first, &halves, 4..5);
        assert_eq!(state.values().map(to_vec).collect::<Vec<_>>(), saved);
        let mut second = make(copies.clone());
        second.load_state(&state).unwrap();
        steps(&mut *second, &copies, 4..10);
        for ((name, a), (_, b)) in whole.iter().zip(&copies) {
            assert_eq!(to_vec(a), to_vec(b), "{name}");
        }
    }
}

#[test]
fn foreign_state_is_refused_and_changes_nothing() {
    for (kind, make) in OPTIMISERS {
        let params = start(DType::F32);
        let mut optimiser = make(params.clone());
        steps(&mut *optimiser, &params, 0..4);
        let good = optimiser.state().unwrap();
        let mut unknown = good.clone();
        unknown.insert("momentum.c.weight".to_owned(), Tensor::zeros(1, DType::F32, &CPU).unwrap());
        let (name, _) = good.first_key_value().unwrap();
        let mut misshapen = good.clone();
        misshapen.insert(name.clone(), Tensor::zeros((2, 2), DType::F32, &CPU).unwrap());
        for bad in [unknown, misshapen] {
            assert!(optimiser.load_state(&bad).is_err());
        }
        if kind == "adam" {
            let mut partial = good.clone();
            partial.remove("step.a.bias");
            assert!(optimiser.load_state(&partial).is_err());
        }
        let same = |a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>| {
            a.keys().eq(b.keys()) && a.iter().all(|(name, t)| to_vec(t) == to_vec(&b[name]))
        };
        assert!(same(&optimiser.state().unwrap(), &good));
    }
}

#[test]
fn clipping_is_torchs_and_leaves_what_is_not_finite() {
    let golden = golden("optim");
    let (p, q) = (Var::zeros(4, DType::F64, &CPU).unwrap(), Var::zeros(3, DType::F64, &CPU).unwrap());
    let given = [("p".to_owned(), p.clone()), ("q".to_owned(), q.clone())];
    let sgd = Sgd::new(given.to_vec(), 0.9, |_| ParamGroup::decay(0.));
    let five = |name, n| (formula(name, &[n]) * 5.).unwrap();
    let mut grads = grads_of(&[(&p, five("p", 4)), (&q, five("q", 3))]);
    let norm = clip_grad_norm(sgd.params(), &mut grads, 2.).unwrap();
    assert_near("norm", &[norm], &to_vec(&golden["clip.norm"]), 1e-13);
    assert_near("p", &to_vec(grads.get(&p).unwrap()), &to_vec(&golden["clip.p"]), 1e-13);
    assert_near("q", &to_vec(grads.get(&q).unwrap()), &to_vec(&golden["clip.q"]), 1e-13);
    let before = to_vec(grads.get(&p).unwrap());
    assert!((clip_grad_norm(sgd.params(), &mut grads, 1e3).unwrap() - 2.).abs() < 1e-5);
    assert_eq!(to_vec(grads.get(&p).unwrap()), before);
    for bad in [f64::NAN, f64::INFINITY] {
        let mut grads = grads_of(&[(&p, Tensor::new(&[0., bad, 1., 2.], &CPU).unwrap()), (&q, five("q", 3))]);
        assert!(!clip_grad_norm(sgd.params(), &mut grads, 2.).unwrap().is_finite());
        assert!(!grad_norm([&p, &q], &grads).unwrap().is_finite());
        assert_eq!(to_vec(grads.get(&q).unwrap()), to_vec(&five("q", 3)));
    }
}

#[test]
fn a_strided_gradient_is_read_in_the_parameters_order() {
    let p = Var::zeros((2, 3), DType::F32, &CPU).unwrap();
    let values = Tensor::new(&[[1f32, 4.], [2., 5.], [3., 6.]], &CPU).unwrap();
    let mut grads = grads_of(&[(&p, values.t().unwrap().contiguous().unwrap())]);
    grads.insert(&p, values.t().unwrap());
    let mut sgd = Sgd::new(vec![("p".to_owned(), p.clone())], 0., |_| ParamGroup::decay(0.));
    sgd.step(&grads, 1.).unwrap();
    assert_eq!(to_vec(&p), [-1., -2., -3., -4., -5., -6.]);
    grads.insert(&p, values);
    let message = sgd.step(&grads, 1.).unwrap_err().to_string();
    assert!(message.contains("p: gradient"), "{message}");
}
