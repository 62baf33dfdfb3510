//! Exit codes of every command for damaged data, missing files and bad settings: docs/exit_codes.md.

use crate::common::program::{DETECTOR, command, fails, in_tree, said, succeeds, text};

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_nn::import::{load, metadata, save_safetensors_with};
use ebm_testing::files;

const FAILURE: i32 = 1;
const USAGE: i32 = 2;
const DATA: i32 = 3;

/// Two scenes; the mini detector cut in half, with a number that is none, and one that is of something else.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        let scenes = place.path("scenes");
        succeeds(&["data", "scenes", "--count", "2", "--seed", "4", "--out", &scenes]);
        let bytes = std::fs::read(DETECTOR).unwrap();
        std::fs::write(place.path("cut.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
        let (mut tensors, said) =
            (load(Path::new(DETECTOR), &Device::Cpu).unwrap(), metadata(Path::new(DETECTOR)).unwrap());
        let bias = tensors.get_mut("rpn.head.cls_logits.bias").unwrap();
        *bias = (bias.zeros_like().unwrap() / 0.0).unwrap();
        save_safetensors_with(Path::new(&place.path("nan.safetensors")), &tensors, &said).unwrap();
        let other = BTreeMap::from([("a".to_owned(), Tensor::zeros(2, DType::F32, &Device::Cpu).unwrap())]);
        save_safetensors_with(Path::new(&place.path("other.safetensors")), &other, &BTreeMap::new()).unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        text(&self.dir.path().join(name)).to_owned()
    }
}

#[test]
fn an_unknown_instruction_set_is_named() {
    let output = command(&["doctor"]).env("EBM_SIMD", "avx9").output().unwrap();
    let said = said(&output);
    assert!(output.status.code() == Some(FAILURE) && said.contains("EBM_SIMD"), "{said}");
}

#[test]
fn damaged_weights_are_data_that_are_not_what_they_should_be() {
    let place = Place::new();
    let [annotations, images] = ["scenes/annotations.json", "scenes/images"].map(|name| place.path(name));
    let data = ["--annotations", &annotations, "--images", &images];
    for name in ["cut.safetensors", "nan.safetensors", "other.safetensors"] {
        let weights = &place.path(name);
        let (run, out) = (&place.path("run"), &place.path("out.safetensors"));
        let branch = ["train", "branch", "--detector", weights, "--run", run];
        let detector = ["train", "detector", "--body", weights, "--run", run];
        fails(&["predict", "detection", &images, "--detector", weights], DATA, &[name]);
        fails(&[&["eval", "detection", "--detector", weights][..], &data].concat(), DATA, &[name]);
        fails(&[&branch[..], &data].concat(), DATA, &[name]);
        fails(&[&detector[..], &data].concat(), DATA, &[name]);
        fails(&["weights", "convert", weights, out], DATA, &[name]);
        let head = ["predict", "detection", &images, "--detector", DETECTOR, "--head", weights];
        fails(&head, DATA, &[name]);
        let tracker = ["track", &images, "--box", "1,1,20,20", "--run", weights, "--out", run];
        fails(&tracker, DATA, &[name]);
        let age = ["predict", "age", &images, "--run", weights];
        fails(&age, DATA, &[name]);
        assert!(!Path::new(run).exists() && !Path::new(out).exists());
    }
    // A damaged network of several is not left out.
    let [runs, network] = ["runs", "runs/direct_l2-0"].map(|name| place.path(name));
    std::fs::create_dir_all(&network).unwrap();
    std::fs::copy(place.path("cut.safetensors"), Path::new(&network).join("model.safetensors")).unwrap();
    fails(&["predict", "age", &images, "--run", &runs], DATA, &["direct_l2-0/model.safetensors"]);
    // A network of another shape is named too.
    let age = in_tree("weights/age");
    let (network, file) =
        (age.join("ebm-0/model.safetensors"), place.path("runs/direct_l2-0/model.safetensors"));
    let mut tensors = load(&network, &Device::Cpu).unwrap();
    tensors.values_mut().for_each(|tensor| *tensor = tensor.unsqueeze(0).unwrap());
    save_safetensors_with(Path::new(&file), &tensors, &metadata(&network).unwrap()).unwrap();
    std::fs::copy(age.join("trunk.safetensors"), place.path("runs/trunk.safetensors")).unwrap();
    let shapes = "of another shape: head.fc1_xy.bias (expected [256], found [1, 256])";
    fails(&["predict", "age", &images, "--run", &file], DATA, &[shapes]);
}

#[test]
fn damaged_data_are_too() {
    let place = Place::new();
    let [annotations, images] = ["scenes/annotations.json", "scenes/images"].map(|name| place.path(name));
    let json = std::fs::read_to_string(&annotations).unwrap();
    let cut = place.path("cut.json");
    std::fs::write(&cut, &json[..json.len() / 2]).unwrap();
    let data = ["--annotations", &cut, "--images", &images];
    fails(&[&["train", "detector", "--run", &place.path("run")][..], &data].concat(), DATA, &["cut.json"]);
    fails(&[&["eval", "detection", "--detector", DETECTOR][..], &data].concat(), DATA, &["cut.json"]);
    fails(&["data", "check", "coco", &cut, "--images", &images], DATA, &["cut.json"]);
    let csv = place.path("points.csv");
    std::fs::write(&csv, "x,y\n1,2\n3\n").unwrap();
    fails(
        &["reproduce", "toy", "--smoke", "--data", &csv, "--out", &place.path("runs")],
        DATA,
        &["points.csv"],
    );
    let image = place.path("image.jpg");
    std::fs::write(&image, [0xff, 0xd8, 0xff, 0xe0, 1, 2, 3]).unwrap();
    fails(&["predict", "detection", &image, "--detector", DETECTOR], DATA, &["image.jpg"]);
    // A run whose configuration was tampered with.
    let branch = ["train", "branch", "--cache", "--steps", "1", "--batch-size", "1", "--detector", DETECTOR];
    let own = ["--annotations", &annotations, "--images", &images, "--run", &place.path("tampered")];
    let train = [&branch[..], &own].concat();
    succeeds(&train);
    std::fs::write(place.path("tampered/config.toml"), "[[[").unwrap();
    fails(&[&train[..], &["--resume"]].concat(), DATA, &[]);
}

/// Commands that read no data, or say on a page what they cannot read.
const NO_DATA: [&str; 7] =
    ["completions", "data-scenes", "data-videos", "doctor", "man", "report", "settings"];

/// Bad data for every command that reads some, in a folder that [`bad_folder`] makes.
const BAD_DATA: &[&str] = &[
    "calibrate refiner --refiner w/model.safetensors --results bad.json --annotations bad.json --images . --out out",
    "calibrate tracker --run w/model.safetensors --sequences faces",
    "data check coco bad.json --images .",
    "data decode noise.jpg out.png",
    "data get resnet18 --offline --weights w",
    "demo --detector w/model.safetensors",
    "eval age --run w --images faces --split pose.csv",
    "eval detection --results bad.json --annotations bad.json",
    "eval head-pose --run w --images faces --split pose.csv",
    "eval table --run w short.csv",
    "eval tracking --dataset other --annotations faces --results faces",
    "export w/model.safetensors out.onnx",
    "fit ragged.csv --target y --run out",
    "fit word.csv --target y --run out",
    "fit short.csv --target y --run out",
    "fit short.csv --target z --run out",
    "fit noise.jpg --target y --run out",
    "predict age noise.jpg",
    "predict detection noise.jpg",
    "predict head-pose noise.jpg --run w",
    "predict table --run w short.csv",
    "refine --results bad.json --images . --refiner w/model.safetensors --out out",
    "reproduce age --scale paper --out out --datasets . --trunk w/model.safetensors",
    "reproduce detection --scale nuclei --out out --datasets . --weights w",
    "reproduce head-pose --scale paper --out out --datasets . --trunk w/model.safetensors",
    "reproduce tabular --data . --sets bostonHousing --out out",
    "reproduce toy --smoke --data ragged.csv --out out",
    "reproduce tracking --smoke --scale mini --backbone w/model.safetensors --out out",
    "track noise.jpg --run w/model.safetensors --box 1,1,2,2",
    "train age --run out --images faces --split pose.csv",
    "train branch --run out --detector w/model.safetensors --annotations bad.json --images .",
    "train detector --run out --annotations bad.json --images .",
    "train head-pose --run out --images faces --split bad.json",
    "train refiner --run out --body w/model.safetensors --annotations bad.json --images .",
    "train tracker --run out --sequences faces --backbone w/model.safetensors",
    "weights convert w/model.safetensors out.safetensors",
    "weights pack w out",
];

fn bad_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let noise = [0xff, 0xd8, 0xff, 0xe0, 1, 2, 3];
    for (name, content) in [
        ("w/model.safetensors", &b"junk"[..]),
        ("w/regressor.json", b"junk"),
        ("bad.json", b"{\"images\":"),
        ("noise.jpg", &noise),
        ("faces/noise.jpg", &noise),
        ("pose.csv", b"file,yaw,pitch,roll\nnoise.jpg,1,2,3\n"),
        ("ragged.csv", b"x,y\n1,2\n3\n"),
        ("word.csv", b"x,y\n1,2\n3,four\n"),
        ("short.csv", b"x,y\n1,2\n3,4\n"),
        ("nuclei/train.json", b"junk"),
        ("nuclei/val.json", b"junk"),
        ("nuclei/test.json", b"junk"),
        ("w/detector_nuclei.safetensors", b"junk"),
        ("utkface/utk_train.csv", b"junk"),
        ("biwi/BIWI_train.npz", b"junk"),
        ("bostonHousing/data/index_features.txt", b"junk"),
    ] {
        files::write(dir.path(), name, content);
    }
    dir
}

#[test]
fn every_command_that_reads_data_tells_bad_data_by_its_code() {
    let dir = bad_folder();
    let pages = dir.path().join("pages");
    let ebm = |line: &str| {
        let args: Vec<&str> = line.split(' ').collect();
        command(&args).current_dir(dir.path()).output().unwrap()
    };
    assert!(ebm("man --out pages").status.success());
    let pages = ebm_data::files::names_in(&pages).unwrap();
    let pages: Vec<String> = pages.iter().map(|page| page["ebm".len()..].replace(".1", "-")).collect();
    // A command without commands of its own: no other begins like it.
    let is_leaf = |name: &&String| pages.iter().filter(|page| page.starts_with(*name)).count() == 1;
    let asked = |name: &String| {
        let asked = BAD_DATA.iter().any(|line| format!("-{line}").replace(' ', "-").starts_with(name));
        asked || NO_DATA.iter().any(|other| *name == format!("-{other}-"))
    };
    let unasked: Vec<&String> = pages.iter().filter(is_leaf).filter(|name| !asked(name)).collect();
    assert!(unasked.is_empty(), "no bad data here for {unasked:?}");
    let wrong = BAD_DATA.iter().filter_map(|line| {
        let output = ebm(line);
        let said = said(&output);
        let right = output.status.code() == Some(DATA) && said.contains("error: ");
        (!right || said.contains("panicked")).then(|| format!("{line}: {:?}: {said}", output.status.code()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn absurd_numbers_of_threads_and_names_of_runs_are_refused_before_anything_is_done() {
    let place = Place::new();
    let out = &place.path("runs");
    fails(&["reproduce", "toy", "--smoke", "--threads", "1000000", "--out", out], USAGE, &["--threads"]);
    let many = ["predict", "detection", "x.jpg", "--density", "--samples", "1000000000"];
    fails(&many, USAGE, &["64..=100000"]);
    let output = command(&["doctor"]).env("RAYON_NUM_THREADS", "1000000").output().unwrap();
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(said(&output).contains("RAYON_NUM_THREADS is 1000000"));
    let [annotations, images] = ["scenes/annotations.json", "scenes/images"].map(|name| place.path(name));
    let data = ["--annotations", &annotations, "--images", &images, "--detector", DETECTOR];
    let name = &place.path("no name");
    fails(&[&["train", "branch", "--cache", "--run", name][..], &data].concat(), USAGE, &["no name"]);
    assert!(!Path::new(out).exists() && !Path::new(name).exists());
}

#[test]
fn what_is_not_there_is_no_damaged_file() {
    let place = Place::new();
    let [images, absent] = ["scenes/images", "absent.safetensors"].map(|name| place.path(name));
    fails(&["predict", "detection", &images, "--detector", &absent], FAILURE, &["absent"]);
    fails(&["data", "decode", &place.path("absent.jpg"), &place.path("out.png")], FAILURE, &["absent"]);
    let detector = ["predict", "detection", "--detector", DETECTOR];
    fails(&[&detector[..], &[&place.path("absent.jpg")]].concat(), FAILURE, &["absent"]);
}

#[test]
fn a_setting_of_nothing_is_a_matter_of_usage() {
    let place = Place::new();
    let [annotations, images] = ["scenes/annotations.json", "scenes/images"].map(|name| place.path(name));
    let data = ["--annotations", &annotations, "--images", &images, "--run", &place.path("run")];
    let train = [&["train", "detector"][..], &data].concat();
    fails(&[&train[..], &["--set", "base.lerning_rate=1"]].concat(), USAGE, &["learning_rate"]);
    fails(&[&train[..], &["--set", "base.steps='many'"]].concat(), USAGE, &["steps"]);
    fails(&[&train[..], &["--steps", "none"]].concat(), USAGE, &["--steps"]);
    let out = "of the command line: base.steps = 4000000000; it must be a whole number from 1 to 1e9";
    fails(&[&train[..], &["--steps", "4000000000"]].concat(), USAGE, &[out]);
    let out = "configuration mini: detector.roi.sampling_ratio = 1000000000; it must be a whole number from 0 to 64";
    fails(&[&train[..], &["--set", "detector.roi.sampling_ratio=1000000000"]].concat(), USAGE, &[out]);
    let toy = ["reproduce", "toy", "--out", &place.path("runs"), "--seeds", "4000000000"];
    fails(&toy, USAGE, &["models = 4000000000; it must be a whole number from 1 to 10000"]);
    fails(&["predict", "nothing"], USAGE, &["nothing"]);
    let table = place.path("table.csv");
    std::fs::write(&table, "x,y\n1,2\n").unwrap();
    let fit = ["fit", &table, "--target", "y", "--run", &place.path("run"), "--set"];
    fails(&[&fit[..], &["member=2"]].concat(), USAGE, &["members"]);
    fails(&[&fit[..], &["members=0"]].concat(), USAGE, &["members = 0"]);
    assert!(!Path::new(&place.path("run")).exists() && !Path::new(&place.path("runs")).exists());
}
