//! The box module against torch, against differences, and its constant form against itself.

use std::collections::BTreeMap;

use candle_core::{D, DType, Tensor};
use ebm_base::Key;
use ebm_core::{EnergyModel, GradientAscent, StepRule, refine};
use ebm_nn::import::LoadPolicy;
use ebm_nn::params::ParamStore;
use ebm_ops::roi::prroi_pool;
use ebm_track::box_module::{
    BoxModule, BoxModuleConfig, BoxNetwork, Modulation, PixelSteps, TargetFeatures, TestFeatures, corners,
};
use ebm_track::{BackboneFeatures, Error};

use crate::tensors::{self, CPU, golden, largest, to_vec};

/// golden/box_module.py, converted to a type.
struct Golden {
    tensors: BTreeMap<String, Tensor>,
    dtype: DType,
}

impl Golden {
    fn new(dtype: DType) -> Self {
        Self { tensors: golden("box_module"), dtype }
    }

    fn get(&self, name: &str) -> Tensor {
        self.tensors[name].to_dtype(self.dtype).unwrap()
    }

    fn features(&self, part: &str) -> BackboneFeatures {
        let map = |layer| self.get(&format!("{part}_{layer}"));
        BackboneFeatures { layer2: map("layer2"), layer3: map("layer3") }
    }

    fn module(&self) -> (BoxModule, ParamStore) {
        let store = ParamStore::new(Key::new(0));
        let own = |(name, tensor): (&String, &Tensor)| {
            Some((name.strip_prefix("net.")?.to_owned(), tensor.to_dtype(self.dtype).unwrap()))
        };
        store.preload(self.tensors.iter().filter_map(own).collect());
        let config = BoxModuleConfig {
            backbone: [6, 8],
            reference: 5,
            hidden: 7,
            pred_input: [6, 9],
            pred_inter: [4, 5],
            ..BoxModuleConfig::atom([6, 8])
        };
        let module = BoxModule::new(&config, store.var_builder(self.dtype, &CPU)).unwrap();
        let report = store.preload_report();
        assert!(report.is_exact(), "{report}");
        (module, store)
    }

    /// The same with constant parameters.
    fn constant(&self) -> BoxModule {
        let (module, store) = self.module();
        let parameters = store.constants().unwrap().var_builder(self.dtype, &CPU);
        BoxModule::new(module.config(), parameters).unwrap()
    }

    fn test_features(&self, network: &impl BoxNetwork) -> (Modulation, TestFeatures) {
        let modulation =
            network.modulation(&self.features("reference"), &self.get("reference_boxes")).unwrap();
        let test = network.test_features(&self.features("test"), &modulation).unwrap();
        (modulation, test)
    }
}

#[track_caller]
fn assert_close(what: &str, found: &Tensor, expected: &Tensor, bound: f64) {
    let expected = expected.to_dtype(found.dtype()).unwrap();
    let difference = tensors::difference(found, &expected) / largest(&expected).max(1e-3);
    println!("{what}: relative difference {difference:.1e}");
    assert!(difference < bound, "{what}: {difference}");
}

/// The gradient in (x, y, w, h), given the one in the corners.
fn in_boxes(of_corners: &Tensor) -> Tensor {
    let high = of_corners.narrow(D::Minus1, 2, 2).unwrap();
    let low = (of_corners.narrow(D::Minus1, 0, 2).unwrap() + &high).unwrap();
    Tensor::cat(&[low, high], D::Minus1).unwrap()
}

/// Every quantity of the frozen network.
fn check_frozen(golden: &Golden, network: &impl BoxNetwork, bound: f64) {
    let (modulation, test) = golden.test_features(network);
    let [third, fourth] = &modulation.0;
    assert_close("modulation at 1/8", third, &golden.get("frozen.vector3"), bound);
    assert_close("modulation at 1/16", fourth, &golden.get("frozen.vector4"), bound);
    assert_close("map at 1/8", &test.0[0], &golden.get("frozen.map3"), bound);
    assert_close("map at 1/16", &test.0[1], &golden.get("frozen.map4"), bound);

    let corners = corners(&golden.get("boxes")).unwrap();
    let (f, gradient) = network.corner_gradients(&test, &corners).unwrap();
    assert_close("f", &f, &golden.get("frozen.f"), bound);
    assert_close("f alone", &network.corner_scores(&test, &corners).unwrap(), &f, 1e-12);
    assert_close("gradient", &in_boxes(&gradient), &golden.get("frozen.gradient"), bound);

    let features = TargetFeatures::new(test, &golden.get("test_boxes")).unwrap();
    let y = features.encode(&golden.get("boxes")).unwrap();
    assert_close("y", &y, &golden.get("frozen.y"), bound);
    assert_close("boxes", &features.decode(&y).unwrap(), &golden.get("boxes"), bound);
    let (f, gradient) = network.score_and_grad(&features, &y).unwrap();
    assert_close("f of y", &f, &golden.get("frozen.f"), bound);
    assert_close("f of y alone", &network.score(&features, &y).unwrap(), &f, bound);
    assert_close("gradient in y", &gradient, &golden.get("frozen.y_gradient"), bound);
}

#[test]
fn frozen_it_is_torchs_network() {
    let golden = Golden::new(DType::F64);
    check_frozen(&golden, &golden.module().0, 1e-11);
    let single = Golden::new(DType::F32);
    let module = single.module().0;
    println!("f32");
    check_frozen(&single, &module, 1e-5);
    println!("f32, constant");
    check_frozen(&single, &single.constant(), 1e-5);
}

#[test]
fn pooled_boxes_are_torchs() {
    let golden = Golden::new(DType::F64);
    let corners = corners(&golden.get("boxes")).unwrap().flatten(0, 1).unwrap();
    let crop = Tensor::new(&[[0f64], [0.], [0.], [0.], [0.], [1.], [1.], [1.], [1.], [1.]], &CPU).unwrap();
    let rois = Tensor::cat(&[crop, corners], 1).unwrap();
    for (map, pooled, bins, scale) in [("map3", "pooled3", 5, 0.125), ("map4", "pooled4", 3, 0.0625)] {
        let map = golden.get(&format!("frozen.{map}"));
        let found = prroi_pool(&map, &rois, (bins, bins), scale).unwrap();
        assert_close(pooled, &found, &golden.get(pooled), 1e-11);
    }
}

#[test]
fn in_training_it_is_torchs_network() {
    let golden = Golden::new(DType::F64);
    let (module, store) = golden.module();
    let network = module.in_training();
    let modulation =
        network.modulation(&golden.features("reference"), &golden.get("reference_boxes")).unwrap();
    let test = network.test_features(&golden.features("test"), &modulation).unwrap();
    for (name, found) in [
        ("train.vector3", &modulation.0[0]),
        ("train.vector4", &modulation.0[1]),
        ("train.map3", &test.0[0]),
        ("train.map4", &test.0[1]),
    ] {
        assert_close(name, found, &golden.get(name), 1e-9);
    }
    let features = TargetFeatures::new(test, &golden.get("test_boxes")).unwrap();
    let f = network.score(&features, &golden.get("frozen.y")).unwrap();
    assert_close("f", &f, &golden.get("train.f"), 1e-9);
    for name in store.names().iter().filter(|name| name.contains("running")) {
        let expected = golden.get(&format!("after.{name}"));
        assert_close(name, store.var(name).unwrap().as_tensor(), &expected, 1e-11);
    }

    let weights: Vec<f64> = (0..10).map(|i| f64::from(i).cos()).collect();
    let loss = (f * Tensor::from_vec(weights, (2, 5), &CPU).unwrap()).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let (mut scale, mut worst) = (0f64, 0f64);
    for (name, var) in store.trainable() {
        let expected = golden.get(&format!("gradient.{name}"));
        let difference = largest(&(gradients.get(&var).unwrap() - &expected).unwrap());
        // A bias before a normalisation has no gradient but rounding.
        assert!(difference < 1e-8 * (1.0 + largest(&expected)), "{name}: {difference}");
        (scale, worst) = (scale.max(largest(&expected)), worst.max(difference));
    }
    println!("gradients of up to {scale:.1e} differ by at most {worst:.1e}");
    assert!(scale > 0.1);
}

#[test]
fn gradients_against_differences() {
    let golden = Golden::new(DType::F64);
    let module = golden.module().0;
    let (_, test) = golden.test_features(&module);
    let features = TargetFeatures::new(test.clone(), &golden.get("test_boxes")).unwrap();
    let boxes = golden.get("boxes");
    let y = features.encode(&boxes).unwrap();
    let corners = corners(&boxes).unwrap();
    let in_y = |y: &Tensor| module.score(&features, y).unwrap();
    let in_corners = |c: &Tensor| module.corner_scores(&test, c).unwrap();
    let of_y = module.score_and_grad(&features, &y).unwrap().1;
    let of_corners = module.corner_gradients(&test, &corners).unwrap().1;
    type Form<'a> = (&'a dyn Fn(&Tensor) -> Tensor, &'a Tensor, &'a Tensor);
    let forms: [Form<'_>; 2] = [(&in_y, &y, &of_y), (&in_corners, &corners, &of_corners)];
    for (f, at, gradient) in forms {
        assert!(largest(gradient) > 1e-2);
        for axis in 0..4 {
            let mut direction = [0f64; 4];
            direction[axis] = 1e-6;
            let step = Tensor::new(&direction, &CPU).unwrap();
            let plus = f(&at.broadcast_add(&step).unwrap());
            let minus = f(&at.broadcast_sub(&step).unwrap());
            let slope = ((plus - minus).unwrap() / 2e-6).unwrap();
            let difference = (slope - gradient.narrow(2, axis, 1).unwrap().squeeze(2).unwrap()).unwrap();
            assert!(largest(&difference) < 1e-7 * (1.0 + largest(gradient)), "{difference}");
        }
    }
}

#[test]
fn atoms_step_is_the_gradient_times_the_size() {
    let golden = Golden::new(DType::F32);
    let module = golden.constant();
    let (_, test) = golden.test_features(&module);
    let boxes = golden.get("boxes");
    let size = boxes.narrow(2, 2, 2).unwrap();
    let step = (golden.get("frozen.gradient") * Tensor::cat(&[&size, &size], 2).unwrap()).unwrap();
    let ascent = GradientAscent { steps: 1, step_length: vec![1.0], decay: 1.0, rule: StepRule::Plain };
    let refined = refine(&PixelSteps(&module), &test, &boxes, &ascent).unwrap();
    assert!(largest(&step) > 0.3);
    assert_close("step", &(refined.y - &boxes).unwrap(), &step, 1e-4);
    assert_close("f", &refined.f_init, &golden.get("frozen.f"), 1e-5);
}

#[test]
fn boxes_without_area_or_number_harm_no_other() {
    let golden = Golden::new(DType::F32);
    let module = golden.module().0;
    let constant = golden.constant();
    let (_, test) = golden.test_features(&constant);
    let corners = corners(&golden.get("boxes")).unwrap();
    let mut values = corners.to_vec3::<f32>().unwrap();
    values[0][1] = vec![30.0, 30.0, 20.0, 40.0];
    values[1][2][3] = f32::INFINITY;
    let odd = Tensor::new(values.clone(), &CPU).unwrap();
    let (f, gradient) = constant.corner_gradients(&test, &odd).unwrap();
    let (expected, slopes) = constant.corner_gradients(&test, &corners).unwrap();
    let (f, expected) = (f.to_vec2::<f32>().unwrap(), expected.to_vec2::<f32>().unwrap());
    let (gradient, slopes) = (gradient.to_vec3::<f32>().unwrap(), slopes.to_vec3::<f32>().unwrap());
    for crop in 0..2 {
        for i in 0..5 {
            match (crop, i) {
                (0, 1) => assert!(f[0][1].is_finite()),
                (1, 2) => assert!(f[1][2].is_nan()),
                _ => {
                    assert_eq!(
                        (f[crop][i], gradient[crop][i].clone()),
                        (expected[crop][i], slopes[crop][i].clone())
                    );
                    continue;
                }
            }
            assert_eq!(gradient[crop][i], [0.0; 4]);
        }
    }
    // Boxes for another number of crops.
    let one = corners.narrow(0, 0, 1).unwrap();
    assert!(constant.corner_scores(&test, &one).is_err() && module.corner_scores(&test, &one).is_err());
}

#[test]
fn one_target_serves_several_crops() {
    let golden = Golden::new(DType::F32);
    let module = golden.module().0;
    let reference = golden.features("reference");
    let first = BackboneFeatures {
        layer2: reference.layer2.narrow(0, 0, 1).unwrap(),
        layer3: reference.layer3.narrow(0, 0, 1).unwrap(),
    };
    let boxes = golden.get("reference_boxes").narrow(0, 0, 1).unwrap();
    let constant = golden.constant();
    let modulation = constant.modulation(&first, &boxes).unwrap();
    let maps = |network: &dyn Fn() -> TestFeatures| network().0[1].clone();
    let a = maps(&|| constant.test_features(&golden.features("test"), &modulation).unwrap());
    let b = maps(&|| module.test_features(&golden.features("test"), &modulation).unwrap());
    assert_close("map", &a, &b, 1e-5);
    let expected = golden.get("frozen.map4").narrow(0, 0, 1).unwrap();
    assert_close("first crop", &a.narrow(0, 0, 1).unwrap(), &expected, 1e-5);
}

#[test]
fn atoms_sizes_names_and_initial_values() {
    let store = ParamStore::new(Key::new(1));
    let config = BoxModuleConfig::atom([128, 256]);
    let module = BoxModule::new(&config, store.var_builder(DType::F32, &CPU)).unwrap();
    let convs = [
        ("conv3_1r", [128, 128, 3]),
        ("conv3_1t", [256, 128, 3]),
        ("conv3_2t", [256, 256, 3]),
        ("fc3_1r", [256, 128, 3]),
        ("conv4_1r", [256, 256, 3]),
        ("conv4_1t", [256, 256, 3]),
        ("conv4_2t", [256, 256, 3]),
        ("fc34_3r", [256, 512, 1]),
        ("fc34_4r", [256, 512, 1]),
    ];
    let mut shapes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut norm = |name: String, channels: usize| {
        for part in ["weight", "bias", "running_mean", "running_var"] {
            shapes.insert(format!("{name}.{part}"), vec![channels]);
        }
    };
    convs.iter().for_each(|(name, [output, ..])| norm(format!("{name}.1"), *output));
    norm("fc3_rt.bn".to_owned(), 256);
    norm("fc4_rt.bn".to_owned(), 256);
    for (name, [output, input, kernel]) in convs {
        shapes.insert(format!("{name}.0.weight"), vec![output, input, kernel, kernel]);
        shapes.insert(format!("{name}.0.bias"), vec![output]);
    }
    for (name, output, input) in
        [("fc3_rt.linear", 256, 6400), ("fc4_rt.linear", 256, 2304), ("iou_predictor", 1, 512)]
    {
        shapes.insert(format!("{name}.weight"), vec![output, input]);
        shapes.insert(format!("{name}.bias"), vec![output]);
    }
    let found = store.tensors().unwrap();
    assert_eq!(
        found.iter().map(|(name, t)| (name.clone(), t.dims().to_vec())).collect::<BTreeMap<_, _>>(),
        shapes
    );

    let norm = found["fc3_rt.bn.weight"].to_vec1::<f32>().unwrap();
    assert!(norm.iter().all(|v| (0.0..1.0).contains(v)) && norm.iter().any(|v| *v > 0.9));
    let deviation = to_vec(&found["fc3_rt.linear.weight"].sqr().unwrap().mean_all().unwrap())[0].sqrt();
    assert!((deviation / (2.0f64 / 6400.0).sqrt() - 1.0).abs() < 0.01);
    assert_eq!(largest(&found["conv4_2t.0.bias"]), 0.0);

    // Its own file serves.
    let again = ParamStore::new(Key::new(2));
    let other = BoxModule::new(&config, again.var_builder(DType::F32, &CPU)).unwrap();
    assert!(again.load(&found, LoadPolicy::Strict).unwrap().is_exact());
    assert_eq!(module.config(), other.config());
    let zero = BoxModuleConfig { hidden: 0, ..config };
    assert!(BoxModule::new(&zero, again.var_builder(DType::F32, &CPU)).is_err());
}

#[test]
fn a_modules_file_is_read_back() {
    let golden = Golden::new(DType::F32);
    let (module, store) = golden.module();
    let tensors = store.tensors().unwrap();
    let loaded = |tensors: &BTreeMap<String, Tensor>| {
        BoxModule::of_tensors("module.safetensors".as_ref(), module.config(), tensors.clone(), &CPU)
    };
    let same = loaded(&tensors).unwrap();
    check_frozen(&golden, &same, 1e-5);
    let one = Tensor::zeros(1, DType::F32, &CPU).unwrap();

    let refused = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), part: &str| {
        let mut tensors = tensors.clone();
        change(&mut tensors);
        let error = loaded(&tensors).unwrap_err();
        assert!(matches!(&error, Error::Weights { reason, .. } if reason.contains(part)), "{error}");
    };
    refused(&|t| drop(t.remove("fc3_rt.linear.weight")), "fc3_rt");
    refused(&|t| drop(t.remove("fc4_rt.bn.bias")), "1 missing: fc4_rt.bn.bias");
    refused(&|t| drop(t.insert("mask".to_owned(), one.clone())), "1 unexpected: mask");
    refused(&|t| drop(t.insert("conv4_1t.0.bias".to_owned(), one.clone())), "conv4_1t.0.bias");
}
