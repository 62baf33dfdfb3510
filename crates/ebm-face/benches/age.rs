//! Times age estimation. One line per request on standard input, so that `age.py` can alternate with torch in
//! one run:
//!
//! ```text
//! cargo bench -p ebm-face --bench age --no-run     (prints the path of the binary)
//! python crates/ebm-face/benches/age.py BINARY     (torch; 2 threads each)
//! ```
//!
//! `setup B` makes B images of 200 × 200; then
//!
//! - `direct`: ResNet-50, pooling and the head of direct regression;
//! - `refined`: the same, then the estimate refined by Algorithm S2 with T = 5, f and g_x from the same ResNet-50; the
//!   thresholds are such that no step is saved;
//! - `features`, `refine`: W_x g_x and Algorithm S2 alone;
//! - `train B M`: a training step of the energy head, forward and backward to g_x and all its parameters;
//! - `step KEY B M`: a training step of the whole network at paper scale, the optimiser's update included; KEY is a baseline's or `ebm`.
//!
//! The answer is milliseconds. The number of threads is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::parametric::{Baseline, Direct, DirectLoss, Parametric};
use ebm_core::{EnergyModel, GradientAscent, StepRule, refine};
use ebm_face::config::{ExperimentConfig, Settings};
use ebm_face::network::{ENERGY, Head, Network, TRUNK};
use ebm_face::{
    Backbone, BaselineHead, EnergyHead, EnergyHeadConfig, ResNetBackbone, ResNetBackboneConfig, ResNetNorm,
};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::Updater;

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FEATURES: usize = 2048;

struct Networks {
    trunk: ResNetBackbone,
    direct: BaselineHead,
    baseline: Baseline,
    energy: EnergyHead,
    constant: EnergyHead,
    ascent: GradientAscent,
}

impl Networks {
    fn new() -> Self {
        let store = ParamStore::new(Key::new(1));
        let vb = |name: &str| store.var_builder(DType::F32, &Device::Cpu).pp(name);
        drop(ResNetBackbone::new(&ResNetBackboneConfig::resnet50(ResNetNorm::Train), vb("trunk")).unwrap());
        let baseline = Baseline::Direct(Direct::new(1, DirectLoss::L2).unwrap());
        let energy = EnergyHead::new(&EnergyHeadConfig::paper(1), FEATURES, vb("energy")).unwrap();
        let rule = StepRule::EarlyStopping {
            change_threshold: 0.0,
            degeneration_tolerance: -1e30,
            keep_best: false,
        };
        drop(BaselineHead::new(&baseline, FEATURES, FEATURES, vb("direct")).unwrap());
        // Prediction happens outside any graph.
        let constants = store.constants().unwrap();
        let vb = |name: &str| constants.var_builder(DType::F32, &Device::Cpu).pp(name);
        Self {
            trunk: ResNetBackbone::new(&ResNetBackboneConfig::resnet50(ResNetNorm::Train), vb("trunk"))
                .unwrap(),
            direct: BaselineHead::new(&baseline, FEATURES, FEATURES, vb("direct")).unwrap(),
            baseline,
            constant: EnergyHead::new(&EnergyHeadConfig::paper(1), FEATURES, vb("energy")).unwrap(),
            energy,
            ascent: GradientAscent { steps: 5, step_length: vec![3.0], decay: 1.0, rule },
        }
    }

    /// g_x and the estimate.
    fn direct(&self, images: &Tensor) -> (Tensor, Tensor) {
        let g_x = self.trunk.features(images, false).unwrap();
        let outputs = self.direct.forward(&g_x).unwrap();
        let estimate = self.baseline.predict(&outputs).unwrap();
        (g_x, estimate)
    }

    fn climb(&self, features: &Tensor, estimate: &Tensor) -> f32 {
        let refined =
            refine(&self.constant, features, &estimate.unsqueeze(1).unwrap(), &self.ascent).unwrap();
        assert!(refined.outcome.evaluations == 6);
        refined.y.flatten_all().unwrap().to_vec1::<f32>().unwrap()[0]
    }
}

fn milliseconds<R>(f: impl FnOnce() -> R) -> f64 {
    let start = Instant::now();
    let result = f();
    let elapsed = start.elapsed();
    drop(result);
    elapsed.as_secs_f64() * 1e3
}

fn train(networks: &Networks, batch: usize, count: usize) -> f64 {
    let g_x = Var::randn(0f32, 1.0, (batch, FEATURES), &Device::Cpu).unwrap();
    let y = Tensor::randn(35f32, 10.0, (batch, count, 1), &Device::Cpu).unwrap();
    let slopes = Tensor::randn(0f32, 1e-3, (batch, count), &Device::Cpu).unwrap();
    milliseconds(|| {
        let features = networks.energy.features(&g_x).unwrap();
        let f = networks.energy.score(&features, &y).unwrap();
        let gradients = (f * &slopes).unwrap().sum_all().unwrap().backward().unwrap();
        assert!(gradients.get(&g_x).is_some());
        gradients
    })
}

/// A whole network in training.
struct Whole {
    network: Network,
    updater: Updater,
    step: usize,
}

impl Whole {
    fn new(key: &str, count: usize) -> Self {
        let text = format!("extends = 'age_paper'\nenergy.objective.num_samples = {count}");
        let config = ExperimentConfig::parse("age", &text).unwrap();
        let store = ParamStore::new(Key::new(2));
        let trunk = config.trunk.build(&store, TRUNK, DType::F32, &Device::Cpu).unwrap();
        let head = if key == ENERGY {
            Head::energy(&config, FEATURES, &store, &Device::Cpu).unwrap()
        } else {
            Head::baseline(&config, config.method(key).unwrap(), FEATURES, &store, &Device::Cpu).unwrap()
        };
        let updater = config.training.updater(store.trainable(), 1);
        Self { network: Network { trunk: Some(trunk), head }, updater, step: 0 }
    }

    fn step(&mut self, batch: usize) -> f64 {
        let images = Tensor::randn(0f32, 1.0, (batch, 3, 200, 200), &Device::Cpu).unwrap();
        let y = Tensor::randn(35f32, 10.0, (batch, 1), &Device::Cpu).unwrap();
        self.step += 1;
        milliseconds(|| {
            let mut rng = Key::new(3).index(self.step as u64).rng();
            let loss = self.network.loss(&images, &y, &mut rng).unwrap();
            let (_, gradients) = self.updater.gradients(loss, self.step).unwrap();
            self.updater.apply(self.step, &gradients).unwrap();
            gradients
        })
    }
}

fn main() {
    let networks = Networks::new();
    let mut whole: BTreeMap<String, Whole> = BTreeMap::new();
    let mut images = Tensor::zeros((1, 3, 200, 200), DType::F32, &Device::Cpu).unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<usize>().unwrap();
        match words[0] {
            "setup" => {
                images = Tensor::randn(0f32, 1.0, (number(1), 3, 200, 200), &Device::Cpu).unwrap();
                println!("ready");
            }
            "direct" => println!("{}", milliseconds(|| networks.direct(&images))),
            "refined" => {
                let elapsed = milliseconds(|| {
                    let (g_x, estimate) = networks.direct(&images);
                    networks.climb(&networks.constant.features(&g_x).unwrap(), &estimate)
                });
                println!("{elapsed}");
            }
            "features" => {
                let (g_x, _) = networks.direct(&images);
                println!("{}", milliseconds(|| networks.constant.features(&g_x).unwrap()));
            }
            "refine" => {
                let (g_x, estimate) = networks.direct(&images);
                let features = networks.constant.features(&g_x).unwrap();
                println!("{}", milliseconds(|| networks.climb(&features, &estimate)));
            }
            "step" => {
                let whole =
                    whole.entry(words[1].to_owned()).or_insert_with(|| Whole::new(words[1], number(3)));
                println!("{}", whole.step(number(2)));
            }
            "train" => println!("{}", train(&networks, number(1), number(2))),
            other => panic!("unknown request {other}"),
        }
        std::io::stdout().flush().unwrap();
    }
}
