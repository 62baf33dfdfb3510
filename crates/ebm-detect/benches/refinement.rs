//! Times the refinement of boxes by the confidence branch. One line per request on standard input, so that
//! `refinement.py` can alternate with the published scheme in torch in one run:
//!
//! ```text
//! cargo bench -p ebm-detect --bench refinement --no-run     (prints the path of the binary)
//! python crates/ebm-detect/benches/refinement.py BINARY     (torch, safetensors; 2 threads each)
//! ```
//!
//! Requests: `setup BOXES FILE [PRECISION]`, which writes the network, the pyramid and the boxes to FILE;
//! `refine STEPS FILE`, which also writes the refined y, `refine STEPS`, `heads STEPS` (its fully-connected
//! layers alone), `evaluate` (f and its gradient once) and `score` (f once), whose answers are milliseconds.
//! The number of threads is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use ebm_core::{EnergyModel, GradientAscent, StepRule, refine};
use ebm_detect::{
    BoxFeatures, EnergyHead,
    config::{ExperimentConfig, Settings},
};
use ebm_nn::boxes::{BBox, BoxConvention};
use ebm_nn::device::Precision;
use ebm_nn::ops::{PackedLinear, Workspace};

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Height and width of the image.
const IMAGE: (usize, usize) = (800, 1088);
const CHANNELS: usize = 256;
const CLASSES: usize = 91;
/// λ of the four coordinates and η; `refinement.py` has the same.
const STEP_LENGTH: [f64; 4] = [1e-3, 1e-3, 4e-3, 4e-3];
const DECAY: f64 = 0.5;

struct Case {
    head: EnergyHead,
    features: BoxFeatures,
    y0: Tensor,
    layers: [PackedLinear; 2],
    pooled: Vec<f32>,
    workspace: Workspace,
}

/// A linear congruential generator.
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 24) as f32
}

/// Boxes of 24 to 500 pixels a side, even in the logarithm, inside the image.
fn boxes(count: usize) -> (Vec<BBox>, Vec<u32>) {
    let (mut state, (height, width)) = (1, IMAGE);
    let side = |state: &mut u64| 24.0 * (500.0f32 / 24.0).powf(noise(state));
    (0..count)
        .map(|_| {
            let (w, h) = (side(&mut state), side(&mut state));
            let (x, y) = (noise(&mut state) * (width as f32 - w), noise(&mut state) * (height as f32 - h));
            ([x, y, x + w, y + h], 1 + (noise(&mut state) * (CLASSES - 1) as f32) as u32)
        })
        .unzip()
}

fn setup(count: usize, path: &str, precision: Precision) -> Case {
    let device = Device::Cpu;
    let config = ExperimentConfig::embedded("torchvision").unwrap().detector;
    let random = |shape: &[usize], scale: f32| Tensor::randn(0.0, scale, shape, &device).unwrap();
    let (inputs, width) = (CHANNELS * config.roi.pool_size.pow(2), config.roi.representation);
    let layer = |o: usize, i: usize| random(&[o, i], (2.0 / i as f32).sqrt());
    let mut tensors = HashMap::from([
        ("energy_head.fc6.weight".to_owned(), layer(width, inputs)),
        ("energy_head.fc6.bias".to_owned(), random(&[width], 0.1)),
        ("energy_head.fc7.weight".to_owned(), layer(width, width)),
        ("energy_head.fc7.bias".to_owned(), random(&[width], 0.1)),
        ("energy_predictor.weight".to_owned(), layer(CLASSES, width)),
        ("energy_predictor.bias".to_owned(), random(&[CLASSES], 0.1)),
    ]);
    let parameters = VarBuilder::from_tensors(tensors.clone(), DType::F32, &device);
    let head = EnergyHead::new(&config, parameters).unwrap().in_precision(precision);
    let pyramid: Vec<Tensor> = [4, 8, 16, 32, 64]
        .map(|stride: usize| random(&[1, CHANNELS, IMAGE.0.div_ceil(stride), IMAGE.1.div_ceil(stride)], 1.0))
        .to_vec();
    let (boxes, labels) = boxes(count);
    let features =
        BoxFeatures::new(&pyramid, vec![0; count], labels.clone(), &boxes, BoxConvention::HalfOpen).unwrap();
    let layers = ["fc6", "fc7"].map(|name| {
        let part = |part: &str| &tensors[&format!("energy_head.{name}.{part}")];
        PackedLinear::with_inputs(part("weight"), Some(part("bias")), precision, |i| i).unwrap()
    });
    tensors.extend(pyramid.into_iter().enumerate().map(|(i, level)| (format!("p{}", i + 2), level)));
    let corners = Tensor::from_slice(boxes.as_flattened(), (count, 4), &device).unwrap();
    tensors.insert("boxes".to_owned(), corners);
    tensors.insert("labels".to_owned(), Tensor::new(labels, &device).unwrap());
    candle_core::safetensors::save(&tensors, path).unwrap();
    Case {
        head,
        y0: features.targets().unwrap(),
        features,
        layers,
        pooled: random(&[count * inputs], 1.0).to_vec1().unwrap(),
        workspace: Workspace::new(),
    }
}

/// The fully-connected layers of `steps` steps: forward and backward in each, and forward once more.
fn heads(case: &Case, steps: usize) {
    let [fc6, fc7] = &case.layers;
    let workspace = &case.workspace;
    for step in 0..=steps {
        let hidden = fc6.forward(&case.pooled, true, workspace).unwrap();
        let output = fc7.forward(&hidden, true, workspace).unwrap();
        if step < steps {
            let inner = fc7.input_gradient(&output, Some(&output), workspace).unwrap();
            workspace.give(fc6.input_gradient(&inner, Some(&hidden), workspace).unwrap());
            workspace.give(inner);
        }
        workspace.give(hidden);
        workspace.give(output);
    }
}

fn refined(case: &Case, steps: usize) -> Tensor {
    let ascent = GradientAscent {
        steps,
        step_length: STEP_LENGTH.to_vec(),
        decay: DECAY,
        rule: StepRule::Backtracking,
    };
    refine(&case.head, &case.features, &case.y0, &ascent).unwrap().y
}

fn measure(case: &Case, request: &str) -> f64 {
    let words: Vec<&str> = request.split_whitespace().collect();
    let start = Instant::now();
    match *words {
        ["refine", steps] => drop(refined(case, steps.parse().unwrap())),
        ["refine", steps, path] => {
            let y = HashMap::from([("y".to_owned(), refined(case, steps.parse().unwrap()))]);
            candle_core::safetensors::save(&y, path).unwrap();
        }
        ["heads", steps] => heads(case, steps.parse().unwrap()),
        ["evaluate"] => drop(case.head.score_and_grad(&case.features, &case.y0).unwrap()),
        ["score"] => drop(case.head.score(&case.features, &case.y0).unwrap()),
        _ => panic!("unknown request {request}"),
    }
    start.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let mut case = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["setup", count, path, precision @ ..] = &words[..] {
            let precision = precision.first().map_or(Precision::Full, |name| name.parse().unwrap());
            case = Some(setup(count.parse().unwrap(), path, precision));
            println!("ready");
        } else if let Some(case) = &case {
            println!("{}", measure(case, &line));
        } else {
            panic!("setup comes first");
        }
        std::io::stdout().flush().unwrap();
    }
}
