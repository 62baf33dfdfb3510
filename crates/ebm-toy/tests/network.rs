//! The networks against golden values, and in f32 against f64.
#![allow(clippy::unwrap_used, clippy::panic)]

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{EnergyModel, Order};
use ebm_seed::Key;
use ebm_toy::{Network, ToyEnergy};
use rand::Rng;

const NETWORKS: [Network; 2] = [Network::Eccv, Network::Bmvc];
/// The features of x.
const WIDTH: usize = 10;

/// A network with other parameters: of its name and shape.
fn network_of(
    network: Network,
    dtype: DType,
    mut values: impl FnMut(&str, &[usize]) -> Vec<f32>,
) -> ToyEnergy {
    let model = ToyEnergy::new(network, Key::new(0), dtype, &Device::Cpu).unwrap();
    for (name, parameter) in model.parameters() {
        let values = Tensor::from_vec(values(&name, parameter.dims()), parameter.shape(), &Device::Cpu);
        parameter.set(&values.unwrap().to_dtype(dtype).unwrap()).unwrap();
    }
    model
}

/// W_l[o, i] = sin(0.7 i + 1.3 o + l) / √fan_in and b_l[o] = 0.05 (o + 1) in the published order of layers.
fn golden(network: Network, dtype: DType) -> ToyEnergy {
    let joining = if network == Network::Eccv { "hidden.1" } else { "hidden.0" };
    let layers = ["x.0", "x.1", "y", "hidden.0", "hidden.1", "hidden.2", "out", "normalizer"];
    network_of(network, dtype, |name, shape| {
        let (layer, part) = name.rsplit_once('.').unwrap();
        if part == "bias" {
            return (0..shape[0]).map(|o| (0.05 * (o + 1) as f64) as f32).collect();
        }
        // The joining layer's columns for y come after those for x.
        let (layer, first, fan_in) = match layer {
            "joining" => (joining, 0, 2 * WIDTH),
            _ if layer == joining => (layer, WIDTH, 2 * WIDTH),
            _ => (layer, 0, shape[1]),
        };
        let l = 1 + layers.iter().position(|known| *known == layer).unwrap();
        let value = |index: usize| {
            let (o, i) = (index / shape[1], index % shape[1] + first);
            ((0.7 * i as f64 + 1.3 * o as f64 + l as f64).sin() / (fan_in as f64).sqrt()) as f32
        };
        (0..shape[0] * shape[1]).map(value).collect()
    })
}

/// (x, y, f, f_y, f_yy), computed in float64 elsewhere.
fn golden_values(network: Network) -> [[f64; 5]; 3] {
    match network {
        Network::Eccv => [
            [0.3, -0.2, -0.015672956444455877, -0.006455083830907127, 0.0],
            [-1.5, 1.0, -0.01013758524069145, 0.004899379759553929, 0.0],
            [2.0, 0.5, -0.012107506761900325, 0.002096051749375681, 0.0],
        ],
        Network::Bmvc => [
            [0.3, -0.2, -0.14992195853084261, -0.004832344946878886, -0.010251768369836383],
            [-1.5, 1.0, -0.1568680473341007, -0.004873940845898187, 0.004557219570636817],
            [2.0, 0.5, -0.15545213919770617, -0.006751148789877396, 0.0030109335996301623],
        ],
    }
}

fn scalar(tensor: &Tensor) -> f64 {
    tensor.flatten_all().unwrap().get(0).unwrap().to_dtype(DType::F64).unwrap().to_scalar().unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[track_caller]
fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(0f64, |m, w| m.max(w.abs()));
    for (index, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= tolerance * (scale + 1e-3),
            "{what} at {index}: {g}, expected {w} (scale {scale})"
        );
    }
}

#[test]
fn golden_values_of_both_networks() {
    for network in NETWORKS {
        for dtype in [DType::F32, DType::F64] {
            let model = golden(network, dtype);
            for [x, y, f, first, second] in golden_values(network) {
                let tensor = |v: f64, shape: &[usize]| {
                    Tensor::new(&[v], &Device::Cpu).unwrap().to_dtype(dtype).unwrap().reshape(shape).unwrap()
                };
                let features = model.features(&tensor(x, &[1, 1])).unwrap();
                let (y, one) = (tensor(y, &[1, 1, 1]), tensor(1.0, &[1, 1, 1]));
                let check = |got: &Tensor, want: f64, what: &str| {
                    assert!((scalar(got) - want).abs() < 3e-7, "{network:?} {dtype:?} {what}: {got} {want}");
                };
                check(&model.score(&features, &y).unwrap(), f, "f");
                let (value, gradient) = model.score_and_grad(&features, &y).unwrap();
                check(&value, f, "f with gradient");
                check(&gradient, first, "gradient");
                let along = model.derivatives_along(&features, &y, &one, Order::First).unwrap();
                check(&along.first, first, "first derivative");
                let along = model.derivatives_along(&features, &y, &one, Order::Second).unwrap();
                check(&along.first, first, "first of two derivatives");
                check(&along.second.unwrap(), second, "second derivative");
            }
        }
    }
}

/// The same random network and batch in f32 and f64.
struct Pair {
    models: [ToyEnergy; 2],
    x: [Tensor; 2],
    y: [Var; 2],
    weights: [Tensor; 2],
}

impl Pair {
    fn new(network: Network, batch: usize, count: usize) -> Self {
        let mut rng = Key::new(5).index(count as u64).rng();
        let mut draw = |shape: &[usize]| {
            let values: Vec<f32> =
                (0..shape.iter().product::<usize>()).map(|_| rng.random_range(-2f32..2.0)).collect();
            let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            [tensor.clone(), tensor.to_dtype(DType::F64).unwrap()]
        };
        let (x, y, weights) = (draw(&[batch, 1]), draw(&[batch, count, 1]), draw(&[2, batch, count]));
        let model = |dtype| {
            let mut rng = Key::new(6).rng();
            network_of(network, dtype, |_, shape| {
                (0..shape.iter().product::<usize>()).map(|_| rng.random_range(-0.8f32..0.8)).collect()
            })
        };
        Self {
            models: [model(DType::F32), model(DType::F64)],
            x,
            y: y.map(|y| Var::from_tensor(&y).unwrap()),
            weights,
        }
    }
}

#[test]
fn single_precision_is_double_precision() {
    for network in NETWORKS {
        // One row, no block full, several blocks with a rest.
        for (batch, count) in [(1, 1), (3, 7), (5, 300), (9, 129)] {
            let pair = Pair::new(network, batch, count);
            let mut found: Vec<Vec<(String, Vec<f64>)>> = Vec::new();
            for index in 0..2 {
                let (model, y, weights) = (&pair.models[index], &pair.y[index], &pair.weights[index]);
                let features = model.features(&pair.x[index]).unwrap();
                let f = model.score(&features, y).unwrap();
                let mut results = vec![("f".to_owned(), flat(&f))];
                let grads = (&f * weights.get(0).unwrap()).unwrap().sum_all().unwrap().backward().unwrap();
                results.push(("∂f/∂y".to_owned(), flat(grads.get(y.as_tensor()).unwrap())));
                let of_parameters = |what: &str, grads: &GradStore| {
                    let named = model.parameters().into_iter().filter_map(|(name, parameter)| {
                        Some((format!("∂{what}/∂{name}"), flat(grads.get(&parameter)?)))
                    });
                    let found: Vec<_> = named.collect();
                    // All but the weight and the bias of b(x), which f does not meet.
                    assert_eq!(found.len(), model.parameters().len() - 2);
                    found
                };
                results.extend(of_parameters("f", &grads));

                let ones = y.ones_like().unwrap();
                let along = model.derivatives_along(&features, y, &ones, Order::First).unwrap();
                results.push(("f_y".to_owned(), flat(&along.first)));
                let mixed = ((&along.value * weights.get(0).unwrap()).unwrap()
                    + (&along.first * weights.get(1).unwrap()).unwrap())
                .unwrap();
                let grads = mixed.sum_all().unwrap().backward().unwrap();
                results.extend(of_parameters("(f, f_y)", &grads));
                let (_, gradient) = model.score_and_grad(&features, y).unwrap();
                results.push(("gradient".to_owned(), flat(&gradient)));
                found.push(results);
            }
            for ((name, single), (_, double)) in found[0].iter().zip(&found[1]) {
                assert_close(single, double, 2e-5, &format!("{network:?} {batch}×{count} {name}"));
            }
        }
    }
}

#[test]
fn gradients_against_differences() {
    for (network, order) in [(Network::Bmvc, Order::Second), (Network::Eccv, Order::First)] {
        let pair = Pair::new(network, 2, 3);
        let model = &pair.models[1];
        let loss = || {
            let features = model.features(&pair.x[1]).unwrap();
            let ones = pair.y[1].ones_like().unwrap();
            let along = model.derivatives_along(&features, &pair.y[1], &ones, order).unwrap();
            let sum = (along.value + along.first).unwrap();
            let sum = along.second.map_or(sum.clone(), |second| (sum + second).unwrap());
            (sum * pair.weights[1].get(0).unwrap()).unwrap().sum_all().unwrap()
        };
        let grads = ebm_nn::ops::backward(&loss()).unwrap();
        let mut parameters = model.parameters();
        parameters.retain(|(name, _)| !name.starts_with("normalizer"));
        for (name, parameter) in parameters {
            // A constant of f is none of its derivatives, and all of these are there.
            let analytic = flat(grads.get(&parameter).unwrap());
            let (start, set) = (flat(&parameter), |values: &[f64]| {
                let values = Tensor::from_vec(values.to_vec(), parameter.shape(), &Device::Cpu).unwrap();
                parameter.set(&values).unwrap();
            });
            for index in (0..start.len()).step_by(7) {
                let at = |delta: f64| {
                    let mut moved = start.clone();
                    moved[index] += delta;
                    set(&moved);
                    scalar(&loss())
                };
                let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
                set(&start);
                let close = (numeric - analytic[index]).abs() < 1e-6 * (1.0 + numeric.abs());
                assert!(close, "{network:?} {name} {index}: {numeric} {}", analytic[index]);
            }
        }
    }
}

#[test]
fn bad_shapes_are_errors() {
    let model = ToyEnergy::new(Network::Eccv, Key::new(0), DType::F32, &Device::Cpu).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let features = model.features(&zeros(&[2, 1])).unwrap();
    assert!(model.score(&features, &zeros(&[3, 4, 1])).is_err());
    assert!(model.score(&features, &zeros(&[2, 4, 2])).is_err());
    assert!(model.features(&zeros(&[2, 3])).is_err());
}
