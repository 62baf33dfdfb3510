//! The supplement's study of σ for ages and poses.

use crate::common::program::{BIWI, succeeds, text};

use std::fs;
use std::path::Path;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_face::{ResNetBackbone, ResNetBackboneConfig};
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_synth::faces::generate_ages;
use serde_json::{Value, json};

/// The tables of the supplement: σ of each row, and the paper's MAE.
fn published(task: &str) -> (Value, Value) {
    match task {
        "age" => {
            (json!([[0.1, 10.0], [0.1, 20.0], [0.01, 20.0], [0.1, 40.0]]), json!([7.62, 5.12, 5.36, 5.24]))
        }
        _ => (
            json!([[0.1, 20.0], [1.0, 20.0], [1.0, 30.0], [2.0, 20.0], [1.0, 10.0]]),
            json!([6.96, 5.08, 5.24, 7.02, 7.56]),
        ),
    }
}

/// Both datasets in small, and a trunk of one block a stage.
fn prepare(root: &Path) {
    let datasets = root.join("datasets");
    fs::create_dir_all(datasets.join("biwi")).unwrap();
    let ages = generate_ages(&datasets.join("utkface"), 16, 24, Key::new(1)).unwrap();
    fs::rename(ages.split, datasets.join("utkface/utk_train.csv")).unwrap();
    fs::copy(BIWI, datasets.join("biwi/BIWI_train.npz")).unwrap();
    let store = ParamStore::new(Key::new(1));
    let form = ResNetBackboneConfig { layers: [1, 1, 1, 1], width: 2 };
    ResNetBackbone::new(&form, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    save_safetensors(&root.join("trunk.safetensors"), &store.tensors().unwrap()).unwrap();
}

/// Returns the JSON output of `ebm reproduce` of a task at the paper's scale in small.
fn reproduce(root: &Path, task: &str) -> Value {
    let key = task.replace('-', "_");
    let training = "epochs = 1.0\nbatch_size = 8\nmilestones = []\n";
    let settings = root.join(format!("{key}.toml"));
    let small = format!(
        "extends = \"{key}_paper\"\n[input]\nsize = 16\n[trunk]\nlayers = [1, 1, 1, 1]\nwidth = 2\n[head]\nhidden = 8\n\
         [energy]\nobjective.num_samples = 4\n[training]\n{training}[energy.training]\n{training}"
    );
    fs::write(&settings, small).unwrap();
    let [trunk, datasets, out] = ["trunk.safetensors", "datasets", "runs"].map(|name| root.join(name));
    let args = ["reproduce", task, "--scale", "paper", "--seeds", "1", "--json", "--ablation", "--config"];
    let places = ["--trunk", text(&trunk), "--datasets", text(&datasets), "--out", text(&out)];
    serde_json::from_str(&succeeds(&[&args[..], &[text(&settings)], &places].concat())[0]).unwrap()
}

fn column(rows: &Value, name: &str) -> Value {
    rows.as_array().unwrap().iter().map(|row| row[name].clone()).collect()
}

#[test]
fn sigma_is_studied_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    for task in ["age", "head-pose"] {
        let (sigmas, figures) = published(task);
        let object = reproduce(dir.path(), task);
        let rows = &object["ablation"];
        assert_eq!(
            (column(rows, "sigmas"), column(rows, "published_mae")),
            (sigmas.clone(), figures.clone())
        );
        for row in rows.as_array().unwrap() {
            // Errors in years or degrees of networks that have learnt nothing: of another run each, so
            // not all the same.
            assert!((0.0..100.0).contains(&row["mae"].as_f64().unwrap()), "{row}");
        }
        let run = dir.path().join(format!("runs/{task}-paper-1"));
        let report = fs::read_to_string(run.join("report.md")).unwrap();
        assert!(report.contains(&format!(" {:.2} |", figures[0].as_f64().unwrap())), "{report}");
        // One network for each proposal but the table's own, trained with its σ and nothing else changed.
        for (number, sigmas) in sigmas.as_array().unwrap().iter().enumerate() {
            let own = run.join("ebm-0/config.toml");
            let own: toml::Table = fs::read_to_string(own).unwrap().parse().unwrap();
            let path = run.join(format!("ablation-{number}/config.toml"));
            let of = |run: &toml::Table| {
                run["experiment"]["energy"]["objective"]["proposal"]["gaussian"]["sigmas"].clone()
            };
            let is_own = json!(of(&own)) == *sigmas;
            assert_eq!(path.exists(), !is_own, "{}", path.display());
            if !is_own {
                let mut other: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
                assert_eq!(json!(of(&other)), *sigmas);
                other["experiment"]["energy"]["objective"]["proposal"]["gaussian"]["sigmas"] = of(&own);
                assert_eq!(other, own);
            }
        }
    }
}
