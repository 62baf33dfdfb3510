//! Times the refinement of boxes by the box module. One line per request on standard input, so that
//! `box_refinement.py` can alternate with the same in torch in one run:
//!
//! ```text
//! cargo bench -p ebm-track --bench box_refinement --no-run     (prints the path of the binary)
//! python crates/ebm-track/benches/box_refinement.py BINARY     (torch, safetensors; 2 threads each)
//! ```
//!
//! Requests: `setup BOXES FILE`, which writes the parameters, the maps and the boxes to FILE;
//! `refine STEPS FILE`, which also writes the refined y; `refine STEPS`, `test` (the test branch on a crop's
//! features) and `evaluate` (f and its gradient once), whose answers are milliseconds. The number of threads
//! is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, GradientAscent, StepRule, refine};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_track::BackboneFeatures;
use ebm_track::box_module::{BoxModule, BoxModuleConfig, BoxNetwork, Modulation, TargetFeatures};
use rand::Rng;

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Of the crop, in pixels.
const SIDE: usize = 288;
/// λ; `box_refinement.py` has the same.
const STEP_LENGTH: [f64; 4] = [2e-4, 2e-4, 1e-3, 1e-3];

struct Case {
    module: BoxModule,
    test: BackboneFeatures,
    modulation: Modulation,
    features: TargetFeatures,
    y0: Tensor,
}

fn setup(count: usize, path: &str) -> Case {
    let device = Device::Cpu;
    let mut rng = Key::new(1).rng();
    let store = ParamStore::new(Key::new(2));
    let config = BoxModuleConfig::atom([128, 256]);
    store.freeze(|_| true);
    let module = BoxModule::new(&config, store.var_builder(DType::F32, &device)).unwrap();
    let mut map = |channels: usize, stride: usize| {
        let side = SIDE / stride;
        let values: Vec<f32> = (0..channels * side * side).map(|_| rng.random::<f32>()).collect();
        Tensor::from_vec(values, (1, channels, side, side), &device).unwrap()
    };
    let test = BackboneFeatures { layer2: map(128, 8), layer3: map(256, 16) };
    let reference = BackboneFeatures { layer2: map(128, 8), layer3: map(256, 16) };
    let target = Tensor::new(&[[115.0f32, 115.0, 58.0, 58.0]], &device).unwrap();
    let modulation = module.modulation(&reference, &target).unwrap();
    let maps = module.test_features(&test, &modulation).unwrap();
    // As the tracker draws them: the first as it is, the others with other places and sizes.
    let boxes: Vec<f32> = (0..count)
        .flat_map(|i| {
            let scale = if i == 0 { 0.0 } else { 58.0f32 };
            let mut noise = |half: f32| scale * rng.random_range(-half..half);
            let (w, h) = (58.0 + noise(0.25), 58.0 + noise(0.25));
            [144.0 + noise(0.05) - w / 2.0, 144.0 + noise(0.05) - h / 2.0, w, h]
        })
        .collect();
    let boxes = Tensor::from_vec(boxes, (1, count, 4), &device).unwrap();
    let features = TargetFeatures::new(maps, &boxes.get(0).unwrap().narrow(0, 0, 1).unwrap()).unwrap();
    let mut tensors: HashMap<String, Tensor> = store.tensors().unwrap().into_iter().collect();
    let [third, fourth] = features.test().maps().each_ref().map(|map| map.contiguous().unwrap());
    let [vector3, vector4] = modulation.vectors().clone();
    for (name, tensor) in [
        ("map3", third),
        ("map4", fourth),
        ("vector3", vector3),
        ("vector4", vector4),
        ("layer2", test.layer2.clone()),
        ("layer3", test.layer3.clone()),
        ("boxes", boxes.clone()),
    ] {
        tensors.insert(name.to_owned(), tensor);
    }
    candle_core::safetensors::save(&tensors, path).unwrap();
    Case { y0: features.encode(&boxes).unwrap(), module, test, modulation, features }
}

fn refined(case: &Case, steps: usize) -> Tensor {
    let ascent =
        GradientAscent { steps, step_length: STEP_LENGTH.to_vec(), decay: 1.0, rule: StepRule::Plain };
    refine(&case.module, &case.features, &case.y0, &ascent).unwrap().y
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
        ["test"] => drop(case.module.test_features(&case.test, &case.modulation).unwrap()),
        ["evaluate"] => drop(case.module.score_and_grad(&case.features, &case.y0).unwrap()),
        _ => panic!("unknown request {request}"),
    }
    start.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let mut case = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if let Some((count, path)) = line.strip_prefix("setup ").and_then(|rest| rest.split_once(' ')) {
            case = Some(setup(count.parse().unwrap(), path));
            println!("ready");
        } else if let Some(case) = &case {
            println!("{}", measure(case, &line));
        } else {
            panic!("setup comes first");
        }
        std::io::stdout().flush().unwrap();
    }
}
