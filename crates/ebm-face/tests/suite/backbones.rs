//! Backbones: values, gradients, and what is frozen.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor, Var};
use candle_nn::Module;
use candle_transformers::models::convnext::{Config, convnext, convnext_no_final_layer};
use ebm_base::Key;
use ebm_face::{
    Backbone, BackboneConfig, ConvNeXtConfig, ConvNeXtSize, Error, MobileFaceNetConfig, ResNetBackboneConfig,
    preload_backbone,
};
use ebm_nn::import::save_safetensors;
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;

use crate::common::{CPU, noise};
use crate::tensors::{self, crc32, difference, formula, largest};

const ATTO: BackboneConfig = BackboneConfig::Convnext(ConvNeXtConfig { size: ConvNeXtSize::Atto });

fn build(config: &BackboneConfig, dtype: DType) -> (ParamStore, Box<dyn Backbone>) {
    let store = ParamStore::new(Key::new(1));
    let backbone = config.build(&store, "", dtype, &CPU).unwrap();
    fill(&store);
    (store, backbone)
}

fn scalar(t: &Tensor) -> f64 {
    t.to_dtype(DType::F64).unwrap().to_scalar().unwrap()
}

/// Σ a b.
fn dot(a: &Tensor, b: &Tensor) -> f64 {
    let [a, b] = [a, b].map(|t| t.to_dtype(DType::F64).unwrap());
    scalar(&(a * b).unwrap().sum_all().unwrap())
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &Tensor, bound: f64) {
    let difference = difference(&found.to_dtype(expected.dtype()).unwrap(), expected);
    assert!(difference <= bound * largest(expected), "{difference} of {}", largest(expected));
}

/// golden/backbones.py's, and positive variances.
fn value(name: &str, shape: &[usize]) -> Tensor {
    let v = formula(name, shape);
    match name.rsplit('.').next().unwrap() {
        "running_var" => v.affine(0.3, 1.0),
        "gamma" => v.affine(0.2, 0.5),
        _ if shape.len() > 1 => {
            let fan_in: usize = shape[1..].iter().product();
            v.affine((2.0 / fan_in as f64).sqrt(), 0.0)
        }
        "weight" => v.affine(0.2, 1.0),
        _ => v.affine(0.1, 0.0),
    }
    .unwrap()
}

fn fill(store: &ParamStore) {
    for name in store.names() {
        let var = store.var(&name).unwrap();
        var.set(&value(&name, var.dims()).to_dtype(var.dtype()).unwrap()).unwrap();
    }
}

fn golden(name: &str) -> Tensor {
    tensors::golden("backbones").remove(name).unwrap()
}

#[test]
fn convnext_is_the_published_one() {
    let (_, backbone) = build(&ATTO, DType::F64);
    let images = formula("images", &[2, 3, 96, 64]);
    let features = backbone.features(&images, false).unwrap();
    assert_eq!(features.dims(), [2, backbone.num_features()]);
    assert_close(&features, &golden("convnext_atto"), 1e-9);
    // And what candle_transformers' own head sees.
    let (store, backbone) = build(&ATTO, DType::F32);
    // Both versions' parameters are drawn for the model that takes all it can get, so response normalisation
    // does nothing.
    let whole = convnext(&Config::atto(), 5, store.var_builder(DType::F32, &CPU)).unwrap();
    let [weight, bias] = ["head.fc.weight", "head.fc.bias"].map(|name| store.var(name).unwrap());
    let images = images.to_dtype(DType::F32).unwrap();
    let features = backbone.features(&images, false).unwrap();
    let expected = features.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
    assert_close(&whole.forward(&images).unwrap(), &expected, 1e-5);
}

/// ⟨∇s, v⟩ of a scalar s of the features against central differences, for the image and `parameters`, each
/// with its own direction v, and for all parameters along one.
fn check_gradients(config: &BackboneConfig, shape: &[usize], parameters: &[&str], step: f64, bound: f64) {
    let (store, backbone) = build(config, DType::F64);
    let images = Var::from_tensor(&noise(shape, DType::F64, 1)).unwrap();
    let weights = noise(&[shape[0], backbone.num_features()], DType::F64, 2);
    let s = || (backbone.features(&images, true).unwrap() * &weights).unwrap().sum_all().unwrap();
    let gradients = s().backward().unwrap();
    let all: BTreeMap<String, Var> = store.trainable().into_iter().collect();
    assert!(parameters.iter().all(|name| all.contains_key(*name)));

    let check = |what: &str, vars: &[(&String, &Var)]| {
        let directions: Vec<Tensor> = vars
            .iter()
            .map(|(name, var)| {
                let v = noise(var.dims(), DType::F64, u64::from(crc32(name.as_bytes())));
                // Of such a length that every parameter has its part in the sum.
                let gradient = gradients.get(var).unwrap_or_else(|| unreachable!("{name} has no gradient"));
                assert!(largest(gradient) > 0.0, "{name}");
                (v / dot(gradient, gradient).sqrt()).unwrap()
            })
            .collect();
        let starts: Vec<Tensor> =
            vars.iter().map(|(_, var)| var.as_detached_tensor().copy().unwrap()).collect();
        let at = |t: f64| {
            for ((start, v), (_, var)) in starts.iter().zip(&directions).zip(vars) {
                var.set(&(start + (v * t).unwrap()).unwrap()).unwrap();
            }
            scalar(&s())
        };
        let longest = directions.iter().map(largest).fold(0.0, f64::max);
        let step = step / longest;
        let numeric = (at(step) - at(-step)) / (2.0 * step);
        at(0.0);
        let analytic: f64 =
            vars.iter().zip(&directions).map(|((_, var), v)| dot(gradients.get(var).unwrap(), v)).sum();
        let error = (numeric - analytic).abs();
        assert!(error <= bound * analytic.abs().max(1.0), "{what}: {analytic} and by differences {numeric}");
    };
    check("images", &[(&"images".to_owned(), &images)]);
    for name in parameters {
        let (name, var) = all.get_key_value(*name).unwrap();
        check(name, &[(name, var)]);
    }
    check("all parameters", &all.iter().collect::<Vec<_>>());
}

#[test]
fn convnext_has_its_gradients() {
    let parameters = [
        "stem.1.weight",
        "stages.0.blocks.0.gamma",
        "stages.0.blocks.0.conv_dw.weight",
        "stages.1.downsample.1.weight",
        "stages.3.blocks.1.norm.weight",
    ];
    // The last map is 3 × 2.
    check_gradients(&ATTO, &[1, 3, 96, 64], &parameters, 1e-4, 1e-6);
}

#[test]
fn residual_networks_have_their_gradients() {
    let trunk = ResNetBackboneConfig { layers: [1, 1, 1, 1], width: 4 };
    let parameters = ["conv1.weight", "layer2.0.conv1.weight", "layer4.0.downsample.0.weight"];
    // A small step: few kinks of the rectifier are crossed.
    check_gradients(&BackboneConfig::Resnet(trunk), &[2, 3, 45, 38], &parameters, 1e-7, 1e-4);
}

#[test]
fn small_networks_have_their_gradients_and_go_on_from_frozen_maps() {
    let mobile = |trained_blocks, frozen_norm| {
        BackboneConfig::Mobilefacenet(MobileFaceNetConfig { trained_blocks, frozen_norm })
    };
    // By the batch's statistics some have none, which differences do not find; ebm-nn compares those with torch's.
    let names = ["conv_1_relu.weight", "res_4_block2_conv_dw_conv2d.weight"];
    check_gradients(&mobile(18, true), &[1, 3, 24, 17], &names, 1e-5, 1e-7);
    check_gradients(&mobile(4, true), &[1, 3, 24, 17], &["dconv_45_conv_sep_relu.weight"], 1e-5, 1e-7);

    let firsts = [(mobile(4, false), "dconv_45_conv_dw"), (mobile(0, true), "")];
    for (config, first) in firsts {
        let (store, backbone) = build(&config, DType::F32);
        let images = noise(&[2, 3, 48, 40], DType::F32, 1);
        let features = backbone.features(&images, false).unwrap();
        assert_eq!(features.dims(), [2, backbone.num_features()]);
        let maps = backbone.frozen_maps(&images).unwrap();
        let again = backbone.features_of_maps(&maps, false).unwrap();
        assert_close(&again, &features, 1e-6);
        let trainable = store.trainable();
        assert_eq!(trainable.iter().any(|(name, _)| name.starts_with(first)), !first.is_empty());
        assert!(backbone.features(&noise(&[2, 1, 48, 40], DType::F32, 1), false).is_err());
        let trained = backbone.features(&images, true).unwrap();
        assert_eq!(trained.track_op(), !trainable.is_empty());
    }
}

#[test]
fn published_small_networks_load_without_what_is_behind_their_maps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mobilefacenet.safetensors");
    let published = ParamStore::new(Key::new(1));
    let vb = published.var_builder(DType::F32, &CPU);
    MobileFaceNet::new(MobileFaceNet::NORM, &vb).unwrap();
    ebm_nn::init::linear(MobileFaceNet::CHANNELS, 128, vb.pp("pre_fc1")).unwrap();
    save_safetensors(&path, &published.tensors().unwrap()).unwrap();
    let config = BackboneConfig::Mobilefacenet(MobileFaceNetConfig { trained_blocks: 4, frozen_norm: false });
    let store = ParamStore::new(Key::new(0));
    preload_backbone(&store, "trunk", &config, &path, &CPU).unwrap();
    config.build(&store, "trunk", DType::F32, &CPU).unwrap();
    assert!(store.preload_report().is_exact());
    let other = BackboneConfig::Resnet(ResNetBackboneConfig { width: 2, ..ResNetBackboneConfig::resnet50() });
    assert!(matches!(preload_backbone(&store, "", &other, &path, &CPU), Err(Error::Weights { .. })));
}

#[test]
fn a_map_of_one_pixel_has_no_gradient_in_convnext() {
    let (store, backbone) = build(&ATTO, DType::F32);
    let images = noise(&[1, 3, 32, 32], DType::F32, 1);
    let refused = backbone.features(&images, true);
    assert!(matches!(refused, Err(Error::Input { .. })));
    // Why: its last stage has one pixel, contiguous in every order, and candle's fast normalisation cuts the
    // graph.
    let model = convnext_no_final_layer(&Config::atto(), store.var_builder(DType::F32, &CPU)).unwrap();
    let lost = |side: usize| {
        let s = model.forward(&noise(&[1, 3, side, side], DType::F32, 1)).unwrap().sqr().unwrap();
        let gradients = s.sum_all().unwrap().backward().unwrap();
        gradients.get(&store.var("stages.3.blocks.1.conv_dw.weight").unwrap()).is_none()
    };
    assert!(lost(32) && !lost(64));
}

#[test]
fn a_frozen_backbone_leaves_its_head_to_be_trained() {
    let store = ParamStore::new(Key::new(1));
    let config = BackboneConfig::Mobilefacenet(MobileFaceNetConfig { trained_blocks: 0, frozen_norm: true });
    // Without a prefix too: only its own names are frozen.
    config.build(&store, "", DType::F32, &CPU).unwrap();
    config.build(&store, "trunk", DType::F32, &CPU).unwrap();
    assert!(store.var("trunk.conv_1_relu.weight").is_some());
    store.var_builder(DType::F32, &CPU).get(3, "score.weight").unwrap();
    let trainable: Vec<_> = store.trainable().into_iter().map(|(name, _)| name).collect();
    assert_eq!(trainable, ["score.weight"]);
}

#[test]
fn configurations_are_told_by_kind() {
    let read = |text: &str| serde_json::from_str::<BackboneConfig>(text);
    let resnet = BackboneConfig::Resnet(ResNetBackboneConfig::resnet50());
    let text = r#"{"kind": "resnet", "layers": [3, 4, 6, 3], "width": 64}"#;
    assert_eq!(read(text).unwrap(), resnet);
    assert_eq!(read(r#"{"kind": "convnext", "size": "atto"}"#).unwrap(), ATTO);
    for config in [resnet, ATTO] {
        assert_eq!(read(&serde_json::to_string(&config).unwrap()).unwrap(), config);
    }
    for wrong in [
        r#"{"kind": "vgg"}"#,
        r#"{"kind": "convnext", "size": "atto", "width": 3}"#,
        r#"{"kind": "convnext"}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn published_files_load_by_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights.safetensors");
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &CPU).unwrap();
    let resnet = ResNetBackboneConfig { layers: [1, 1, 1, 1], width: 2 };
    for (config, images, surplus, one) in [
        (BackboneConfig::Resnet(resnet), [1, 3, 40, 40], "fc.weight", "layer1.0.bn3.running_mean"),
        (ATTO, [1, 3, 64, 64], "head.fc.weight", "stages.2.blocks.5.norm.weight"),
    ] {
        let (store, backbone) = build(&config, DType::F32);
        let images = noise(&images, DType::F32, 1);
        let expected = backbone.features(&images, false).unwrap();
        let mut tensors = store.tensors().unwrap();
        tensors.insert(surplus.to_owned(), zeros(&[3]));
        save_safetensors(&path, &tensors).unwrap();

        let store = ParamStore::new(Key::new(9));
        preload_backbone(&store, "g", &config, &path, &CPU).unwrap();
        let backbone = config.build(&store, "g", DType::F32, &CPU).unwrap();
        assert!(store.preload_report().is_exact(), "{config:?}: {}", store.preload_report());
        assert_close(&backbone.features(&images, false).unwrap(), &expected, 0.0);
        let constant = config.build(&store.constants().unwrap(), "g", DType::F32, &CPU).unwrap();
        assert_close(&constant.features(&images, false).unwrap(), &expected, 1e-5);

        let refused = |tensors: &BTreeMap<String, Tensor>, part: &str| {
            save_safetensors(&path, tensors).unwrap();
            let error = preload_backbone(&store, "g", &config, &path, &CPU).unwrap_err();
            assert!(matches!(&error, Error::Weights { reason, .. } if reason.contains(part)), "{error}");
        };
        let kept = tensors.remove(one).unwrap();
        refused(&tensors, &format!("1 missing: {one}"));
        tensors.insert(one.to_owned(), zeros(&[1]));
        refused(&tensors, &format!("1 of another shape: {one} (expected {:?}, found [1])", kept.dims()));
        tensors.insert(one.to_owned(), kept);
        tensors.insert("other.weight".to_owned(), zeros(&[1]));
        refused(&tensors, "1 unexpected: other.weight");
    }
}
