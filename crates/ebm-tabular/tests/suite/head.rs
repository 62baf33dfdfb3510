//! f(x, y) of a table's row.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_nn::params::ParamStore;
use ebm_tabular::model::{EnergyHead, MemberFeatures, Network, Shape};
use ebm_tabular::{ColumnRoles, Features, TabularConfig, TargetSpec};
use rand::Rng;

use crate::table;

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

/// f of a new network is log of Student's t with ν = 4. At the temperature T it is that of `ν' = 5/T − 1`, wider by
/// √(ν/ν'), with ν' = 3 at 1.25. The values are the closed form's at u = 0, 1 and −3.
#[test]
fn a_temperature_widens_students_t() {
    let config = TabularConfig::new().unwrap();
    let rows = table("x,y", [[0.0, 1.0], [0.5, 2.0], [2.0, 0.0]]);
    let features = Features::find(&rows, &[TargetSpec::real("y")], &ColumnRoles::default(), 0).unwrap();
    let key = Key::new(7);
    let method = &config.method("ebm").unwrap().model.build(&[[-3.0, 3.0]], &mut key.rng()).unwrap();
    let shape = Shape { features: &features, dim: 1, network: &config.network, method };
    let network = Network::new(&shape, &ParamStore::new(key)).unwrap();
    let x = features.encode(&rows).unwrap().x;
    let MemberFeatures::Energy { features, .. } = network.features(&x, 8, &mut key.rng()).unwrap() else {
        panic!("the features of a baseline");
    };
    let [location, log_scale] = [&features.location, &features.log_scale].map(|t| t.flatten_all().unwrap());
    let u = Tensor::new(&[0f32, 1.0, -3.0], &Device::Cpu).unwrap();
    let z = ((u * log_scale.exp().unwrap()).unwrap() + location).unwrap().unsqueeze(1).unwrap();
    let expected = [(1.0, [-0.980_83, -1.538_69, -3.927_47]), (1.25, [-1.144_73, -1.591_02, -3.502_04])];
    let found = network.log_probs(&x, &z, &[1.0, 1.25], 4096, &mut key.rng()).unwrap();
    for ((temperature, log_p), (of, expected)) in found.iter().zip(expected) {
        assert_eq!(*temperature, of);
        let log_p = (log_p + &log_scale).unwrap().to_vec1::<f32>().unwrap();
        let close = log_p.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 2e-3);
        assert!(close, "{log_p:?} not {expected:?} at {of}");
        // A network of this temperature predicts so.
        let network = network.clone().tempered(of);
        let features = network.features(&x, 4096, &mut key.rng()).unwrap();
        let log_p =
            network.log_prob(&features, &z.unsqueeze(1).unwrap()).unwrap().unwrap().squeeze(1).unwrap();
        let log_p = (log_p + &log_scale).unwrap().to_vec1::<f32>().unwrap();
        assert!(log_p.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 2e-3));
    }
}
