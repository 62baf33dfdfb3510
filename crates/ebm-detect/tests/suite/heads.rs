//! The loss of every head of Table 2 and its gradient in every parameter against torch, with parameters and
//! features that are formulas of name and position. `golden/make_heads.py` made `heads.safetensors` from the
//! same formulas and from `heads_noise.safetensors`, which holds what our generator draws; this test writes
//! it where EBM_WRITE_NOISE says.

use std::{collections::BTreeMap, path::Path, rc::Rc};

use candle_core::{DType, Device, Tensor, backprop::GradStore};
use ebm_base::Key;
use ebm_core::{AnyObjective, MonteCarloNll, Proposal, QualityRegression, parametric::ConditionalVae};
use ebm_detect::{
    BoxFeatures, Branch, CachedBatch, FasterRcnn, Foreground, ImageBatch,
    config::{ExperimentConfig, MethodConfig, Settings},
    training::{BatchSource, BranchTask},
};
use ebm_nn::{
    import::{LoadPolicy, save_safetensors},
    params::ParamStore,
};
use ebm_ops::boxes::{BBox, BoxConvention};
use ebm_train::TrainTask;

use crate::formula::hashed;
use crate::tensors::{difference, golden, largest};

const BOXES: [BBox; 3] = [[5., 8., 120., 90.], [20., 30., 40., 52.], [11., 70., 90., 140.]];
const IMAGES: [u32; 3] = [0, 1, 1];
const LABELS: [u32; 3] = [2, 1, 5];
const SAMPLES: usize = 7;
/// Number of proposals of objects, and size of the sample that they belong to.
const PROPOSALS: (usize, usize) = (5, 12);
const CONFIDENCES: [&str; 3] = ["iou_net", "iou_net_star", "ebm"];

fn config() -> ExperimentConfig {
    let samples =
        CONFIDENCES.map(|key| format!("methods.{key}.confidence.objective.num_samples = {SAMPLES}"));
    let text = format!("extends = 'mini'\n{}", samples.join("\n"));
    let mut config = ExperimentConfig::parse("heads", &text).unwrap();
    (config.detector.backbone.fpn_channels, config.detector.roi.representation) = (4, 16);
    for training in config.trainings_mut() {
        training.gradient_clip = 0.0;
    }
    config
}

/// Uniform in ±`bound`.
fn values(name: &str, shape: &[usize], bound: f64) -> Tensor {
    let count = shape.iter().product();
    let values = (0..count).map(|i| (bound * (2.0 * hashed(name, i) - 1.0)) as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Weights large enough for every class and coordinate to matter.
fn fill(store: &ParamStore) {
    let named = store.tensors().unwrap().into_iter().map(|(name, tensor)| {
        let bound = if name.ends_with("bias") { 0.1 } else { 0.5 };
        let value = values(&name, tensor.dims(), bound);
        (name, value)
    });
    store.load(&named.collect(), LoadPolicy::Strict).unwrap();
}

fn key(method: &str) -> Key {
    Key::new(11).split(method)
}

fn pyramid() -> Vec<Tensor> {
    let level = |(i, side): (usize, usize)| values(&format!("p{i}"), &[2, 4, side, side], 1.0);
    (2..).zip([40, 20, 10, 5, 3]).map(level).collect()
}

/// Draws random numbers with this project's generator: boxes for the confidences, z for the cVAE.
fn noise() -> BTreeMap<String, Tensor> {
    let features =
        BoxFeatures::new(&pyramid(), IMAGES.to_vec(), LABELS.to_vec(), &BOXES, BoxConvention::HalfOpen);
    let y = features.unwrap().targets().unwrap().squeeze(1).unwrap();
    let mut noise = BTreeMap::new();
    for method in CONFIDENCES {
        let objective = config().method(method).unwrap().confidence.clone().unwrap().objective;
        let (AnyObjective::MlIs(MonteCarloNll { proposal, .. })
        | AnyObjective::Quality(QualityRegression { proposal, .. })) =
            objective.build(&mut key(method).split("pool").rng()).unwrap()
        else {
            unreachable!("Table 2 has no other")
        };
        let mut rng = key(method).split("proposal").index(0).rng();
        noise.insert(method.to_owned(), proposal.sample(&y, SAMPLES, &mut rng).unwrap());
    }
    let model = ConditionalVae::new(4, ConditionalVae::LATENT_DIM, ConditionalVae::NUM_SAMPLES).unwrap();
    let standard = Tensor::zeros((PROPOSALS.0, 2 * model.latent_dim()), DType::F32, &Device::Cpu).unwrap();
    let z = model.sample_latents(&standard, &mut key("cvae").split("latent").rng()).unwrap();
    noise.insert("cvae".to_owned(), z);
    noise
}

/// Source of the same batch in every step.
struct Always;

impl BatchSource for Always {
    fn batch(&mut self, _: usize) -> ebm_detect::Result<CachedBatch> {
        let of_image = |image: u32| {
            let own = (0..BOXES.len()).filter(|&i| IMAGES[i] == image);
            own.map(|i| (BOXES[i], LABELS[i] as usize)).collect()
        };
        let pixels = Tensor::zeros((2, 3, 160, 160), DType::F32, &Device::Cpu)?;
        Ok(CachedBatch {
            maps: pyramid(),
            images: ImageBatch { pixels, sizes: vec![(160, 160); 2] },
            objects: vec![of_image(0), of_image(1)],
        })
    }
}

/// Returns the loss and the gradients of a method's head.
fn step(method: &MethodConfig) -> (f64, ParamStore, GradStore) {
    let (config, device, key) = (config(), Device::Cpu, key(&method.key));
    let density = method.density.as_ref();
    let (branch, store) =
        Branch::new(density, &config.detector, &BTreeMap::new(), &device, Key::new(0)).unwrap();
    fill(&store);
    if let Branch::Density(head) = &branch {
        let (rows, sample_size) = PROPOSALS;
        let sample = Foreground {
            hidden: values("hidden", &[rows, 16], 1.0),
            labels: vec![1, 6, 3, 3, 2],
            targets: values("targets", &[rows, 4], 2.0),
            sample_size,
        };
        let loss = head.loss(&sample, &mut key.split("latent").rng()).unwrap();
        return (f64::from(loss.to_scalar::<f32>().unwrap()), store, loss.backward().unwrap());
    }
    let frozen = ParamStore::new(Key::new(0));
    frozen.freeze(|_| true);
    let detector = FasterRcnn::new(&config.detector, frozen.var_builder(DType::F32, &device)).unwrap();
    let source = Box::new(Always);
    let training = config.training(method).unwrap();
    let mut task =
        BranchTask::new(Rc::new(detector), branch, store.clone(), source, method, &training, key).unwrap();
    let (report, gradients) = task.step(0).unwrap();
    (report.loss, store, gradients.gradients)
}

#[test]
fn the_draws_are_those_that_the_golden_values_were_made_from() {
    if let Ok(path) = std::env::var("EBM_WRITE_NOISE") {
        save_safetensors(Path::new(&path), &noise()).unwrap();
    }
    let stored = golden("heads_noise");
    for (name, drawn) in noise() {
        assert!(difference(&drawn, &stored[&name]) < 1e-6, "{name}");
    }
}

#[test]
fn losses_and_gradients_are_torchs() {
    let golden = golden("heads");
    for method in config().methods.iter().filter(|method| method.is_trained()) {
        let (loss, store, gradients) = step(method);
        let method = &method.key;
        let expected = f64::from(golden[&format!("{method}/loss")].to_vec1::<f32>().unwrap()[0]);
        assert!((loss - expected).abs() < 1e-4 * expected.abs().max(1.0), "{method}: {loss}, {expected}");
        let trainable = store.trainable();
        assert!(!trainable.is_empty());
        for (name, var) in trainable {
            let expected = &golden[&format!("{method}/{name}")];
            let largest = largest(expected);
            assert!(largest > 0.0, "{method} {name}: the golden gradient vanishes");
            let apart = difference(gradients.get(&var).unwrap(), expected);
            assert!(apart < 2e-4 * largest.max(0.01), "{method} {name}: {apart} of {largest}");
        }
    }
}
