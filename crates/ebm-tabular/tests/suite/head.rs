//! f(x, y) of a table's row.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_nn::params::ParamStore;
use ebm_tabular::model::EnergyHead;
use rand::Rng;

/// Creates a head in double precision, with random values for the parameters that start at zero.
fn head(dim: usize) -> (EnergyHead, ParamStore) {
    let store = ParamStore::new(Key::new(1));
    let head = EnergyHead::new(dim, 6, 8, store.var_builder(DType::F64, &Device::Cpu)).unwrap();
    let mut rng = Key::new(2).rng();
    for (_, var) in store.trainable() {
        let values: Vec<f64> = (0..var.elem_count()).map(|_| rng.random_range(-0.7..0.7)).collect();
        var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
    }
    (head, store)
}

fn drawn(shape: &[usize], seed: u64) -> Tensor {
    let mut rng = Key::new(seed).rng();
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| rng.random_range(-1.5..1.5)).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Compares autograd with central differences of a randomly weighted sum of f.
#[test]
fn gradients_are_those_of_f() {
    for dim in [1, 2] {
        let (head, store) = head(dim);
        let (h, y) = (drawn(&[3, 6], 3), drawn(&[3, 5, dim], 4));
        let weights = drawn(&[3, 5], 5);
        let y = Var::from_tensor(&y).unwrap();
        let value = || {
            let f = head.score(&head.features(&h).unwrap(), &y).unwrap();
            (f * &weights).unwrap().sum_all().unwrap()
        };
        let gradients = value().backward().unwrap();
        let mut judged = store.trainable();
        judged.push(("y".to_owned(), y.clone()));
        for (name, var) in judged {
            let values = var.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let Some(gradient) = gradients.get(&var) else { panic!("{name} has no gradient") };
            let gradient = gradient.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            for place in [0, values.len() / 2, values.len() - 1] {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values[place] += by;
                    var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
                    value().to_scalar::<f64>().unwrap()
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                moved(0.0);
                assert!(
                    (gradient[place] - expected).abs() < 1e-6,
                    "{name} {place}: {} not {expected}",
                    gradient[place]
                );
            }
        }
    }
}

/// Far from μ, f falls with (ν + 1) log |u|, the rate of Student's t.
#[test]
fn f_falls_in_the_tails() {
    let (head, _) = head(1);
    let features = head.features(&drawn(&[1, 6], 6)).unwrap();
    let y = Tensor::new(&[[[1e3f64], [1e5], [-1e3], [-1e5]]], &Device::Cpu).unwrap();
    let f = head.score(&features, &y).unwrap().to_vec2::<f64>().unwrap().remove(0);
    let slope = |near: f64, far: f64| (near - far) / 100f64.ln();
    for slope in [slope(f[0], f[1]), slope(f[2], f[3])] {
        assert!(slope > 2.0 - 1e-3, "{f:?}");
    }
}

/// As its parameter goes to −∞, ν goes to 1 and f falls with 2 log |u|: exp f stays integrable, as it would
/// not for ν = 0. At its start ν is 4.
#[test]
fn the_degrees_of_freedom_stay_above_one() {
    for (log_tails, nu) in [(3f64.ln(), 4.0), (-50.0, 1.0), (0.0, 2.0)] {
        let (head, store) = head(1);
        for (name, var) in store.trainable() {
            match name.as_str() {
                "log_tails" => var.set(&Tensor::new(&[log_tails], &Device::Cpu).unwrap()).unwrap(),
                _ => var.set(&var.zeros_like().unwrap()).unwrap(),
            }
        }
        // All else is 0: μ = 0, s = 1, and f = −(ν + 1)/2 log(1 + y²/ν).
        let y = Tensor::new(&[[[0.0f64], [1.0], [-3.0], [1e6]]], &Device::Cpu).unwrap();
        let features = head.features(&drawn(&[1, 6], 6)).unwrap();
        let f = head.score(&features, &y).unwrap().to_vec2::<f64>().unwrap().remove(0);
        for (f, y) in f.into_iter().zip([0.0f64, 1.0, 3.0, 1e6]) {
            let expected = -0.5 * (nu + 1.0) * (y * y / nu).ln_1p();
            assert!((f - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{nu}, {y}: {f} not {expected}");
        }
    }
}
