//! The program works in any folder, and finds weights where `ebm doctor` says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::program::{files_in, said, texts};

use ebm_base::Key;
use ebm_synth::faces::generate_ages;
use ebm_synth::videos::{VideoConfig, generate};
use serde_json::Value;

const EBM: &str = env!("CARGO_BIN_EXE_ebm");

/// The repository.
fn clone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The program called in a folder, with what `EBM_WEIGHTS` is there.
fn ebm(program: &Path, folder: &Path, weights: &str, args: &[&str]) -> Output {
    Command::new(program).current_dir(folder).env("EBM_WEIGHTS", weights).args(args).output().unwrap()
}

fn succeeds(output: Output) -> String {
    let [printed, _] = texts(output);
    assert!(!printed.is_empty());
    printed
}

/// A folder with nothing in it, a drawn face and a drawn video elsewhere.
struct Place {
    dir: tempfile::TempDir,
    face: String,
    frames: String,
    bbox: String,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ages = generate_ages(&dir.path().join("faces"), 64, 4, Key::new(1)).unwrap();
        let face = files_in(&ages.images).remove(0);
        let config = VideoConfig { frames: 6, ..VideoConfig::default() };
        let video = generate(&dir.path().join("videos"), &config, 1, Key::new(4)).unwrap().remove(0);
        let frames = video.frames.path(0).unwrap().parent().unwrap().to_str().unwrap().to_owned();
        let bbox = video.boxes[0].map(|number| number.to_string()).join(",");
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        Self { face: face.to_str().unwrap().to_owned(), frames, bbox, dir }
    }

    fn empty(&self) -> PathBuf {
        self.dir.path().join("empty")
    }
}

#[test]
fn what_is_in_the_program_is_what_is_in_the_repository() {
    let place = Place::new();
    let photograph = clone().join("crates/ebm-testing/fixtures/coco/val2017/000000343937.jpg");
    let track = ["track", &place.frames, "--box", &place.bbox];
    let age = ["predict", "age", &place.face];
    let detection = ["predict", "detection", photograph.to_str().unwrap()];
    let own = ["--detector", "weights/fastestdet.safetensors", "--refiner", "weights/refiner.safetensors"];
    for (command, files) in [
        (&track[..], &["--run", "weights/tracker"][..]),
        (&age, &["--run", "weights/age"]),
        (&[&age[..], &["--baseline", "none"]].concat(), &["--run", "weights/age"]),
        (&detection, &own),
    ] {
        let anywhere = succeeds(ebm(EBM.as_ref(), &place.empty(), "", command));
        assert_eq!(anywhere, succeeds(ebm(EBM.as_ref(), &clone(), "", command)), "{command:?}");
        let of_files = [command, files].concat();
        assert_eq!(anywhere, succeeds(ebm(EBM.as_ref(), &clone(), "", &of_files)), "{of_files:?}");
    }
    assert_eq!(std::fs::read_dir(place.empty()).unwrap().count(), 0);
}

#[test]
fn what_is_not_in_the_program_is_looked_for_in_the_folders_of_weights() {
    let place = Place::new();
    let weights = clone().join("weights").to_str().unwrap().to_owned();
    // As it is installed: a program with its share folder.
    let installed = place.dir.path().join("bin/ebm");
    let share = place.dir.path().join("share/ebm/weights/age");
    std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
    std::fs::hard_link(EBM, &installed).or_else(|_| std::fs::copy(EBM, &installed).map(drop)).unwrap();
    for name in ["trunk.safetensors", "ebm-0/model.safetensors", "cao-0/model.safetensors"] {
        let copy = share.join(name);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(Path::new(&weights).join("age").join(name), copy).unwrap();
    }
    let ages = ["predict", "age", &place.face, "--baseline", "cao"];
    let named = "eval tracking --run weights/age --dataset other --out figures --sequences";
    let named: Vec<&str> = named.split(' ').chain([place.frames.as_str()]).collect();
    let line = succeeds(ebm(EBM.as_ref(), &clone(), "", &ages));
    assert_eq!(line, succeeds(ebm(EBM.as_ref(), &place.empty(), &format!("/no/such:{weights}"), &ages)));
    assert_eq!(line, succeeds(ebm(&installed, &place.empty(), "", &ages)));
    // A path that begins with weights/ is looked for too: it is found, and is no tracker.
    let found = ebm(&installed, &place.empty(), "", &named);
    let message = said(&found);
    assert!(message.contains("share/ebm/weights/age"), "{message}");

    // Where it is in none of them, they are named.
    let detection = ["predict", "detection", &place.face, "--detector", "weights/detector_mini.safetensors"];
    let scratch = ["reproduce", "detection", "--scale", "mini", "--smoke"];
    for (command, name) in [(&ages[..], "age"), (&detection, "detector_mini"), (&scratch, "detector_mini")] {
        let output = ebm(EBM.as_ref(), &place.empty(), "/no/such", command);
        let message = said(&output);
        let places = ["/no/such, weights, ", "share/ebm/weights: put it into", "EBM_WEIGHTS"];
        assert!(!output.status.success() && message.contains(name), "{message}");
        assert!(places.iter().all(|part| message.contains(part)), "{message}");
    }
    succeeds(ebm(EBM.as_ref(), &place.empty(), &weights, &detection));
}

#[test]
fn doctor_says_where_weights_are_looked_for_and_what_is_there() {
    let place = Place::new();
    let weights = clone().join("weights").to_str().unwrap().to_owned();
    let said = succeeds(ebm(EBM.as_ref(), &place.empty(), &weights, &["doctor"]));
    for part in
        ["a tracker (track)", "EBM_WEIGHTS", "this folder's weights: nothing", "share/ebm/weights: nothing"]
    {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let said = succeeds(ebm(EBM.as_ref(), &place.empty(), &weights, &["doctor", "--json"]));
    let said: Value = serde_json::from_str(&said).unwrap();
    let found = said["weights"][0]["entries"].as_array().unwrap();
    assert!(["age", "refiner.safetensors", "tracker"].iter().all(|name| found.iter().any(|one| one == name)));
    assert_eq!(said["weights"].as_array().unwrap().len(), 3);
}
