//! Comparison of the networks with golden values, and of the kernel with tensor operations in f64.

use candle_core::{DType, Device, Tensor, Var};
use ebm_base::Key;
use ebm_core::{EnergyModel, Order};
use ebm_toy::{Layout, Network, ToyEnergy, WIDTH};
use rand::Rng;

const NETWORKS: [Network; 2] = [Network::Eccv, Network::Bmvc];

/// W_l[o, i] = sin(0.7 i + 1.3 o + l) / √fan_in and b_l[o] = 0.05 (o + 1) in the published order of layers.
fn golden_parameters(network: Network) -> Vec<f32> {
    let layout = Layout::new(network);
    let mut theta = vec![0f32; layout.len];
    let mut fill = |start: usize, rows: usize, columns: usize, first: usize, l: usize, fan_in: usize| {
        for o in 0..rows {
            for i in 0..columns {
                let value =
                    (0.7 * (first + i) as f64 + 1.3 * o as f64 + l as f64).sin() / (fan_in as f64).sqrt();
                theta[start + o * columns + i] = value as f32;
            }
        }
    };
    let joining = network.joining_layer();
    for (layer, l) in layout.x.iter().chain([&layout.y]).chain(&layout.hidden).chain([&layout.out]).zip(1..) {
        let rows = layer.bias.len();
        // The joining layer's columns for y come after those for x.
        let first = if layer == &layout.hidden[joining] { WIDTH } else { 0 };
        fill(layer.weight.start, rows, layer.weight.len() / rows, first, l, layer.fan_in);
    }
    fill(layout.joining.start, WIDTH, WIDTH, 0, 4 + joining, 2 * WIDTH);
    for layer in layout.x.iter().chain([&layout.y]).chain(&layout.hidden).chain([&layout.out]) {
        for (o, at) in layer.bias.clone().enumerate() {
            theta[at] = (0.05 * (o + 1) as f64) as f32;
        }
    }
    theta
}

/// (x, y, f, f_y, f_yy), from golden/networks.py.
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
            let model =
                ToyEnergy::from_parameters(network, golden_parameters(network), dtype, &Device::Cpu).unwrap();
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

/// Creates one random network and batch in f32 (the kernel) and in f64 (tensor operations).
struct Pair {
    models: [ToyEnergy; 2],
    x: [Tensor; 2],
    y: [Var; 2],
    weights: [Tensor; 2],
}

impl Pair {
    fn new(network: Network, batch: usize, count: usize) -> Self {
        let mut rng = Key::new(5).index(count as u64).rng();
        let theta: Vec<f32> = (0..Layout::new(network).len).map(|_| rng.random_range(-0.8f32..0.8)).collect();
        let mut draw = |shape: &[usize]| {
            let values: Vec<f32> =
                (0..shape.iter().product::<usize>()).map(|_| rng.random_range(-2f32..2.0)).collect();
            let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            [tensor.clone(), tensor.to_dtype(DType::F64).unwrap()]
        };
        let (x, y, weights) = (draw(&[batch, 1]), draw(&[batch, count, 1]), draw(&[2, batch, count]));
        let model = |dtype| ToyEnergy::from_parameters(network, theta.clone(), dtype, &Device::Cpu).unwrap();
        Self {
            models: [model(DType::F32), model(DType::F64)],
            x,
            y: y.map(|y| Var::from_tensor(&y).unwrap()),
            weights,
        }
    }
}

#[test]
fn the_kernel_is_the_composition() {
    for network in NETWORKS {
        // Covers a single partial vector, several blocks with a rest, one task and several tasks.
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
                let theta = &model.parameters()[0].1;
                results.push(("∂f/∂θ".to_owned(), flat(grads.get(theta).unwrap())));

                let ones = y.ones_like().unwrap();
                let along = model.derivatives_along(&features, y, &ones, Order::First).unwrap();
                results.push(("f_y".to_owned(), flat(&along.first)));
                let mixed = ((&along.value * weights.get(0).unwrap()).unwrap()
                    + (&along.first * weights.get(1).unwrap()).unwrap())
                .unwrap();
                let grads = mixed.sum_all().unwrap().backward().unwrap();
                results.push(("∂(f, f_y)/∂θ".to_owned(), flat(grads.get(theta).unwrap())));
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
fn gradients_of_the_composition_against_differences() {
    let network = Network::Bmvc;
    let pair = Pair::new(network, 2, 3);
    let model = &pair.models[1];
    let theta = model.parameters()[0].1.clone();
    let loss = || {
        let features = model.features(&pair.x[1]).unwrap();
        let ones = pair.y[1].ones_like().unwrap();
        let along = model.derivatives_along(&features, &pair.y[1], &ones, Order::Second).unwrap();
        let sum = (((along.value + along.first).unwrap() + along.second.unwrap()).unwrap()
            * pair.weights[1].get(0).unwrap())
        .unwrap();
        sum.sum_all().unwrap()
    };
    let analytic = flat(loss().backward().unwrap().get(&theta).unwrap());
    let start = flat(&theta);
    for index in (0..start.len()).step_by(7) {
        let at = |delta: f64| {
            let mut moved = start.clone();
            moved[index] += delta;
            theta.set(&Tensor::new(moved, &Device::Cpu).unwrap()).unwrap();
            scalar(&loss())
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        theta.set(&Tensor::new(start.clone(), &Device::Cpu).unwrap()).unwrap();
        let close = (numeric - analytic[index]).abs() < 1e-6 * (1.0 + numeric.abs());
        assert!(close, "{index}: {numeric} {}", analytic[index]);
    }
}

#[test]
fn bad_shapes_are_errors() {
    let model = ToyEnergy::new(Network::Eccv, Key::new(0), &Device::Cpu).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let features = model.features(&zeros(&[2, 1])).unwrap();
    assert!(model.score(&features, &zeros(&[3, 4, 1])).is_err());
    assert!(model.score(&features, &zeros(&[2, 4, 2])).is_err());
    assert!(model.features(&zeros(&[2, 3])).is_err());
    assert!(ToyEnergy::from_parameters(Network::Eccv, vec![0.0; 3], DType::F32, &Device::Cpu).is_err());
}
