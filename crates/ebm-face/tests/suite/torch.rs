//! Losses, gradients and training steps of every head, and of a small network end to end, against PyTorch.

use std::collections::BTreeMap;

use crate::common::{CPU, OneBatch, config, network, train};
use crate::tensors::{golden, golden_path, to_vec};
use candle_core::{DType, Tensor, Var};
use ebm_base::Key;
use ebm_core::parametric::{Baseline, Parametric};
use ebm_core::{GaussianMixture, MonteCarloNll, Objective, Proposal};
use ebm_face::config::TrainingConfig;
use ebm_face::network::{Head, Network};
use ebm_face::training::FaceTask;
use ebm_face::{BackboneConfig, BaselineHead, EnergyHead, EnergyHeadConfig, ResNetBackboneConfig};
use ebm_nn::import::{LoadPolicy, metadata};
use ebm_nn::params::ParamStore;
use rand::RngCore;
use serde_json::Value;

/// What golden/training.py wrote of one case.
struct Case {
    name: String,
    tensors: BTreeMap<String, Tensor>,
}

impl Case {
    fn tensor(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }

    /// The tensors below a prefix.
    fn below(&self, prefix: &str) -> BTreeMap<String, Tensor> {
        let named = self.tensors.iter();
        named.filter_map(|(name, t)| Some((name.strip_prefix(prefix)?.to_owned(), t.clone()))).collect()
    }

    /// `found` is the golden tensor `name`, relative to its largest number.
    #[track_caller]
    fn assert_close(&self, found: &Tensor, name: &str, bound: f64) {
        let expected = self.tensor(name);
        assert_eq!(found.dims(), expected.dims(), "{} {name}", self.name);
        let (found, expected) = (to_vec(found), to_vec(expected));
        let largest = expected.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        for (a, b) in found.iter().zip(&expected) {
            let difference = (a - b).abs();
            // Where all are 0, as for a bias that every f of a point shares, sums cancel up to rounding.
            let bound = bound * largest.max(1e-3);
            assert!(difference <= bound, "{} {name}: {a} is not {b}", self.name);
        }
    }
}

fn case(name: &str) -> Case {
    let all = Case { name: name.to_owned(), tensors: golden("training") };
    Case { tensors: all.below(&format!("{name}/")), ..all }
}

/// The cases of heads, with their settings.
fn heads() -> Vec<(Case, Value)> {
    let settings = metadata(&golden_path("training.safetensors")).unwrap();
    let heads: Vec<_> =
        settings.iter().map(|(name, text)| (case(name), serde_json::from_str(text).unwrap())).collect();
    assert_eq!(heads.len(), 13);
    heads
}

/// Samples of Eq. 4 that are given, with the densities of the paper's q.
struct Given {
    samples: Tensor,
    q: GaussianMixture,
}

impl Proposal for Given {
    fn sample(&self, _: &Tensor, _: usize, _: &mut dyn RngCore) -> ebm_core::Result<Tensor> {
        Ok(self.samples.clone())
    }

    fn log_prob(&self, y: &Tensor, center: &Tensor) -> ebm_core::Result<Tensor> {
        self.q.log_prob(y, center)
    }
}

/// The loss of the head that `settings` describe, built in `store` with the golden parameters.
fn loss(case: &Case, settings: &Value, store: &ParamStore, g_x: &Tensor) -> Tensor {
    let vb = store.var_builder(DType::F64, &CPU);
    let y = case.tensor("y");
    if settings["kind"] != "energy" {
        let baseline: Baseline = serde_json::from_value(settings.clone()).unwrap();
        let head = BaselineHead::new(&baseline, 5, 6, vb).unwrap();
        return baseline.loss(&head.forward(g_x).unwrap(), y).unwrap();
    }
    let dim = y.dim(1).unwrap();
    let head = EnergyHead::new(&EnergyHeadConfig { dim, y_layers: vec![7, 8], hidden: 6 }, 5, vb).unwrap();
    let sigmas: Vec<f64> = serde_json::from_value(settings["sigmas"].clone()).unwrap();
    let q = GaussianMixture::isotropic(&sigmas, dim).unwrap();
    let proposal = Given { samples: case.tensor("samples").clone(), q };
    let objective = MonteCarloNll { proposal, num_samples: 16 };
    objective.loss(&head, &head.features(g_x).unwrap(), y, &mut Key::new(0).rng()).unwrap()
}

#[test]
fn every_head_has_torchs_loss_and_gradients() {
    for (case, settings) in heads() {
        let store = ParamStore::new(Key::new(1));
        store.preload(case.below("initial/"));
        let g_x = Var::from_tensor(case.tensor("g_x")).unwrap();
        let loss = loss(&case, &settings, &store, &g_x);
        assert!(store.preload_report().is_exact(), "{}: {}", case.name, store.preload_report());
        case.assert_close(&loss.reshape(1).unwrap(), "loss", 1e-13);
        let gradients = loss.backward().unwrap();
        case.assert_close(gradients.get(&g_x).unwrap(), "gradient/g_x", 1e-12);
        for (name, var) in store.trainable() {
            case.assert_close(gradients.get(&var).unwrap(), &format!("gradient/{name}"), 1e-12);
        }
    }
}

#[test]
fn training_takes_torchs_steps() {
    // Weight decay in the gradient, and a milestone after three epochs of one batch.
    let training = TrainingConfig {
        epochs: 5.0,
        batch_size: 4,
        learning_rate: 0.01,
        weight_decay: 0.001,
        milestones: vec![3.0],
        trunk_rate: 1.0,
    };
    for (case, settings) in heads() {
        if settings["kind"] == "energy" {
            continue;
        }
        let mut config = config();
        config.head.hidden = 6;
        config.methods[0].baseline = serde_json::from_value(settings).unwrap();
        let store = ParamStore::new(Key::new(1));
        store.preload(case.below("initial/").into_iter().map(|(k, t)| (format!("head.{k}"), t)).collect());
        let head = Head::of(&config, &config.methods[0].key, 5, &store, &CPU).unwrap();
        let single = |name: &str| case.tensor(name).to_dtype(DType::F32).unwrap();
        let source = OneBatch { x: single("g_x"), y: single("y") };
        let network = Network::new(&config, None, head).unwrap();
        let mut task = FaceTask::new(network, store.clone(), source, &training, Key::new(2));
        let losses = Tensor::new(train(&mut task, 5), &CPU).unwrap();
        case.assert_close(&losses, "losses", 1e-5);
        for (name, var) in store.trainable() {
            let name = name.strip_prefix("head.").unwrap();
            case.assert_close(var.as_tensor(), &format!("after/{name}"), 1e-4);
        }
    }
}

#[test]
fn a_network_end_to_end_has_torchs_gradients_and_statistics() {
    let case = case("end_to_end");
    let mut config = config();
    let form = ResNetBackboneConfig { layers: [1, 1, 1, 1], width: 2 };
    config.trunk = BackboneConfig::Resnet(form);
    config.head.hidden = 6;
    let (network, store) = network(&config, "direct_l2", 1);
    // The running statistics, which the file does not have, are those of every new network.
    let loaded = store.load(&case.below("initial/"), LoadPolicy::Lenient).unwrap();
    assert!(loaded.unexpected.is_empty() && loaded.mismatched.is_empty(), "{loaded}");
    let (x, y) = (case.tensor("images").clone(), case.tensor("y").to_dtype(DType::F32).unwrap());
    let loss = network.loss(&x, &y, true, &mut Key::new(0).rng()).unwrap();
    case.assert_close(&loss.reshape(1).unwrap(), "loss", 1e-5);
    let gradients = loss.backward().unwrap();
    let trainable = store.trainable();
    assert_eq!(trainable.len(), case.below("gradient/").len());
    for (name, var) in trainable {
        case.assert_close(gradients.get(&var).unwrap(), &format!("gradient/{name}"), 1e-3);
    }
    for name in case.below("after/").keys() {
        case.assert_close(store.var(name).unwrap().as_tensor(), &format!("after/{name}"), 1e-4);
    }
}
