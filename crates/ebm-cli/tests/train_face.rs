//! `ebm train age` and `head-pose` on one's own faces: the best network is kept, a stopped run goes on, and
//! what comes of it predicts.

use crate::common::program::{BIWI, refused, succeeds, text};

use ebm_base::Key;
use ebm_face::saved::Saved;
use ebm_synth::faces::generate_ages;

/// Networks of a few numbers, trained for two epochs of 18 images.
const LITTLE: [&str; 16] = [
    "--set",
    "input.size=16",
    "--set",
    "trunk={ kind = 'resnet', layers = [1, 1, 1, 1], width = 2 }",
    "--set",
    "head.hidden=8",
    "--set",
    "energy.objective.num_samples=4",
    "--set",
    "training={ epochs = 2.0, batch_size = 6 }",
    "--set",
    "energy.training={ epochs = 2.0, batch_size = 6 }",
    "--validation",
    "0.25",
    "--validate-every",
    "2",
];

#[test]
fn the_best_network_of_ages_is_kept_and_predicts() {
    let dir = tempfile::tempdir().unwrap();
    let ages = generate_ages(&dir.path().join("ages"), 16, 24, Key::new(1)).unwrap();
    for method in ["ebm", "gaussian"] {
        let run = dir.path().join(format!("runs/{method}"));
        let data = ["--images", text(&ages.images), "--split", text(&ages.split), "--run", text(&run)];
        let train = [&["train", "age", "--method", method][..], &LITTLE, &data].concat();
        let [_, said] = succeeds(&train);
        assert!(said.contains("after 2 steps") && said.contains("kept: step "), "{said}");
        let record = std::fs::read_to_string(run.join("validation.jsonl")).unwrap();
        let steps: Vec<u64> = record
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64().unwrap())
            .collect();
        assert_eq!(steps, [2, 4, 6]);
        // There is nothing left to do, and nothing is done.
        let model = std::fs::read(run.join("model.safetensors")).unwrap();
        refused(&train, &[]);
        succeeds(&[&train[..], &["--resume"]].concat());
        assert_eq!(std::fs::read(run.join("model.safetensors")).unwrap(), model);
        assert_eq!(std::fs::read_to_string(run.join("validation.jsonl")).unwrap(), record);
        succeeds(&["eval", "age", "--run", text(&run), "--images", text(&ages.images), "--json"]);
    }
}

#[test]
fn a_network_of_poses_is_trained() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("pose");
    let train = [&["train", "head-pose", "--npz", BIWI, "--run", text(&run)][..], &LITTLE].concat();
    succeeds(&train);
    assert!(Saved::load(&run, None).unwrap().refinement.is_some());
    refused(&[&train[..], &["--method", "guassian"]].concat(), &["guassian"]);
}
