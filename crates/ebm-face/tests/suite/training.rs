//! Training, features, saved networks and the table, on small generated faces.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::common::{CPU, config, network};
use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_data::faces::{Face, Faces, Pixels};
use ebm_experiment::{Run, Session};
use ebm_face::config::{ExperimentConfig, FrozenConfig, Settings};
use ebm_face::features::FeatureExtractor;
use ebm_face::network::{ENERGY, Head};
use ebm_face::prediction::Predictor;
use ebm_face::reproduce::{Data, Options, Outcome, Row, evaluate, mini, on_features, runs};
use ebm_face::saved::{BackboneSource, RunConfig, Saved, save};
use ebm_face::training::{BatchSource, CachedSource, FaceSource, FaceTask, FaceTraining, StreamSource};
use ebm_face::{BackboneConfig, Error, MobileFaceNetConfig};
use ebm_nn::import::load_safetensors;
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;
use ebm_synth::faces::generate_ages;
use ebm_train::{Group, RunSpec, TrainTask, train_run};

/// Faces of one grey, brighter the older, from 21 to 60.
fn faces(count: usize) -> Arc<Faces> {
    let face = |index: usize| {
        let age = 21.0 + 39.0 * index as f32 / (count - 1) as f32;
        let image = Image::filled(16, 16, [(age * 4.0) as u8; 3]).unwrap();
        Face { name: format!("{index}"), pixels: Pixels::Memory(Arc::new(image)), target: vec![age] }
    };
    Arc::new(Faces { faces: (0..count).map(face).collect(), ..Faces::default() })
}

fn stream(config: &ExperimentConfig, faces: &Arc<Faces>) -> StreamSource {
    let loader =
        FaceLoaderConfig { workers: 0, ..FaceLoaderConfig::shuffled(config.input.transform(true), 8) };
    let loader = FaceLoader::new(Arc::clone(faces), loader, Key::new(3)).unwrap();
    StreamSource::new(loader, faces.faces.len(), CPU)
}

#[test]
fn only_an_applied_step_moves_running_statistics() {
    let (config, faces) = (config(), faces(16));
    let (network, store) = network(&config, "direct_l2", 1);
    let watched = store.clone();
    let mut task = FaceTask::new(network, store, stream(&config, &faces), &config.training, Key::new(2));
    let mean = || watched.var("trunk.bn1.running_mean").unwrap().as_detached_tensor().copy().unwrap();
    let values = |tensor: &Tensor| tensor.to_vec1::<f32>().unwrap();
    let before = mean();
    let (_, update) = task.step(0).unwrap();
    assert_eq!(values(&before), values(&mean()));
    task.apply(0, update).unwrap();
    assert_ne!(values(&before), values(&mean()));
}

#[test]
fn a_resumed_training_is_an_uninterrupted_one() {
    let (config, faces) = (config(), faces(16));
    let run = |steps: std::ops::Range<usize>, state: Option<ebm_train::CheckpointData>| {
        let (network, store) = network(&config, ENERGY, 5);
        let mut task = FaceTask::new(network, store, stream(&config, &faces), &config.training, Key::new(2));
        if let Some(state) = state {
            task.restore(state).unwrap();
        }
        for step in steps {
            let (_, update) = task.step(step).unwrap();
            task.apply(step, update).unwrap();
        }
        task.state().unwrap()
    };
    let (whole, parts) = (run(0..4, None), run(2..4, Some(run(0..2, None))));
    for (name, tensor) in &whole.model {
        let numbers = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(numbers(tensor), numbers(&parts.model[name]), "{name}");
    }
}

#[test]
fn every_image_comes_once_in_an_epoch_of_features() {
    let (config, faces) = (config(), faces(12));
    let (network, _) = network(&config, "direct_l2", 1);
    let trunk = network.trunk.unwrap();
    let extractor = FeatureExtractor { trunk: &*trunk, input: &config.input, maps: false, device: &CPU };
    let table = extractor.extract("test", &faces, 0, &mut ()).unwrap();
    assert_eq!((table.count(), table.num_features()), (12, 128));
    assert_eq!(table.targets.to_vec2::<f32>().unwrap()[11], [60.0]);
    let views = Rc::new(vec![table.clone(), table]);
    let mut source = CachedSource::new(Rc::clone(&views), 4, Key::new(7)).unwrap();
    let mut ages = |steps: std::ops::Range<usize>| -> Vec<f32> {
        steps
            .flat_map(|step| source.batch(step).unwrap().y.flatten_all().unwrap().to_vec1::<f32>().unwrap())
            .collect()
    };
    let (first, second, again) = (ages(0..3), ages(3..6), ages(0..3));
    assert_eq!(first, again);
    assert_ne!(first, second);
    for mut epoch in [first, second] {
        epoch.sort_by(f32::total_cmp);
        let expected: Vec<f32> = faces.faces.iter().map(|face| face.target[0]).collect();
        assert_eq!(epoch, expected);
    }
    assert!(matches!(CachedSource::new(Rc::new(vec![]), 4, Key::new(7)), Err(Error::Config { .. })));
}

fn reproduce(config: &ExperimentConfig, data: &Data, root: &Path) -> Outcome {
    let options = Options { seeds: 2, ablation: true, run: root.join("run"), resume: false };
    mini(config, data, &options, &mut ()).unwrap()
}

/// What refinement changes is told twice: in the table, and image by image.
fn assert_effects_agree(outcome: &Outcome) {
    let mae = |method: &str, refined: bool| {
        let rows = outcome.rows.iter().filter(|row| row.method == method && row.refined == refined);
        rows.map(|row| row.mae).sum::<f64>() / 2.0
    };
    assert_eq!(outcome.paired.len(), 8);
    for row in &outcome.paired {
        let [before, after] = [false, true].map(|refined| mae(&row.method, refined));
        let (found, [low, high]) = (row.difference.mean, row.difference.interval);
        assert!((found - (after - before)).abs() < 1e-5 && low <= found && found <= high, "{row:?}");
    }
}

/// The energy models of both studies are trained, and compared on the same baselines.
#[test]
fn energy_models_that_were_trained_otherwise_are_compared() {
    let (config, dir) = (config(), tempfile::tempdir().unwrap());
    let mut nce = ExperimentConfig::embedded("age_finetuned").unwrap().objectives;
    nce.retain(|other| other.key == "nce");
    let methods = vec![config.method("direct_l2").unwrap().clone()];
    let config = ExperimentConfig { methods, objectives: nce, ..config };
    let data = Data { train: faces(16), validation: faces(8), test: None, whole: None, split: None };
    let run = dir.path().join("run");
    let options = Options { seeds: 1, ablation: true, run: run.clone(), resume: false };
    let rows = mini(&config, &data, &options, &mut ()).unwrap().ablation;
    let told: Vec<_> = rows.iter().map(|row| (row.sigmas.as_slice(), row.objective.as_deref())).collect();
    assert_eq!(told, [(&[1.0, 20.0][..], None), (&[], Some("ebm")), (&[], Some("nce"))]);
    assert!(rows.iter().all(|row| row.mae_before == rows[0].mae_before));
    for row in &rows {
        assert_eq!(row.lowered, usize::from(row.mae < row.mae_before), "{row:?}");
    }
    let saved = RunConfig::of_model(&run.join("objective-nce")).unwrap();
    assert_eq!(saved.experiment.energy.objective, config.objectives[0].objective);
    assert_eq!(runs(&run).unwrap(), [run.join("direct_l2-0"), run.join("ebm-0")]);
}

#[test]
fn the_table_has_all_rows_and_its_networks_can_be_scored_again() {
    let (config, dir) = (config(), tempfile::tempdir().unwrap());
    let data =
        Data { train: faces(32), validation: faces(8), test: Some(faces(12)), whole: None, split: None };
    let outcome = reproduce(&config, &data, dir.path());
    // Eight baselines, refined and not, and three readings of the density; two seeds.
    assert_eq!(outcome.rows.len(), 2 * (8 * 2 + 3));
    assert_eq!((outcome.part, outcome.ablation.len()), ("test", 1));
    assert!(config.refinement.step_lengths.contains(&outcome.step_length().unwrap()));
    assert!(!outcome.examples.is_empty());
    assert_effects_agree(&outcome);
    let nll = |method: &str| outcome.rows.iter().find(|row| row.method == method).unwrap().nll;
    assert!(nll("gaussian").is_some() && nll("ebm_median").is_some() && nll("direct_l2").is_none());

    // A second time in another directory: the same numbers.
    let again = {
        let run = dir.path().join("again");
        let options = Options { run, resume: false, seeds: 2, ablation: false };
        mini(&config, &data, &options, &mut ()).unwrap()
    };
    assert_eq!(again.rows, outcome.rows);

    // As if it had been stopped before one head: the others are taken as they are.
    std::fs::remove_dir_all(dir.path().join("again/ebm-1")).unwrap();
    let resumed = {
        let run = dir.path().join("again");
        mini(&config, &data, &Options { run, seeds: 2, ablation: false, resume: true }, &mut ()).unwrap()
    };
    assert_eq!(resumed.rows, outcome.rows);

    // The saved networks on the same images.
    let root = dir.path().join("run");
    let found = runs(&root).unwrap();
    assert_eq!(found.len(), 2 * 9);
    let load = |path: &Path| Saved::load(path, None).unwrap();
    let saved = found.iter().map(|path| load(path)).collect();
    let scored = evaluate(saved, data.results(), None, None, &mut ()).unwrap();
    assert_eq!(scored.step_length(), outcome.step_length());
    for row in &outcome.rows {
        let same = |other: &&ebm_face::reproduce::Row| {
            (&other.method, other.refined, other.seed) == (&row.method, row.refined, row.seed)
        };
        let other = scored.rows.iter().find(same).unwrap();
        assert!((other.mae - row.mae).abs() < 1e-4, "{row:?} {other:?}");
    }

    // One network alone brings the energy model of its seed.
    let one = runs(&root.join("gaussian-1")).unwrap();
    assert_eq!(one, [root.join("gaussian-1"), root.join("ebm-1")]);
    assert!(matches!(runs(dir.path()), Err(Error::Input { .. })));

    let predictor =
        Predictor::new(load(&root.join("ebm-0")), Some(load(&root.join("direct_l2-0"))), None).unwrap();
    let prediction = predictor.predict(data.results().faces[3].pixels.clone()).unwrap();
    assert_eq!((prediction.y.len(), prediction.density.len()), (1, 1));
    assert!((prediction.density[0].cdf_values().last().unwrap() - 1.0).abs() < 1e-12);
    let swapped = Predictor::new(load(&root.join("direct_l2-0")), None, None);
    assert!(matches!(swapped, Err(Error::Config { .. })));

    // Other weights than the heads were trained on, and parameters that are not the configuration's.
    let weights = root.join("trunk.safetensors");
    let other = dir.path().join("other.safetensors");
    std::fs::copy(root.join("ebm-0/model.safetensors"), &other).unwrap();
    let refused = Saved::load(&root.join("ebm-0"), Some(&other));
    assert!(refused.is_err_and(|error| error.to_string().contains("SHA-256")));
    assert!(Saved::load(&root.join("ebm-0"), Some(&weights)).is_ok());
    std::fs::copy(root.join("gaussian-0/model.safetensors"), root.join("ebm-0/model.safetensors")).unwrap();
    // A file is what it says, wherever it lies.
    assert_eq!(load(&root.join("ebm-0")).config.method, "gaussian");
}

#[test]
fn a_network_trained_end_to_end_is_saved_with_its_trunk() {
    let (config, faces, dir) = (config(), faces(16), tempfile::tempdir().unwrap());
    let (network, store) = network(&config, ENERGY, 1);
    let mut task = FaceTask::new(network, store, stream(&config, &faces), &config.training, Key::new(2));
    let trunk = BackboneSource::Own(config.trunk.clone());
    let saved = RunConfig { method: ENERGY.to_owned(), seed: 1, trunk, experiment: config.clone() };
    let text = saved.to_toml().unwrap();
    let spec = RunSpec::new(dir.path(), "ebm-1", &text, 3, 1);
    let run = train_run(&spec, &mut task, &mut ()).unwrap();
    let (network, store) = task.into_network();
    save(&store, run.path(), &saved).unwrap();
    let loaded = Saved::load(run.path(), None).unwrap();
    assert_eq!(loaded.config, saved);
    assert!(loaded.head.is_energy());
    let images: Vec<f32> = (0..2 * 3 * 16 * 16).map(|i| (i as f32 * 0.7).sin()).collect();
    let images = Tensor::from_vec(images, (2, 3, 16, 16), &CPU).unwrap();
    let trained = network.trunk.unwrap().features(&images, false).unwrap();
    let difference = (loaded.trunk.features(&images, false).unwrap() - trained).unwrap().abs().unwrap();
    assert!(difference.max_all().unwrap().to_scalar::<f32>().unwrap() < 1e-4);
}

/// A program of its own needs no command line.
#[test]
fn a_network_is_trained_on_ones_own_faces() {
    let dir = tempfile::tempdir().unwrap();
    let ages = generate_ages(&dir.path().join("ages"), 16, 24, Key::new(1)).unwrap();
    let faces = FaceSource::Ages { images: ages.images, split: Some(ages.split), shift: None };
    let run = dir.path().join("ebm");
    let mut training = FaceTraining {
        config: config(),
        method: ENERGY.to_owned(),
        seed: 0,
        faces,
        validation: 0.25,
        weights: None,
        run: run.clone(),
    };
    let spec = RunSpec::new(dir.path(), "ebm", "", 0, 0);
    let mut session = Session { group: &Group::alone(), device: &CPU, progress: &mut () };
    let kept = ebm_experiment::train(&mut training, &Run { spec, validate_every: 0 }, &mut session).unwrap();
    assert!(kept.is_some());
    let saved = Saved::load(&run, None).unwrap();
    assert!(saved.head.is_energy() && saved.refinement.is_some());
    let none = FaceTraining { validation: 0.0, run: dir.path().join("other"), ..training };
    let spec = RunSpec::new(dir.path(), "other", "", 0, 0);
    let refused = ebm_experiment::train(&mut { none }, &Run { spec, validate_every: 0 }, &mut session);
    assert!(matches!(refused, Err(Error::Config { .. })));
}

#[test]
fn the_last_blocks_are_trained_on_the_maps_of_those_before_them() {
    let (mut config, dir) = (config(), tempfile::tempdir().unwrap());
    let form = MobileFaceNetConfig { trained_blocks: 2, frozen_norm: false };
    config.trunk = BackboneConfig::Mobilefacenet(form);
    config.methods.retain(|method| ["direct_l2", "gaussian"].contains(&method.key.as_str()));
    config.frozen = Some(FrozenConfig { views: 2, finetuned: true, ..FrozenConfig::default() });
    let weights = dir.path().join("weights.safetensors");
    let store = ParamStore::new(Key::new(4));
    config.trunk.build(&store, "", DType::F32, &CPU).unwrap();
    store.save(&weights).unwrap();

    let data =
        Data { train: faces(32), validation: faces(8), test: Some(faces(12)), whole: None, split: None };
    let options = Options { seeds: 1, ablation: false, run: dir.path().join("run"), resume: false };
    let outcome = on_features(&config, std::slice::from_ref(&data), &weights, &options, &mut ()).unwrap();
    assert_eq!(outcome.rows.len(), 2 * 2 + 3);
    let saved = load_safetensors(&options.run.join("direct_l2-0/model.safetensors"), &CPU).unwrap();
    let before = store.tensors().unwrap();
    for (name, tensor) in before {
        let [before, after] = [&tensor, &saved[&format!("trunk.{name}")]];
        let same = before.flatten_all().unwrap().to_vec1::<f32>().unwrap()
            == after.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(same, MobileFaceNet::block_of(&name) < MobileFaceNet::BLOCKS - 2, "{name}");
    }

    // From the images themselves, without half precision between the blocks.
    let saved = runs(&options.run).unwrap().iter().map(|run| Saved::load(run, None).unwrap()).collect();
    let again = evaluate(saved, data.results(), None, None, &mut ()).unwrap();
    for row in &outcome.rows {
        let same = |other: &&Row| (&other.method, other.refined) == (&row.method, row.refined);
        let found = again.rows.iter().find(same).unwrap();
        assert!((found.mae - row.mae).abs() < 0.02 * row.mae, "{row:?} and {found:?}");
    }
}

#[test]
fn ranks_begin_with_the_log_odds_where_the_settings_say_so() {
    let mut config = config();
    let biases = |config: &ExperimentConfig, method: &str| {
        let store = ParamStore::new(Key::new(1));
        Head::preload(config, method, &store, [30.0, 50.0]).unwrap();
        Head::of(config, method, 4, &store, &CPU).unwrap();
        store.var("head.ranks.bias").map(|biases| biases.to_vec1::<f32>().unwrap())
    };
    assert_eq!(biases(&config, "cao").unwrap(), [0.0; 39]);
    config.head.ranks_at_log_odds = true;
    // Both are above 21, one above 30, none above 50.
    let found = biases(&config, "cao").unwrap();
    let expected = [(0, 5f32.ln()), (9, 0.0), (28, 0.0), (29, -(5f32.ln()))];
    assert!(expected.iter().all(|&(rank, logit)| (found[rank] - logit).abs() < 1e-6), "{found:?}");
    assert!(biases(&config, "niu").is_none() && biases(&config, ENERGY).is_none());
}
