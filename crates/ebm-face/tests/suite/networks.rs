//! The face networks against their published form.

use candle_core::{DType, Tensor, Var};
use ebm_base::Key;
use ebm_core::parametric::{Baseline, Parametric};
use ebm_core::{EnergyModel, GradientAscent, StepRule, refine};
use ebm_face::{
    Backbone, BaselineHead, EnergyHead, EnergyHeadConfig, Error, ResNetBackbone, ResNetBackboneConfig,
};
use ebm_nn::params::ParamStore;

use crate::common::{CPU, noise};
use crate::tensors::{assert_close, largest};

const TINY: ResNetBackboneConfig = ResNetBackboneConfig { layers: [1, 1, 1, 1], width: 4 };

#[test]
fn the_trunk_has_torchvisions_names() {
    let store = ParamStore::new(Key::new(1));
    let config = ResNetBackboneConfig { width: 1, ..ResNetBackboneConfig::resnet50() };
    ResNetBackbone::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    // 53 convolutions, each followed by a normalisation of two parameters and two buffers.
    let names = store.names();
    assert_eq!(names.len(), 53 * 5);
    for name in [
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.downsample.0.weight",
        "layer3.5.bn3.weight",
        "layer4.2.conv3.weight",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
    assert_eq!(ResNetBackboneConfig::resnet50().num_features(), 2048);
}

#[test]
fn features_are_means_of_the_last_map() {
    let store = ParamStore::new(Key::new(2));
    let trunk = ResNetBackbone::new(&TINY, store.var_builder(DType::F32, &CPU)).unwrap();
    let images = noise(&[2, 3, 75, 64], DType::F32, 1);
    // Records statistics, so that there is something to fold.
    let trained = trunk.features(&images, true).unwrap();
    assert_eq!(trained.dims(), [2, TINY.num_features()]);
    let features = trunk.features(&images, false).unwrap();
    assert!(largest(&features) > 1e-3);
    let constants = store.constants().unwrap().var_builder(DType::F32, &CPU);
    let constant = ResNetBackbone::new(&TINY, constants).unwrap();
    assert_close(&constant.features(&images, false).unwrap(), &features, 1e-5);
    let store = ParamStore::new(Key::new(2));
    let config = ResNetBackboneConfig { layers: [1, 1, 0, 1], ..TINY };
    let refused = ResNetBackbone::new(&config, store.var_builder(DType::F32, &CPU));
    assert!(matches!(refused, Err(Error::Config { ref name, .. }) if name == "of the trunk"));
}

/// The published form: [g_x; g_y] for every candidate.
fn concatenated(store: &ParamStore, layers: usize, g_x: &Tensor, y: &Tensor) -> Tensor {
    let linear = |x: &Tensor, name: &str| {
        let var = |part: &str| store.var(&format!("{name}.{part}")).unwrap();
        let weight = var("weight");
        x.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&var("bias")).unwrap()
    };
    let (batch, count, dim) = y.dims3().unwrap();
    let mut g_y = y.reshape((batch * count, dim)).unwrap();
    for layer in 1..=layers {
        g_y = linear(&g_y, &format!("fc{layer}_y")).relu().unwrap();
    }
    let g_x = g_x.unsqueeze(1).unwrap().repeat((1, count, 1)).unwrap().flatten(0, 1).unwrap();
    let joined = Tensor::cat(&[&g_x, &g_y], 1).unwrap();
    let h = linear(&joined, "fc1_xy").relu().unwrap();
    linear(&h, "fc2_xy").reshape((batch, count)).unwrap()
}

#[test]
fn late_fusion_is_the_concatenation() {
    let config = EnergyHeadConfig { dim: 3, y_layers: vec![5, 6], hidden: 300 };
    let store = ParamStore::new(Key::new(3));
    let head = EnergyHead::new(&config, 7, store.var_builder(DType::F64, &CPU)).unwrap();
    assert_eq!(store.var("fc1_xy.weight").unwrap().dims(), [300, 13]);
    let g_x = Var::from_tensor(&noise(&[3, 7], DType::F64, 1)).unwrap();
    let y = Var::from_tensor(&noise(&[3, 90, 3], DType::F64, 2)).unwrap();
    let weights = noise(&[3, 90], DType::F64, 3);
    let gradients = |f: &Tensor| (f * &weights).unwrap().sum_all().unwrap().backward().unwrap();

    let f = head.score(&head.features(&g_x).unwrap(), &y).unwrap();
    let expected = concatenated(&store, 2, &g_x, &y);
    assert_close(&f, &expected, 1e-12);
    let (found, expected) = (gradients(&f), gradients(&expected));
    let parameters = store.trainable();
    assert_eq!(parameters.len(), 8);
    for var in parameters.iter().map(|(_, var)| var).chain([&g_x, &y]) {
        assert!(largest(expected.get(var).unwrap()) > 1e-3);
        assert_close(found.get(var).unwrap(), expected.get(var).unwrap(), 1e-12);
    }
}

/// f by autograd alone.
struct ByAutograd<'a>(&'a EnergyHead);

impl EnergyModel for ByAutograd<'_> {
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.0.score(features, y)
    }
}

#[test]
fn the_gradient_by_hand_is_autograds_and_refinement_climbs() {
    let config = EnergyHeadConfig { dim: 3, y_layers: vec![8, 16], hidden: 64 };
    let store = ParamStore::new(Key::new(4));
    let head = EnergyHead::new(&config, 10, store.var_builder(DType::F64, &CPU)).unwrap();
    let constants = store.constants().unwrap().var_builder(DType::F64, &CPU);
    let constant = EnergyHead::new(&config, 10, constants).unwrap();
    for (batch, count) in [(1, 1), (2, 1), (9, 1), (2, 70)] {
        let g_x = noise(&[batch, 10], DType::F64, 1);
        let y = noise(&[batch, count, 3], DType::F64, 2);
        let features = head.features(&g_x).unwrap().detach();
        assert_close(&constant.features(&g_x).unwrap(), &features, 1e-14);
        let (f, gradient) = ByAutograd(&head).score_and_grad(&features, &y).unwrap();
        assert!(largest(&gradient) > 1e-3);
        for (value, slope) in
            [head.score_and_grad(&features, &y).unwrap(), constant.score_and_grad(&features, &y).unwrap()]
        {
            assert_close(&value, &f, 1e-13);
            assert_close(&slope, &gradient, 1e-13);
        }
        // Algorithm S2, with the paper's thresholds.
        let rule = StepRule::EarlyStopping {
            change_threshold: 1e-3,
            degeneration_tolerance: -1e-2,
            keep_best: false,
        };
        let ascent = GradientAscent { steps: 5, step_length: vec![0.1], decay: 1.0, rule };
        let refined = refine(&constant, &features, &y, &ascent).unwrap();
        let by_autograd = refine(&ByAutograd(&head), &features, &y, &ascent).unwrap();
        assert_close(&refined.y, &by_autograd.y, 1e-12);
        assert!(largest(&(&refined.y - &y).unwrap()) > 1e-4);
    }
}

#[test]
fn initial_values_are_torchs() {
    let store = ParamStore::new(Key::new(5));
    EnergyHead::new(&EnergyHeadConfig::paper(1), 2048, store.var_builder(DType::F32, &CPU)).unwrap();
    // U(±1/√fan_in) for weights and biases.
    for (name, fan_in) in [("fc1_y", 1.0), ("fc1_xy", 2176.0), ("fc2_xy", 2048.0f64)] {
        let weight = largest(&store.var(&format!("{name}.weight")).unwrap());
        let bound = 1.0 / fan_in.sqrt();
        assert!(weight <= bound * 1.000_001 && weight > 0.8 * bound, "{name}: {weight}");
        assert!(largest(&store.var(&format!("{name}.bias")).unwrap()) <= bound * 1.000_001);
    }
}

fn baseline(settings: &str) -> Baseline {
    serde_json::from_str(settings).unwrap()
}

#[test]
fn every_baseline_gets_its_outputs_and_every_parameter_its_gradient() {
    let ranks = r#"{"uniform": {"first": 0.0, "step": 1.0, "count": 6}}"#;
    for (settings, parameters) in [
        (r#"{"kind": "direct", "dim": 3, "loss": "l2"}"#.to_owned(), 4),
        (r#"{"kind": "gaussian", "dim": 3}"#.to_owned(), 8),
        (r#"{"kind": "laplace", "dim": 1}"#.to_owned(), 8),
        (r#"{"kind": "joint_laplace", "dim": 3}"#.to_owned(), 8),
        (
            format!(
                r#"{{"kind": "softmax", "dim": 3, "l2_weight": 0.1, "variance_weight": 0.05, "bins": {ranks}}}"#
            ),
            12,
        ),
        (format!(r#"{{"kind": "ordinal", "head": "niu", "ranks": {ranks}}}"#), 4),
        (format!(r#"{{"kind": "ordinal", "head": "coral", "ranks": {ranks}}}"#), 4),
        (r#"{"kind": "mixture_of_gaussians", "dim": 2, "components": 2}"#.to_owned(), 4),
    ] {
        let baseline = baseline(&settings);
        let store = ParamStore::new(Key::new(6));
        let head = BaselineHead::new(&baseline, 7, 12, store.var_builder(DType::F64, &CPU)).unwrap();
        let g_x = noise(&[4, 7], DType::F64, 1);
        let outputs = head.forward(&g_x).unwrap();
        assert_eq!(outputs.dims(), [4, baseline.num_outputs()], "{settings}");
        let y = noise(&[4, baseline.dim()], DType::F64, 2);
        let gradients = baseline.loss(&outputs, &y).unwrap().backward().unwrap();
        assert_eq!(store.trainable().len(), parameters, "{settings}");
        for (name, var) in store.trainable() {
            let gradient = gradients.get(&var).unwrap_or_else(|| unreachable!("{settings}: {name}"));
            assert!(largest(gradient) > 1e-6, "{settings}: {name}");
        }
        assert_eq!(baseline.predict(&outputs).unwrap().dims(), [4, baseline.dim()]);
    }
    let store = ParamStore::new(Key::new(6));
    let refused = baseline(r#"{"kind": "conditional_vae", "dim": 1}"#);
    let refused = BaselineHead::new(&refused, 7, 12, store.var_builder(DType::F64, &CPU));
    assert!(matches!(refused, Err(Error::Config { .. })));
}

#[test]
fn side_by_side_branches_are_mean_and_scale() {
    let store = ParamStore::new(Key::new(8));
    let vb = store.var_builder(DType::F64, &CPU);
    let head = BaselineHead::new(&baseline(r#"{"kind": "gaussian", "dim": 1}"#), 5, 6, vb).unwrap();
    for name in ["mean", "log_variance"] {
        let bias = store.var(&format!("{name}.fc2.bias")).unwrap();
        let weight = store.var(&format!("{name}.fc2.weight")).unwrap();
        weight.set(&weight.zeros_like().unwrap()).unwrap();
        bias.set(&Tensor::full(if name == "mean" { 35.0 } else { 2.0 }, 1, &CPU).unwrap()).unwrap();
    }
    let outputs = head.forward(&noise(&[2, 5], DType::F64, 1)).unwrap();
    assert_eq!(outputs.to_vec2::<f64>().unwrap(), [[35.0, 2.0], [35.0, 2.0]]);
}
