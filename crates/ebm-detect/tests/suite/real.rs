//! A study of real images from the detector on, on a folder as `ebm data get` leaves it, with drawn scenes in it.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_detect::config::{ExperimentConfig, Settings};
use ebm_detect::reproduce::{BaseOptions, Setup, StudyImages, StudyOptions, table2};
use ebm_detect::weights::WeightFile;
use ebm_nn::efficientnet::EfficientNetLite0;
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_ops::nn::BatchNormConfig;
use ebm_synth::scenes::{self, SceneConfig};

/// EfficientNet-Lite0 with drawn weights.
fn body(dir: &Path) -> PathBuf {
    let store = ParamStore::new(Key::new(1));
    let norm = BatchNormConfig::frozen(EfficientNetLite0::NORM.eps);
    EfficientNetLite0::new(norm, 5, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    let path = dir.join("body.safetensors");
    save_safetensors(&path, &store.tensors().unwrap()).unwrap();
    path
}

/// `images/` with four scenes, and each of these annotation files.
fn folder(dir: &Path, files: &[&str]) -> PathBuf {
    let set = scenes::generate(&dir.join("scenes"), &SceneConfig::default(), 4, Key::new(2)).unwrap();
    let data = dir.join("data");
    std::fs::create_dir(&data).unwrap();
    for file in files {
        std::fs::copy(&set.annotations, data.join(file)).unwrap();
    }
    std::fs::rename(&set.images, data.join("images")).unwrap();
    data
}

fn options(dir: &Path) -> (BaseOptions, StudyOptions) {
    let study =
        StudyOptions { run: dir.join("run"), heads: None, resume: false, device: Device::Cpu, workers: 1 };
    let weights = dir.join("detector.safetensors");
    let base = BaseOptions { from_scratch: true, keep: true, weights, body: Some(body(dir)) };
    std::fs::create_dir(&study.run).unwrap();
    (base, study)
}

fn config() -> ExperimentConfig {
    let text = "extends = 'people'\nstep_factors = [0.25]\n\
                detector = { num_classes = 7, input = { short_side = 64, long_side = 96 } }\n\
                base = { steps = 2, batch_size = 2, warmup_steps = 0, milestones = [] }\n\
                density = { steps = 2, warmup_steps = 0, milestones = [] }\n\
                confidence = { steps = 2, batch_size = 1, warmup_steps = 0, milestones = [] }";
    ExperimentConfig::parse("tiny", text).unwrap()
}

#[test]
fn a_detector_on_a_frozen_body_is_trained_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let data = folder(dir.path(), &["train_a.json", "val.json", "test.json"]);
    let (config, (base, study)) = (config(), options(dir.path()));
    let setup = Setup::open(&config, &StudyImages::Folder(data), &base, &study, &mut ()).unwrap();
    let methods = ["direct", "gaussian", "ebm"].map(|key| config.method(key).unwrap().clone());
    let rows = table2(&setup, &methods, 1, &mut ()).unwrap();
    assert_eq!(rows.iter().map(|row| row.method.as_str()).collect::<Vec<_>>(), ["direct", "gaussian", "ebm"]);
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row.precision.ap)));
    assert!(rows[2].ap_before.is_some() && rows[2].step_factor == Some(0.25));

    // The body is as it was, in half precision.
    let read = |path: &Path| WeightFile::open(path, &Device::Cpu).unwrap().tensors;
    let given = read(base.body.as_ref().unwrap());
    let kept = read(&base.weights);
    for (name, tensor) in &given {
        let kept = &kept[&format!("backbone.body.{name}")];
        let half = tensor.to_dtype(DType::F16).unwrap().to_dtype(DType::F32).unwrap();
        let difference = (half - kept).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap();
        assert_eq!(difference.to_scalar::<f32>().unwrap(), 0.0, "{name}");
    }
}

#[test]
fn a_folder_without_training_images_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = folder(dir.path(), &["val.json", "test.json"]);
    let (base, study) = options(dir.path());
    let error = Setup::open(&config(), &StudyImages::Folder(data), &base, &study, &mut ()).err().unwrap();
    assert!(error.to_string().contains("no train*.json"), "{error}");
}

#[test]
fn a_body_of_fixed_normalisation_is_not_trained() {
    let dir = tempfile::tempdir().unwrap();
    let data = folder(dir.path(), &["train.json", "val.json", "test.json"]);
    let (mut base, study) = options(dir.path());
    base.body = None;
    let error = Setup::open(&config(), &StudyImages::Folder(data), &base, &study, &mut ()).err().unwrap();
    assert!(error.to_string().contains("--body"), "{error}");
}
