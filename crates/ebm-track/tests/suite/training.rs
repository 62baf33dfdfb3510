//! Training of the box module on made-up features, with all three methods.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::AnyObjective;
use ebm_nn::params::ParamStore;
use ebm_track::box_module::{BoxModule, BoxModuleConfig};
use ebm_track::config::{ExperimentConfig, Settings};
use ebm_track::training::{BoxModuleTask, BoxTraining, PairFeatures, PairSource};
use ebm_track::{BackboneFeatures, Result};
use ebm_train::{GradientTask, TrainTask};
use rand::Rng;

const CPU: Device = Device::Cpu;
/// Of a crop, in pixels.
const SIDE: usize = 64;
const BATCH: usize = 8;

/// Maps whose first channel shows where the box is, and whose second is noise.
struct Source(Key);

impl Source {
    fn crop(&self, boxes: &[[f32; 4]], stride: usize, rng: &mut impl Rng) -> Tensor {
        let side = SIDE / stride;
        let mut values = Vec::new();
        for [x, y, w, h] in boxes {
            let within = |at: usize, low: f32, size: f32| {
                let center = (at * stride) as f32;
                (low..low + size).contains(&center)
            };
            for i in 0..side * side {
                values.push(f32::from(u8::from(within(i % side, *x, *w) && within(i / side, *y, *h))));
            }
            values.extend((0..side * side).map(|_| rng.random_range(0.0f32..0.3)));
        }
        Tensor::from_vec(values, (boxes.len(), 2, side, side), &CPU).unwrap()
    }

    fn frames(&self, rng: &mut impl Rng) -> (BackboneFeatures, Tensor) {
        let boxes: Vec<[f32; 4]> = (0..BATCH)
            .map(|_| {
                let [w, h] = [(); 2].map(|()| rng.random_range(18.0f32..34.0));
                [rng.random_range(2.0..62.0 - w), rng.random_range(2.0..62.0 - h), w, h]
            })
            .collect();
        let features =
            BackboneFeatures { layer2: self.crop(&boxes, 8, rng), layer3: self.crop(&boxes, 16, rng) };
        (features, Tensor::from_slice(boxes.as_flattened(), (BATCH, 4), &CPU).unwrap())
    }
}

impl PairSource for Source {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        let mut rng = self.0.index(step as u64).rng();
        let (reference, reference_boxes) = self.frames(&mut rng);
        let (test, test_boxes) = self.frames(&mut rng);
        Ok(PairFeatures { reference, test, reference_boxes, test_boxes })
    }
}

/// The keys of the methods.
const METHODS: [&str; 3] = ["atom", "atom_star", "ebm"];

fn paper() -> BoxTraining {
    ExperimentConfig::embedded("paper").unwrap().training
}

fn objective(method: &str) -> AnyObjective {
    let text = format!("extends = 'paper'\nmethods.{method}.objective.num_samples = 16");
    ExperimentConfig::parse("few samples", &text).unwrap().method(method).unwrap().objective.clone()
}

fn task(method: &str) -> BoxModuleTask {
    let store = ParamStore::new(Key::new(7));
    let config = BoxModuleConfig::atom([2, 2]).narrowed(32);
    let module = BoxModule::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    task_on(module, store, method)
}

/// A module that is not trained.
fn task_of(module: BoxModule, method: &str) -> BoxModuleTask {
    task_on(module, ParamStore::new(Key::new(7)), method)
}

fn task_on(module: BoxModule, store: ParamStore, method: &str) -> BoxModuleTask {
    let training = BoxTraining { batch_size: BATCH, learning_rate: 3e-3, ..paper() };
    BoxModuleTask::new(
        module,
        store,
        Box::new(Source(Key::new(1))),
        &objective(method),
        &training,
        Key::new(2),
    )
    .unwrap()
}

fn values(tensors: &BTreeMap<String, Tensor>) -> BTreeMap<String, Vec<f32>> {
    let numbers = |t: &Tensor| t.flatten_all().unwrap().to_vec1().unwrap();
    tensors.iter().map(|(name, t)| (name.clone(), numbers(t))).collect()
}

#[test]
fn every_methods_loss_falls() {
    for method in METHODS {
        let mut task = task(method);
        let mut losses = Vec::new();
        for step in 0..40 {
            let (report, update) = task.step(step).unwrap();
            losses.push(report.loss);
            task.apply(step, update).unwrap();
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&losses[..5]), mean(&losses[35..]));
        println!("{method}: {first:.3} to {last:.3}");
        let fell = match method {
            // A likelihood's level means nothing by itself: nats.
            "ebm" => last < first - 0.5,
            _ => last < 0.7 * first,
        };
        assert!(fell, "{method}: {first} to {last}");
        // As in training, frozen.
        let pairs = [Source(Key::new(9)).batch(0).unwrap()];
        let frozen = task.validation_loss(&pairs, Key::new(3)).unwrap();
        assert!(frozen < first, "{method}: {first} to {frozen} frozen");
        let constants = task.store().constants().unwrap().var_builder(DType::F32, &Device::Cpu);
        let constant = task_of(BoxModule::new(task.module().config(), constants).unwrap(), method);
        let packed = constant.validation_loss(&pairs, Key::new(3)).unwrap();
        assert!((packed - frozen).abs() < 1e-4 * (1.0 + frozen.abs()), "{packed} {frozen}");
    }
}

#[test]
fn a_step_changes_nothing_until_it_is_applied() {
    let mut task = task("ebm");
    let before = values(&task.state().unwrap().model);
    let (_, update) = task.step(0).unwrap();
    assert_eq!(values(&task.state().unwrap().model), before);
    task.apply(0, update).unwrap();
    let after = values(&task.state().unwrap().model);
    for (name, value) in &after {
        assert_ne!(value, &before[name], "{name}");
    }
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one() {
    let run = |task: &mut BoxModuleTask, steps: std::ops::Range<usize>| {
        for step in steps {
            let (_, update) = task.step(step).unwrap();
            task.apply(step, update).unwrap();
        }
    };
    let mut whole = task("atom_star");
    run(&mut whole, 0..4);
    let mut first = task("atom_star");
    run(&mut first, 0..2);
    let mut second = task("atom_star");
    second.restore(first.state().unwrap()).unwrap();
    run(&mut second, 2..4);
    assert_eq!(values(&second.state().unwrap().model), values(&whole.state().unwrap().model));
}

#[test]
fn the_rate_falls_by_five_every_fifteen_epochs() {
    let training = paper();
    let schedule = training.schedule();
    assert_eq!(training.steps(), 50_000);
    for (step, rate) in [(0, 1e-3), (14_999, 1e-3), (15_000, 2e-4), (30_000, 4e-5), (49_999, 8e-6)] {
        assert!((schedule.learning_rate(step) / rate - 1.0).abs() < 1e-12, "{step}");
    }
}
