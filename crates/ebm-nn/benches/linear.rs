//! Times the fully-connected layers of a detection head, I → H → H → O. One line per request on standard
//! input, so that `linear.py` can alternate with torch in one run:
//!
//! ```text
//! cargo bench -p ebm-nn --bench linear --no-run     (prints the path of the binary)
//! python crates/ebm-nn/benches/linear.py BINARY     (torch; 2 threads each)
//! ```
//!
//! Requests: `setup N I H O`, then the name of a measurement; the answer is milliseconds. The number of
//! threads is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{Device, Tensor, Var};
use ebm_nn::ops::{PackedLinear, Workspace, linear};

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Case {
    x: Tensor,
    weights: Vec<Var>,
    biases: Vec<Var>,
    numbers: Vec<f32>,
    packed: Vec<PackedLinear>,
    workspace: Workspace,
}

fn setup(sizes: &[usize]) -> Case {
    let &[rows, inputs, hidden, outputs] = sizes else { panic!("setup needs N I H O") };
    let random =
        |shape: (usize, usize), scale: f64| Tensor::randn(0f32, scale as f32, shape, &Device::Cpu).unwrap();
    let sizes = [(hidden, inputs), (hidden, hidden), (outputs, hidden)];
    let weights: Vec<Var> = sizes
        .iter()
        .map(|&(o, i)| Var::from_tensor(&random((o, i), 1.0 / (i as f64).sqrt())).unwrap())
        .collect();
    let biases: Vec<Var> = sizes
        .iter()
        .map(|&(o, _)| Var::from_tensor(&random((1, o), 0.1).squeeze(0).unwrap()).unwrap())
        .collect();
    let x = random((rows, inputs), 1.0);
    let packed = weights.iter().zip(&biases).map(|(w, b)| PackedLinear::new(w, Some(b)).unwrap()).collect();
    let numbers = x.flatten_all().unwrap().to_vec1().unwrap();
    Case { x, weights, biases, numbers, packed, workspace: Workspace::new() }
}

fn forward(case: &Case, x: &Tensor, trained: bool) -> Tensor {
    let mut x = x.clone();
    for (i, (w, b)) in case.weights.iter().zip(&case.biases).enumerate() {
        let (w, b) = if trained {
            (w.as_tensor().clone(), b.as_tensor().clone())
        } else {
            (w.as_detached_tensor(), b.as_detached_tensor())
        };
        x = linear(&x, &w, Some(&b)).unwrap();
        if i + 1 < case.weights.len() {
            x = x.relu().unwrap();
        }
    }
    x
}

fn packed_forward(case: &Case, layers: &[PackedLinear]) -> Vec<Vec<f32>> {
    let mut outputs: Vec<Vec<f32>> = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        let x = outputs.last().unwrap_or(&case.numbers);
        let y = layer.forward(x, i + 1 < case.packed.len(), &case.workspace).unwrap();
        outputs.push(y);
    }
    outputs
}

fn measure(case: &Case, what: &str) -> f64 {
    let start = Instant::now();
    match what {
        "packed forward" => {
            packed_forward(case, &case.packed).into_iter().for_each(|y| case.workspace.give(y));
        }
        // Of the first two layers, as in a refinement: the last has one row for each class.
        "packed gradient" => {
            let outputs = packed_forward(case, &case.packed[..2]);
            let [h, g] = &outputs[..] else { panic!("two layers") };
            let g = case.packed[1].input_gradient(g, Some(g), &case.workspace).unwrap();
            let gx = case.packed[0].input_gradient(&g, Some(h), &case.workspace).unwrap();
            outputs.into_iter().chain([g, gx]).for_each(|y| case.workspace.give(y));
        }
        "forward" => drop(forward(case, &case.x, false)),
        "training" => drop(forward(case, &case.x, true).sum_all().unwrap().backward().unwrap()),
        "training with input" => {
            let x = Var::from_tensor(&case.x).unwrap();
            drop(forward(case, &x, true).sum_all().unwrap().backward().unwrap());
        }
        other => panic!("unknown measurement {other}"),
    }
    start.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let mut case = setup(&[1, 1, 1, 1]);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if let Some(sizes) = line.strip_prefix("setup ") {
            case = setup(&sizes.split_whitespace().map(|s| s.parse().unwrap()).collect::<Vec<_>>());
            println!("ready");
        } else {
            println!("{}", measure(&case, &line));
        }
        std::io::stdout().flush().unwrap();
    }
}
