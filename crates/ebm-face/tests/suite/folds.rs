//! Pointing'04 in five folds, on a few generated photographs in its layout.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::CPU;
use candle_core::DType;
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_data::faces::Faces;
use ebm_data::faces::split::folder_of;
use ebm_face::config::{ExperimentConfig, Settings};
use ebm_face::reproduce::{Data, Options, on_features};
use ebm_nn::params::ParamStore;

/// Six people with six photographs each, whose brightness tells the pan.
fn photographs(root: &Path) {
    for person in 1..=6 {
        let folder = root.join(format!("Person{person:02}"));
        std::fs::create_dir_all(&folder).unwrap();
        for (number, pan) in [-75, -45, -15, 15, 45, 75].into_iter().enumerate() {
            let stem = folder.join(format!("person{person:02}1{number:02}-30{pan:+}"));
            let grey = (128 + pan + person) as u8;
            write_png(&stem.with_extension("png"), &Image::filled(40, 30, [grey; 3]).unwrap()).unwrap();
            std::fs::write(stem.with_extension("txt"), "photograph\n\nFace\n20\n15\n12\n12\n").unwrap();
        }
    }
}

#[test]
fn each_person_is_measured_by_networks_that_have_not_seen_them() {
    let dir = tempfile::tempdir().unwrap();
    photographs(&dir.path().join("pointing04"));
    let folds = Data::folds(&dir.path().join("pointing04"), &mut ()).unwrap();
    let mut tested = BTreeSet::new();
    for fold in &folds {
        let people = |faces: &Faces| -> BTreeSet<String> {
            faces.faces.iter().map(|face| folder_of(&face.name).to_owned()).collect()
        };
        let parts = [&fold.train, &fold.validation, fold.results()].map(|faces| people(faces));
        assert_eq!((parts[1].len(), parts.iter().map(BTreeSet::len).sum::<usize>()), (2, 6));
        assert!(parts[2].iter().all(|person| tested.insert(person.clone())));
    }
    assert_eq!((folds.len(), tested.len()), (5, 6));

    let text = r#"
        extends = "head_pose_pointing"
        input = { size = 16 }
        trunk = { kind = "resnet", layers = [1, 1, 1, 1], width = 4 }
        head = { y_layers = [8, 8], hidden = 16 }
        training = { epochs = 2.0, batch_size = 8, milestones = [] }
        energy = { objective.num_samples = 8, training = { epochs = 2.0, batch_size = 8, milestones = [] } }
        density = { lo = -112.0, hi = 112.0, num_points = 29 }
        frozen = { views = 2, grid = 0 }
    "#;
    let config = ExperimentConfig::parse("test", text).unwrap();
    let store = ParamStore::new(Key::new(1));
    config.trunk.build(&store, "", DType::F32, &CPU).unwrap();
    let weights = dir.path().join("trunk.safetensors");
    ebm_nn::import::save_safetensors(&weights, &store.tensors().unwrap()).unwrap();
    let run = dir.path().join("run");
    let options = Options { seeds: 1, ablation: false, run: run.clone(), resume: false };
    let outcome = on_features(&config, &folds, &weights, &options, &mut ()).unwrap();
    // Six baselines before and after refinement, three estimates of the energy model; five methods with a
    // density of two coordinates.
    assert_eq!((outcome.rows.len(), outcome.calibration.len()), (5 * (2 * 6 + 3), 5 * 5 * 2));
    assert_eq!((outcome.step_lengths.len(), outcome.images, outcome.part), (5, 36, "test"));
    for (fold, rows) in outcome.rows.chunks_exact(15).enumerate() {
        let whole = |row: &ebm_face::reproduce::Row| row.coordinates.len() == 2 && row.mae.is_finite();
        assert!(rows.iter().all(|row| row.fold == Some(fold) && whole(row)));
        assert!(run.join(format!("fold-{fold}/split.json")).is_file());
    }
    assert!(outcome.calibration.iter().all(|row| row.calibration.crps > 0.0 && row.risk_coverage.len() == 4));
    assert_eq!(outcome.examples[0].density.len(), 2);
}
